"""Whatever ends a writer or its disk, the file opens, and what was written before is there."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gridwright.monitor.history import steady
from gridwright.monitor.history.questions import RangeQuestion
from gridwright.monitor.history.reading import StoredHistories
from gridwright.monitor.history.steady import HistoryWriter, OtherWriter, SteadyWriter
from tests.support.disks import other_mount
from tests.support.generated_history import generate_history
from tests.support.skips import root_only
from tests.unit.monitor.history.nodes import DISK, START, SampledNode

RATE = 1e6


def known(file: Path, start: float, end: float) -> dict[int, float]:
    """Seconds that are known, with what they tell."""
    (answer,) = StoredHistories({"n1": file}).courses(RangeQuestion((DISK[0],), start, end, 1))
    assert answer.absent == ""
    if not answer.series:
        return {}
    values = zip(range(int(answer.start_s), 1 << 40), answer.series[0].values, strict=False)
    return {second: value for second, value in values if value is not None}


def write_until_killed(file: Path, node: SampledNode, told: int) -> None:
    """In a child: write second after second, and tell each that is kept."""
    with HistoryWriter(file) as writer:
        while True:
            writer.add(node.sample({DISK: RATE}))
            os.write(told, f"{int(node.time)}\n".encode())
            writer.work()
            node.passes()


def killed_after(file: Path, node: SampledNode, seconds: int, more_bytes: int) -> int:
    """The last second that a writer told to have kept before it was killed, at no chosen instant."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_until_killed(file, node, write)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as lines:
        last = 0
        for number, line in enumerate(lines):
            last = int(line)
            if number == seconds:
                # Some work here puts the kill at another place each time.
                sum(range(more_bytes))
                os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return last


def test_a_writer_that_is_killed_at_any_instant_loses_the_last_second_at_most(tmp_path: Path) -> None:
    file, node, chance = tmp_path / "n1.history", SampledNode(), random.Random(20)  # noqa: S311 - no secret
    at = START
    for _ in range(60):
        node.time = at + 0.5
        last = killed_after(file, node, chance.randrange(1, 100), chance.randrange(1, 30_000))
        found = known(file, at, last + 1)
        # Its first second has nothing before it.
        assert set(found) >= set(range(at + 1, last + 1)), "a second that was told as kept is not there"
        assert list(found.values()) == pytest.approx([RATE] * len(found), rel=1e-3)
        at = last + chance.randrange(2, 60)
        node.at_s += 1000.0
    with HistoryWriter(file) as writer:
        while writer.work():
            pass
    whole = known(file, at - 3500, at)
    assert len(whole) > 2000
    assert list(whole.values()) == pytest.approx([RATE] * len(whole), rel=1e-3)


def cut_at(data: bytes, at: int) -> bytes:
    return data[:at]


