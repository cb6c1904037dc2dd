"""A history that other users read: whatever they lock, it is written, keeps its limit, and can be read."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import signal
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gridwright.monitor.history import store
from gridwright.monitor.history.questions import RangeQuestion
from gridwright.monitor.history.steady import SteadyWriter
from gridwright.monitor.history.store import NUMBER, Generation
from gridwright.monitor.history.stored import StoredHistories
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all
from tests.support.skips import root_only
from tests.unit.monitor.history.nodes import DISK, START, SampledNode
from tests.unit.monitor.history.test_faults import known

MOST = 1_000_000
SHARED: dict[str, Any] = {"shared": True}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    open_to_all(tmp_path)
    (tmp_path / "history").mkdir(mode=0o755)
    return tmp_path / "history" / "n1.history"


@contextmanager
def mallory(file: Path) -> Iterator[None]:
    """What mallory does until the end: a transaction that stays open, and all locks that readers can have."""
    begun, begins = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            # The locks of the writer are those of its open files, which a fork has, too.
            os.closerange(3, begins)
            os.closerange(begins + 1, 256)
            as_user(MALLORY, lambda: hold_all(file, begins))
        os._exit(0)
    os.close(begins)
    try:
        assert os.read(begun, 1) == b"!"
        yield
    finally:
        os.close(begun)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def hold_all(file: Path, begins: int) -> None:
    parent, files = os.getppid(), dict[str, int]()
    with contextlib.suppress(sqlite3.Error):
        base = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, isolation_level=None)
        base.execute("BEGIN")
        base.execute("SELECT count(*) FROM pieces").fetchone()
    while os.getppid() == parent:
        for each in file.parent.iterdir():
            with contextlib.suppress(OSError):
                files[each.name] = os.open(each, os.O_RDONLY) if each.name not in files else files[each.name]
                fcntl.flock(files[each.name], fcntl.LOCK_EX | fcntl.LOCK_NB)
                if each.name != file.name:
                    fcntl.lockf(files[each.name], fcntl.LOCK_SH | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):
            os.write(begins, b"!")
            os.close(begins)
        time.sleep(0.05)


def write(writer: SteadyWriter, node: SampledNode, seconds: int) -> None:
    """Figures that cannot be packed."""
    for number in range(seconds):
        rises = {
            (DISK[0], f"xd{disk}"): math.sin((node.time + number) * disk) * 1e6 + 2e6 for disk in range(20)
        }
        writer.add(node.sample({**rises, DISK: 1e6}))
        node.passes()


@root_only
def test_a_reader_that_holds_a_transaction_and_all_locks_holds_up_nothing(file: Path) -> None:
    node, said, sizes = SampledNode(), list[str](), list[int]()
    writer = SteadyWriter(file, said.append, MOST, **SHARED)
    write(writer, node, 120)
    with mallory(file):
        for _ in range(16):
            write(writer, node, 250)
            sizes.append(sum(each.stat().st_size for each in file.parent.iterdir()))
        end = int(node.time)
        as_user(ALICE, lambda: all_is_there(file, end))
        writer.close()
        # A service that starts again is not kept from its file.
        writer = SteadyWriter(file, said.append, MOST, **SHARED)
        write(writer, node, 10)
        writer.close()
    assert said == []
    assert max(sizes) <= MOST, sizes
    # The first second of a writer has nothing before it.
    assert set(known(file, end - 600, end + 10)) >= {*range(end - 599, end + 9)} - {end}


def all_is_there(file: Path, end: int) -> None:
    found = known(file, end - 900, end)
    assert set(found) >= set(range(end - 899, end - 1))
    assert list(found.values()) == pytest.approx([1e6] * len(found), rel=1e-3)


@root_only
def test_no_lock_of_a_history_is_others_to_take(file: Path) -> None:
    writer = SteadyWriter(file, print, **SHARED)
    write(writer, SampledNode(), 3)
    lock = Path(f"{file}-lock")
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert not Path(f"{file}-shm").exists()
    writer.close()
    lock.chmod(0o644)  # as an earlier release made it
    writer = SteadyWriter(file, print, **SHARED)
    write(writer, SampledNode(time=START + 10.5), 3)
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    writer.close()


def test_what_is_read_while_the_log_is_moved_is_read_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOVE_S", 0.0)
    writer = SteadyWriter(file, print, **SHARED)
    node = SampledNode()
    write(writer, node, 70)
    blocks, reads = store.HistoryStore.blocks, list[int]()

    def meanwhile(self: store.HistoryStore, *values: int) -> list[store.StoredBlock]:
        found = blocks(self, *values)
        if len(reads) < 3:
            reads.append(1)
            # Those of the writer are not among the reads that are counted.
            monkeypatch.setattr(store.HistoryStore, "blocks", blocks)
            write(writer, node, 1)
            monkeypatch.setattr(store.HistoryStore, "blocks", meanwhile)
        return found

    monkeypatch.setattr(store.HistoryStore, "blocks", meanwhile)
    question = RangeQuestion((DISK[0],), START + 1, START + 69, 1)
    (answer,) = StoredHistories({"n1": file}).courses(question)
    assert answer.absent == ""
    assert len(reads) == 3
    assert all(value is not None for value in answer.series[0].values)
    writer.close()


def test_a_writer_that_died_while_it_moved_the_log_is_named_until_it_is_back(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_S", 0.1)
    writer = SteadyWriter(file, print, **SHARED)
    write(writer, SampledNode(), 20)
    writer.close()
    generation = Generation(file)
    with contextlib.suppress(KeyboardInterrupt), generation.moving():
        raise KeyboardInterrupt
    generation.close()
    question = RangeQuestion((DISK[0],), START + 1, START + 19, 1)
    (answer,) = StoredHistories({"n1": file}).courses(question)
    assert "its writer was ended while it wrote" in answer.absent
    writer = SteadyWriter(file, print, **SHARED)
    write(writer, SampledNode(time=START + 30.5), 2)
    writer.close()
    assert set(known(file, START, START + 20)) >= set(range(START + 1, START + 19))
    assert int.from_bytes(Path(f"{file}{NUMBER}").read_bytes(), "little") % 2 == 0
