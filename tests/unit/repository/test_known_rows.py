"""What is known of any file is a row that can be written and read: one file ends nothing."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gridwright.repository import file_clock
from gridwright.repository.file_clock import UNKNOWN, FileClock, is_stored_as
from gridwright.repository.known_file import KnownFile, stamp_of
from gridwright.repository.making import note_here
from gridwright.repository.object_format import LATEST_NS
from gridwright.repository.scan import Action, action_for
from gridwright.repository.sending import Sending, row_of
from gridwright.repository.store import SmallContent, WrittenObject
from tests.support.repositories import opened_without_store

TIMES = st.integers(-(2**63) * 10**9, 2**63 * 10**9) | st.integers(-(2**63) - 2, 2**63 + 2)
UNSIGNED = st.integers(0, 2**64 - 1)


@dataclass(frozen=True)
class Status:
    """What statx(2) can say of a file."""

    st_mode: int
    st_ino: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_size: int
    st_blocks: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int

    @property
    def seen(self) -> os.stat_result:
        return cast("os.stat_result", self)


STATUSES = st.builds(
    Status,
    st.sampled_from([stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK]).flatmap(
        lambda kind: st.integers(0, 0o7777).map(lambda mode: kind | mode)
    ),
    UNSIGNED, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1),
    st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), TIMES, TIMES, TIMES,
)  # fmt: skip


NOTHING = Status(stat.S_IFREG, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(status=STATUSES, name=st.binary(min_size=1, max_size=40).filter(lambda each: b"/" not in each))
def test_any_file_is_a_row_or_is_named(tmp_path: Path, status: Status, name: bytes) -> None:
    opened = opened_without_store(tmp_path)
    try:
        sending = Sending(b"d/" + name, "key", status.seen, None, SmallContent(b"target"), None, UNKNOWN)
        row = row_of(opened, sending, WrittenObject("etag", None, None), None, None)
        try:
            opened.known.put(row)
        except OSError:
            # Such an owner is that of no file, or the name leads elsewhere.
            assert max(status.st_uid, status.st_gid) == 2**32 - 1 or name in (b".", b"..") or b"\0" in name
            return
        opened.known.flush()
        found = opened.known.get(row.path)
        assert found == row
        assert opened.known.by_inode(status.st_ino) == [row]
        opened.known.first_names.keep(status.st_ino, row.path)
        assert opened.known.first_names.get(status.st_ino) == row.path
        note_here(opened, row, status.seen)
        assert opened.known.stamps([row.path])[row.path][2:] == (found.mtime_ns, UNKNOWN, found.inode)
    finally:
        opened.known.forget(b"d/" + name)
        opened.close()


@given(STATUSES, STATUSES)
@example(replace(NOTHING, st_mtime_ns=1, st_ctime_ns=1), NOTHING)
def test_a_file_is_only_untouched_where_all_that_tells_is_the_same(one: Status, other: Status) -> None:
    row = _row(one)
    other = replace(other, st_mode=one.st_mode, st_uid=one.st_uid, st_gid=one.st_gid)
    if one.st_ctime_ns != UNKNOWN:
        assert action_for(one.seen, row) is None
    for name in ("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino"):
        changed = replace(one, **{name: getattr(other, name)})
        # A file system that keeps whole seconds would have kept such an mtime so.
        is_stored = name == "st_mtime_ns" and is_stored_as(row.mtime_ns, stamp_of(changed.seen)[2])
        is_same = is_stored or stamp_of(changed.seen) == stamp_of(one.seen)
        is_directory = stat.S_ISDIR(one.st_mode)
        if not is_same and not is_directory:
            assert action_for(changed.seen, row) is not None
    assert action_for(one.seen, replace(row, ctime_ns=UNKNOWN)) is Action.COMPARE


def _row(status: Status) -> KnownFile:
    _, size, mtime_ns, ctime_ns, inode = stamp_of(status.seen)
    kept = status.st_mode & ~(stat.S_ISUID if stat.S_ISDIR(status.st_mode) else stat.S_ISUID | stat.S_ISGID)
    return KnownFile(
        path=b"file", mode=kept, uid=status.st_uid, gid=status.st_gid, size=size, blocks=0, atime_ns=0,
        mtime_ns=mtime_ns, ctime_ns=ctime_ns, inode=inode, links=1, key="file", etag="", version_id=None,
        crc64=None, target=None, xattrs=None, link_of=None, is_name_only=False,
    )  # fmt: skip


@pytest.mark.parametrize("grain", [1, 100, 1000, 10**9])
@given(time_ns=st.integers(-LATEST_NS + 2 * 10**9, LATEST_NS))
def test_a_time_is_the_same_as_file_systems_keep_it(grain: int, time_ns: int) -> None:
    assert is_stored_as(time_ns, time_ns // grain * grain)
    assert not is_stored_as(time_ns, time_ns // grain * grain - 10**9)


class _Disk:
    """A file system whose clock a test sets, with steps of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_local: bool, step_ns: int) -> None:
        self.now_ns, self.step_ns = 10**18 + 123_456_789, step_ns
        monkeypatch.setattr(FileClock, "_ctime_after_change", lambda _: self.time_ns)
        monkeypatch.setattr(file_clock, "_is_of_this_kernel", lambda _: is_local)
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(time, "sleep", self._sleep)

    @property
    def time_ns(self) -> int:
        return self.now_ns // self.step_ns * self.step_ns

    def _sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * 10**9)


@pytest.mark.parametrize(
    ("is_local", "step_ns", "age_ns"),
    [(True, 4_000_000, 25_000_000), (False, 10**9, 4 * 10**9), (False, 1, 3 * 10**9)],
    ids=["ticks", "whole seconds", "a server"],
)
def test_a_ctime_is_known_when_it_is_older_than_the_look(
    monkeypatch: pytest.MonkeyPatch, is_local: bool, step_ns: int, age_ns: int
) -> None:
    disk = _Disk(monkeypatch, is_local=is_local, step_ns=step_ns)
    clock, changed = FileClock(0), disk.time_ns
    status = Status(stat.S_IFREG, 1, 1, 0, 0, 0, 0, 0, 0, changed).seen
    clock.read()
    assert clock.recorded_ctime(status) == UNKNOWN
    disk.now_ns += age_ns
    # What was looked at before the clock was read is no older for that.
    assert clock.recorded_ctime(status) == UNKNOWN
    clock.read(at_once=True)
    assert clock.recorded_ctime(status) == changed


def test_a_library_whose_clock_cannot_be_read_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(_: FileClock) -> int:
        raise OSError

    monkeypatch.setattr(FileClock, "_ctime_after_change", refused)
    monkeypatch.setattr(file_clock, "_is_of_this_kernel", lambda _: False)
    clock = FileClock(0)
    clock.read()
    (tmp_path / "file").touch()
    assert clock.recorded_ctime((tmp_path / "file").stat()) == UNKNOWN
