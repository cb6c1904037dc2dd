"""A rebalance goes on where the last one was killed, and searches anew where it was for something else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from gridwright.filesystems.layout import FileLayout, FilePlacement, FileSearch, Move
from gridwright.filesystems.lustre_client.layout import plain
from gridwright.layouts.rebalance import MoveJournal, Rebalance, RebalanceOrder, Rebalancer

MIB = 2**20


class Mover:
    """A file system whose files have all gone since they were found."""

    def __init__(self) -> None:
        self.searched: list[tuple[Sequence[str], bool]] = []

    def targets(self) -> int:
        return 8

    def excess(self) -> Mapping[int, int]:
        return {}

    def search(
        self,
        places: Sequence[str],
        at_least_bytes: int,
        wanted: FileLayout,
        full: Collection[int],
        *,
        may_be_gone: bool = False,
    ) -> FileSearch:
        self.searched.append((places, may_be_gone))
        return FileSearch(unread=1)

    def move(self, file: FilePlacement, layout: FileLayout, bytes_per_s: float) -> Move:
        raise AssertionError(file.path)


def rebalance(mover: Mover, path: Path, at_least: int) -> Rebalance:
    with MoveJournal(path) as journal:
        rebalancer = Rebalancer(
            mover, _run, journal, busy=lambda: None, stop=lambda: False, tell=lambda _: None
        )
        return rebalancer.rebalance(order(at_least))


def _run(command: Sequence[str], *, timeout_s: float = 30.0) -> Any:
    raise AssertionError(command)


def order(at_least: int) -> RebalanceOrder:
    return RebalanceOrder(
        library="data", places=["/l"], layout=plain(4), options=["-c", "4"], at_least_bytes=at_least,
        bytes_per_s=200e6,
    )  # fmt: skip


def killed(path: Path, at_least: int) -> Path:
    """The journal of one that was killed before its only file."""
    told = order(at_least)
    with MoveJournal(path) as journal:
        journal.begin(told.key, told.places)
        journal.write({"do": "found", "paths": ["/l/last"]}, {"do": "searched"})
    return path


def test_the_last_file_of_a_killed_one_may_have_gone_and_it_comes_to_its_end(tmp_path: Path) -> None:
    path, mover = killed(tmp_path / "data.jsonl", 16 * MIB), Mover()
    assert rebalance(mover, path, 16 * MIB).resumed
    assert not rebalance(mover, path, 16 * MIB).resumed
    assert mover.searched == [(["/l/last"], True), (["/l"], False)]


def test_what_one_for_larger_files_has_left_is_not_all_of_one_for_smaller_ones(tmp_path: Path) -> None:
    path, mover = killed(tmp_path / "data.jsonl", 16 * MIB), Mover()
    assert not rebalance(mover, path, 1).resumed
    assert mover.searched == [(["/l"], False)]