def garbled_at(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(each ^ 0x5A for each in data[at : at + 64]) + data[at + 64 :]


@pytest.mark.parametrize("spoil", [cut_at, garbled_at])
def test_a_tail_that_was_not_written_whole_costs_the_seconds_in_it_and_no_more(
    tmp_path: Path, spoil: Callable[[bytes, int], bytes]
) -> None:
    """As after a loss of power: the file to which each second is appended ends anywhere."""
    file, node = tmp_path / "n1.history", SampledNode()
    writer, sizes = HistoryWriter(file), {}
    log = file.with_name("n1.history-wal")
    for number in range(40):
        writer.add(node.sample({DISK: RATE}))
        sizes[START + number] = log.stat().st_size
        node.passes()
    data, main = log.read_bytes(), file.read_bytes()
    writer.close()
    copy = tmp_path / "copy.history"
    tail = sizes[START + 36]
    # Each byte of the last transactions has one of these in its page, and the head of each page has all.
    places = [at for at in range(tail, len(data)) if (at - 32) % 4120 < 30 or at % 61 == 0]
    assert len(places) > 200
    for at in places:
        copy.write_bytes(main)
        copy.with_name("copy.history-wal").write_bytes(spoil(data, at))
        copy.with_name("copy.history-shm").unlink(missing_ok=True)
        kept = [second for second, size in sizes.items() if size <= at and second > START]
        found = known(copy, START, START + 60)
        assert set(found) >= set(kept)
        assert all(value == pytest.approx(RATE, rel=1e-3) for value in found.values())
    again = HistoryWriter(copy)
    again.add(node.sample({DISK: RATE}))
    node.passes()
    again.add(node.sample({DISK: RATE}))
    again.close()
    assert int(node.time) in known(copy, START, START + 60)


def test_a_file_that_is_no_history_any_more_is_put_aside_and_another_begun(tmp_path: Path) -> None:
    file, node = tmp_path / "n1.history", SampledNode()
    said: list[str] = []
    for spoilt in (b"no database, but as long as one" * 400, b"", b"SQLite format 3\0" + bytes(8000)):
        file.write_bytes(spoilt)
        begin_anew(file, node, said)
    assert len(said) == 2
    assert all("it is spoilt" in each and "history begins anew" in each for each in said)
    assert (tmp_path / "n1.history.spoilt").exists()


def begin_anew(file: Path, node: SampledNode, said: list[str]) -> None:
    writer = SteadyWriter(file, said.append)
    for _ in range(3):
        writer.add(node.sample({DISK: RATE}))
        node.passes()
    writer.close()
    assert int(node.time) - 1 in known(file, node.time - 10, node.time)


def test_of_a_file_that_is_damaged_what_can_be_read_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "whole.history"
    generate_history(file, START, 86400)
    data, whole = file.read_bytes(), by_fifty(file)
    copy, kept, said = tmp_path / "n1.history", list[int](), list[str]()
    pages, page = len(data) // 4096, os.urandom(4096)
    for number in [*range(1, 12), *range(12, pages, pages // 8)]:
        at = number * 4096
        copy.write_bytes(data[:at] + page + data[at + 4096 :])
        begin_anew(copy, SampledNode(time=START + 7200.5), said)
        found = by_fifty(copy)
        assert found == {second: pytest.approx(whole.get(second), rel=1e-6) for second in found}
        kept.append(len(found))
    assert all(each.endswith(("blocks of it could be read", "history begins anew")) for each in said)
    assert len(said) >= 5
    assert len(whole) > 1700
    # One table's first page takes all others with it, and any other page nothing but what is on it.
    assert sum(each < 0.9 * len(whole) for each in kept) <= 3, kept


def by_fifty(file: Path) -> dict[float, float]:
    """What was read in a day, by 50 seconds."""
    question = RangeQuestion((DISK[0],), START - 86400, START - 50, 50)
    (answer,) = StoredHistories({"n1": file}).courses(question)
    values = answer.series[0].values if answer.series else ()
    return {number * 50.0: value for number, value in enumerate(values) if value is not None}


@pytest.mark.parametrize(
    "table", ["seconds SET body", "orders SET keys", "pieces SET body", "contexts SET body"]
)
@pytest.mark.parametrize("spoilt", [b"no zlib", zlib.compress(b"[1]")])
def test_what_a_disk_gave_back_otherwise_is_a_gap(tmp_path: Path, table: str, spoilt: bytes) -> None:
    file, node = tmp_path / "n1.history", SampledNode()
    with HistoryWriter(file) as writer:
        for _ in range(200):
            writer.add(node.sample({DISK: RATE}))
            node.passes()
    with contextlib.closing(sqlite3.connect(file)) as base:
        base.execute(f"UPDATE {table} = ?", (spoilt,))
        base.commit()
    histories = StoredHistories({"n1": file})
    assert len(known(file, START, START + 200)) < 200
    assert len(histories.frame(START + 100, 10).nodes) == 1
    with HistoryWriter(file) as writer:
        for _ in range(700):
            writer.add(node.sample({DISK: RATE}))
            writer.work()
            node.passes()
    assert int(node.time) - 1 in known(file, node.time - 10, node.time)


def goes_on_and_says_so(file: Path, breaks: Callable[[], object], mends: Callable[[], object]) -> list[str]:
    """A minute of good seconds, one with a disk that takes nothing, one of good ones; what was said."""
    node, said = SampledNode(), list[str]()
    writer = SteadyWriter(file, said.append)
    for number in range(180):
        if number == 60:
            breaks()
        if number == 120:
            mends()
        writer.add(node.sample({DISK: RATE}))
        node.passes()
    writer.close()
    found = known(file, START, START + 180)
    assert set(found) >= {*range(START + 1, START + 60), *range(START + 125, START + 180)}
    assert len(found) < 150, "nothing was wrong with the disk"
    assert list(found.values()) == pytest.approx([RATE] * len(found), rel=1e-3)
    return said


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "RETRY_S", 0.0)


@root_only
@pytest.mark.usefixtures("at_once")
def test_on_a_full_disk_the_sampler_goes_on_and_says_so_once(tmp_path: Path) -> None:
    with other_mount(tmp_path / "disk", "tmpfs", "size=8m") as disk:
        ballast = disk / "ballast"

        def fill() -> None:
            with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
                while True:
                    file.write(bytes(4096))

        said = goes_on_and_says_so(disk / "n1.history", fill, ballast.unlink)
    assert [each.partition(": ")[2] for each in said] == [
        "history cannot be written, and has a gap: database or disk is full",
        "history is written again",
    ]


@root_only
@pytest.mark.usefixtures("at_once")
def test_on_a_disk_that_turned_read_only_the_sampler_goes_on(tmp_path: Path) -> None:
    with other_mount(tmp_path / "disk", "tmpfs") as disk:

        def remount(way: str) -> None:
            assert os.system(f"mount -o remount,{way} '{disk}' 2>/dev/null") in {0, 8192}  # noqa: S605

        file = disk / "n1.history"
        node, said = SampledNode(), list[str]()
        for way in ("rw", "ro", "rw"):
            remount(way)
            writer = SteadyWriter(file, said.append)
            for _ in range(60):
                writer.add(node.sample({DISK: RATE}))
                node.passes()
            writer.close()
        assert len(known(file, START, START + 180)) == 118
    (one,) = said
    assert "history cannot be written, and has a gap" in one
    assert "read-only" in one.lower()


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("at_once")
def test_on_a_disk_that_gives_errors_the_sampler_goes_on(tmp_path: Path) -> None:
    broken = files_no_longer_than(8192)
    said = goes_on_and_says_so(
        tmp_path / "n1.history", broken.__enter__, lambda: broken.__exit__(None, None, None)
    )
    assert [each.partition(": ")[2] for each in said] == [
        "history cannot be written, and has a gap: disk I/O error",
        "history is written again",
    ]


def test_a_history_has_one_writer(tmp_path: Path) -> None:
    file, node = tmp_path / "n1.history", SampledNode()
    first, second = SteadyWriter(file, print), SteadyWriter(file, print)
    first.add(node.sample())
    with pytest.raises(OtherWriter, match="another process writes this history"):
        second.add(node.sample())
    first.close()
    second.add(node.sample())
    second.close()
