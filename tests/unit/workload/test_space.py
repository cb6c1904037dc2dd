"""Room for the data set and for what launches write at once, checked before anything is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.workload.datasets import catalogue
from gridwright.workload.datasets.catalogue import SpaceNeeds, check_space, needs, table_bytes
from gridwright.workload.messages import scale
from gridwright.workload.programs.program import program_of

MIB = 1 << 20


class Disk:
    """Says how much is free: `os.statvfs` with 1 MiB blocks."""

    def __init__(self) -> None:
        self.free = 100

    def __call__(self, _: object) -> Any:
        blocks = {"f_bavail": self.free, "f_blocks": 200, "f_frsize": MIB}
        return type("Status", (), blocks)()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    found = Disk()
    monkeypatch.setattr(os, "statvfs", found)
    return found  # type: ignore[return-value]


@pytest.fixture
def libraries(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / name for name in ("data", "work", "util")}
    for path in found.values():
        path.mkdir()
    return found


def test_libraries_of_one_disk_are_added_up(disk: Disk, libraries: dict[str, Path]) -> None:
    check_space(libraries, SpaceNeeds(30 * MIB, 30 * MIB, 30 * MIB))
    with pytest.raises(GridwrightError) as caught:
        check_space(libraries, SpaceNeeds(30 * MIB, 60 * MIB, 10 * MIB))
    assert caught.value.status == ExitStatus.ENVIRONMENT
    (problem,) = caught.value.problems
    assert problem.where == str(libraries["data"])
    for words in ("for data", "for work", "for util", "not enough space"):
        assert words in problem.what
    assert problem.remedy is not None
    assert "--scale" in problem.remedy


def test_a_part_of_the_disk_stays_free(disk: Disk, libraries: dict[str, Path]) -> None:
    check_space(libraries, SpaceNeeds(98 * MIB, 0, 0))
    with pytest.raises(GridwrightError):
        check_space(libraries, SpaceNeeds(99 * MIB, 0, 0))


def test_each_file_system_that_is_too_small_is_named(
    monkeypatch: pytest.MonkeyPatch, disk: Disk, libraries: dict[str, Path]
) -> None:
    # A file system of its own on every Linux.
    other = dict(libraries) | {"work": Path("/proc")}
    disk.free = 10
    with pytest.raises(GridwrightError) as caught:
        check_space(other, SpaceNeeds(20 * MIB, 20 * MIB, 1 * MIB))
    assert [problem.where for problem in caught.value.problems] == [str(other["data"]), str(other["work"])]
    assert "for work" not in caught.value.problems[0].what
    assert "for data" not in caught.value.problems[1].what


def test_streams_run_at_once_and_their_launches_do_not() -> None:
    tiny = scale("tiny")
    one = needs(tiny, [], [["sort"]], keep=False)
    assert needs(tiny, [], [["sort", "sort"]], keep=False) == one
    assert needs(tiny, [], [["sort"], ["sort"]], keep=False).work == pytest.approx(2 * one.work, abs=2)
    assert needs(tiny, [], [["sort", "sort"]], keep=True).work == pytest.approx(2 * one.work, abs=2)
    assert needs(tiny, [], [[None]], keep=False) == SpaceNeeds(0, 0, 0)


def test_only_what_is_missing_needs_space_in_data() -> None:
    tiny = scale("tiny")
    (table, *_) = program_of("sort").tables
    asked = needs(tiny, [(table, 0), (table, 1)], [["sort"]], keep=False)
    assert asked.data >= 2 * table_bytes(table, tiny)
    assert needs(tiny, [], [["sort"]], keep=False).data == 0


def test_what_a_table_takes_is_no_less_than_its_file(tmp_path: Path) -> None:
    from gridwright.workload.datasets.catalogue import TABLES
    from gridwright.workload.datasets.writer import write_table

    units = dict.fromkeys(TABLES, 4000)
    for name in ("accounts", "transactions"):
        made = write_table(TABLES[name], tmp_path / name, units=units, seed=1, copy=0)
        expected = units[name] * TABLES[name].rows_per_unit * TABLES[name].row_bytes
        assert made.bytes_ <= expected * catalogue._UNCERTAINTY + (1 << 16)
