"""The parts of lazy load that need no events: what is here, what is fetched next, what systemd is told."""

from __future__ import annotations

import array
import fcntl
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.repository.lazy import control, gate, relay, systemd
from gridwright.repository.lazy.fetching import Fetch, FetchQueue, ReadAhead, Urgency, runs
from gridwright.repository.lazy.loaded_ranges import (
    MOST_CHUNKS,
    DamagedRanges,
    LoadedRanges,
    chunk_bytes,
    decode,
    encode,
)
from gridwright.repository.references import ObjectReference
from tests.support.skips import root_only

MIB = 1 << 20


def reference(size: int, etag: str = "e") -> ObjectReference:
    return ObjectReference("s3://site", "key", etag, None, size)


@given(st.integers(1, 1 << 50))
def test_all_sizes_have_bits_that_fit_an_attribute(size: int) -> None:
    ranges = LoadedRanges.none_of(size)
    assert ranges.chunks <= MOST_CHUNKS
    assert ranges.chunk == chunk_bytes(size)
    assert len(encode(ranges, reference(size))) <= 2048 + 64
    assert not ranges.is_complete
    ranges.add(0, ranges.chunks)
    assert ranges.is_complete
    assert ranges.missing(0, size) == []


@given(st.data())
def test_what_is_missing_of_a_range_is_what_was_not_added(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40 * MIB))
    ranges = LoadedRanges.none_of(size)
    here = data.draw(st.sets(st.integers(0, ranges.chunks - 1)))
    for number in here:
        ranges.add(number, 1)
    offset, count = data.draw(st.integers(0, 45 * MIB)), data.draw(st.integers(1, 45 * MIB))
    touched = {at // MIB for at in (*range(offset, min(offset + count, size), MIB),)}
    if offset < size:
        touched.add((min(offset + count, size) - 1) // MIB)
    assert ranges.missing(offset, count) == sorted(touched - here)
    kept = decode(encode(ranges, reference(size)), reference(size))
    assert kept == ranges


def test_a_range_of_no_bytes_reaches_to_the_end() -> None:
    assert LoadedRanges.none_of(3 * MIB).missing(MIB, 0) == [1, 2]


def test_what_is_beyond_a_cut_is_never_missing() -> None:
    ranges = LoadedRanges.none_of(4 * MIB)
    ranges.limit = MIB + 5
    assert ranges.missing(0, 4 * MIB) == [0, 1]
    assert ranges.bytes_of(0, 4) == (0, MIB + 5)
    ranges.add(0, 2)
    assert ranges.is_complete


@pytest.mark.parametrize(
    ("value", "etag", "what"),
    [
        (b"", "e", "damaged"),
        (b"\x63" * 40, "e", "newer release"),
        (None, "other", "another object"),
    ],
)
def test_what_cannot_be_read_is_no_answer(value: bytes | None, etag: str, what: str) -> None:
    if value is None:
        value = encode(LoadedRanges.none_of(MIB), reference(MIB))
    with pytest.raises(DamagedRanges, match=what):
        decode(value, reference(MIB, etag))


def test_a_size_that_does_not_fit_is_no_answer() -> None:
    value = encode(LoadedRanges.none_of(MIB), reference(MIB))
    with pytest.raises(DamagedRanges, match="does not fit"):
        decode(value + b"\0", reference(MIB))


def test_who_waits_comes_before_who_reads_ahead_and_both_before_the_background() -> None:
    queue: FetchQueue[str] = FetchQueue()
    late = Fetch("late", 0, 1, Urgency.BACKGROUND)
    for fetch in (late, Fetch("ahead", 0, 1, Urgency.AHEAD), Fetch("awaited", 0, 1, Urgency.AWAITED)):
        queue.put(fetch)
    queue.hurry(late, Urgency.AWAITED)
    taken = [queue.take() for _ in range(3)]
    assert [fetch.file for fetch in taken if fetch] == ["awaited", "late", "ahead"]
    queue.close()
    assert queue.take() is None


@given(st.sets(st.integers(0, 60)), st.integers(1, 8))
def test_runs_are_all_chunks_once_in_order(chunks: set[int], most: int) -> None:
    found = list(runs(sorted(chunks), most))
    assert [number for first, count in found for number in range(first, first + count)] == sorted(chunks)
    assert all(count <= most for _, count in found)


def test_only_who_goes_on_has_more_loaded_ahead_of_him() -> None:
    ahead = ReadAhead()
    assert [ahead.after((1, 1), place, place, 4) for place in (0, 0, 1, 1, 2, 3, 4)] == [0, 0, 1, 1, 2, 4, 4]
    assert ahead.after((1, 1), 40, 40, 4) == 0
    assert ahead.after((1, 1), 12, 12, 4) == 0
    assert ahead.after((2, 2), 5, 5, 4) == 0


def test_requests_and_answers_cross_whole_with_their_descriptor(tmp_path: Path) -> None:
    mine, its = relay.pair()
    with mine, its, (tmp_path / "file").open("w+b") as file:
        file.write(b"content")
        file.flush()
        request = relay.LoadRequest(relay.Wish.ACCESS, 7, 42, 1 << 40, 4096, file.fileno())
        relay.send_request(mine, request)
        found = relay.receive_request(its)
        assert found is not None
        assert (found.number, found.pid, found.offset, found.count) == (7, 42, 1 << 40, 4096)
        assert os.pread(found.descriptor, 7, 0) == b"content"
        os.close(found.descriptor)
        relay.send_answer(its, relay.LoadAnswer(7, 5, 1 << 33))
        assert relay.receive_answer(mine) == relay.LoadAnswer(7, 5, 1 << 33)
        mine.close()
        assert relay.receive_request(its) is None


def test_systemd_keeps_a_descriptor_and_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = tmp_path / "notify"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
        (tmp_path / "file").open("wb") as file,
    ):
        listening.bind(str(address))
        monkeypatch.setenv("NOTIFY_SOCKET", str(address))
        systemd.keep(file.fileno())
        assert listening.recv(200) == b"FDSTOREREMOVE=1\nFDNAME=gridwright-events"
        text, ancillary, *_ = listening.recvmsg(200, 100)
        assert text.startswith(b"FDSTORE=1\nFDNAME=gridwright-events")
        descriptors = array.array("i", ancillary[0][2])
        assert os.fstat(descriptors[0]).st_ino == os.fstat(file.fileno()).st_ino
        os.close(descriptors[0])
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_FDNAMES", "stored")
    assert systemd.kept_descriptor() is None
    monkeypatch.setenv("LISTEN_PID", "1")
    monkeypatch.setenv("LISTEN_FDNAMES", "gridwright-events")
    assert systemd.kept_descriptor() is None


@root_only
def test_a_closed_directory_gets_back_what_it_had_also_after_kills(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o2750)
    os.chown(place, 12, 34)
    opened = os.open(place, os.O_RDONLY)
    try:
        assert gate.close(opened)
        assert not gate.close(opened)
        assert gate.is_closed(opened)
        # As a kill leaves it between root's having it and its permissions.
        os.fchmod(opened, 0o750)
        assert not gate.is_closed(opened)
        assert gate.close(opened)
        assert gate.open_again(opened)
        assert not gate.open_again(opened)
        status = place.stat()
        assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o2750, 12, 34)
    finally:
        os.close(opened)


def test_what_killed_processes_left_in_run_goes_and_what_living_ones_have_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    monkeypatch.setattr(control, "RUN_DIRECTORY", run)
    living, killed = tmp_path / "living", tmp_path / "killed"
    lock = control.take_lock(str(living))
    # A killed process leaves the files, and nobody has the lock.
    os.close(control.take_lock(str(killed)))
    next(each for each in run.glob("*.lock") if not is_held(each)).with_suffix(".socket").touch()
    assert len(list(run.iterdir())) == 3

    control.remove_left_behind()

    assert [is_held(each) for each in run.iterdir()] == [True]
    with pytest.raises(GridwrightError, match="another process serves it"):
        control.take_lock(str(living))
    control.give_lock_back(str(living), lock)
    assert list(run.iterdir()) == []
    os.close(control.take_lock(str(living)))


def is_held(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
