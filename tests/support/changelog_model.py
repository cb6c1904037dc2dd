"""A Lustre as a reader of changelogs sees it: names, FIDs and changelogs of a directory, kept together.

Each change is made in a real directory and noted as the metadata server would (lustre/mdd/mdd_dir.c,
mdd_object.c, mdd_device.c of Lustre 2.15 to 2.17): which types have which FIDs, times that are noted once
between two clears, records that are kept for the slowest user, and none at all where nobody is registered.
`tests/lustre/test_changelogs.py` holds its records to those of a real Lustre.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.repository.changelog.records import ChangeRecord, ChangeType
from gridwright.repository.copytool.liblustreapi import Fid

_TIMES = (ChangeType.MTIME, ChangeType.CTIME, ChangeType.ATIME)


def oserror(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@dataclass
class MdtLog:
    """The changelog of one MDT."""

    index: int = 0
    last_user: int = 0
    users: dict[str, int] = field(default_factory=dict)
    records: list[ChangeRecord] = field(default_factory=list)
    cleared_at: int = 0
    held_back: list[ChangeRecord] = field(default_factory=list)
    """Have an index, and are not written yet."""

    def register(self) -> str:
        self.last_user += 1
        name = f"cl{self.last_user}"
        self.users[name] = self.index
        return name

    def remove(self, user: str) -> None:
        """Deregister, as Lustre does by itself with users that are idle."""
        del self.users[user]
        self._purge()

    def clear(self, user: str, last: int) -> None:
        assert last > 0, "0 gives up what nobody has read"
        if user not in self.users:
            raise oserror(errno.ENOENT)
        if not self.users[user] <= last <= self.index:
            raise oserror(errno.EINVAL)
        self.users[user] = last
        self._purge()

    def _purge(self) -> None:
        least = min(self.users.values(), default=self.index)
        self.records = [each for each in self.records if each.index > least]


@dataclass
class LustreModel:
    """One file system. Paths of changes are relative to the mount."""

    mount: Path
    mdts: int = 1
    logs: dict[str, MdtLog] = field(default_factory=dict)
    holds_back: bool = False
    """Whether records get an index and are written later."""
    refuses: dict[str, OSError] = field(default_factory=dict)
    """What calls raise, by their name."""
    hidden_links: int = 0
    """Names of a file that `trusted.link` has no room for."""
    asked: int = 0
    """Files whose paths were asked for."""
    _fids: dict[int, Fid] = field(default_factory=dict)
    _mdt_of: dict[Fid, int] = field(default_factory=dict)
    _made: int = 0
    _clock: int = 0
    _noted_at: dict[Fid, int] = field(default_factory=dict)
    _opened: dict[int, Fid] = field(default_factory=dict)
    """By descriptor: a file keeps its FID when its last name goes."""

    def __post_init__(self) -> None:
        for number in range(self.mdts):
            self.logs.setdefault(f"scratch-MDT{number:04x}", MdtLog())

    # What a reader asks

    def mdt_count(self) -> int:
        self._refuse("mdt_count")
        return len(self.logs)

    def fid_of(self, path: bytes) -> Fid:
        return self.fid(os.lstat(path))

    def records(self, mdt: str, first: int) -> Iterator[ChangeRecord]:
        self._refuse("records")
        for each in list(self.logs[mdt].records):
            if each.index >= first:
                yield each

    def clear(self, mdt: str, user: str, last: int) -> None:
        self._refuse("clear")
        self.logs[mdt].clear(user, last)
        self.logs[mdt].cleared_at = self._tick()

    def paths_of(self, fid: Fid) -> list[bytes]:
        self._refuse("paths_of")
        self.asked += 1
        top = os.fsencode(self.mount)
        found = []
        if self.fid(os.lstat(top)) == fid:
            return [b""]
        for directory, names, files in os.walk(top):
            for name in names + files:
                path = directory + b"/" + name
                if self.fid(os.lstat(path)) == fid:
                    found.append(path[len(top) + 1 :])
        return sorted(found)[: max(1, len(found) - self.hidden_links)] if found else []

    def _refuse(self, call: str) -> None:
        if call in self.refuses:
            raise self.refuses[call]

    # FIDs and records

    def fid(self, status: os.stat_result) -> Fid:
        """The FID of an inode: one of the time before FIDs, whose sequence is the inode, or a later one."""
        inode = status.st_ino
        if inode not in self._fids:
            self._made += 1
            is_old = inode < 1 << 32
            self._fids[inode] = (
                Fid(inode, self._made) if is_old else Fid(inode >> 24, inode & 0xFFFFFF, self._made)
            )
        return self._fids[inode]

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _fid_at(self, path: bytes) -> Fid:
        return self.fid(os.lstat(self._real(path)))

    def _parent(self, path: bytes) -> Fid:
        return self._fid_at(path.rpartition(b"/")[0])

    def _real(self, path: bytes) -> bytes:
        return os.fsencode(self.mount) + b"/" + path

    def _path(self, path: bytes) -> Path:
        return Path(os.fsdecode(self._real(path)))

    def _log_of(self, fid: Fid) -> MdtLog:
        names = sorted(self.logs)
        return self.logs[names[self._mdt_of.setdefault(fid, len(self._mdt_of) % len(names))]]

    def note(
        self,
        kind: ChangeType,
        target: Fid | None,
        parent: Fid | None = None,
        source: Fid | None = None,
        source_parent: Fid | None = None,
    ) -> None:
        about = target or source or parent
        assert about is not None
        log = self._log_of(about)
        if not log.users:
            return
        is_of_file = parent is None
        if kind in _TIMES and is_of_file and self._noted_at.get(about, 0) > log.cleared_at:
            return
        log.index += 1
        if is_of_file:
            self._noted_at[about] = self._tick()
        record = ChangeRecord(log.index, kind, 0, target, parent, source, source_parent)
        (log.held_back if self.holds_back else log.records).append(record)

    def write_held_back(self) -> None:
        """Write records that have had an index for a while."""
        for log in self.logs.values():
            log.records = sorted([*log.records, *log.held_back], key=lambda each: each.index)
            log.held_back = []

    def _gone(self, status: os.stat_result) -> None:
        """A file has lost its last name: its inode may be given to another one, with another FID."""
        if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1:
            self._fids.pop(status.st_ino, None)

    # Changes

    def create(self, path: bytes, content: bytes = b"") -> None:
        descriptor = os.open(self._real(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        fid = self.fid(os.fstat(descriptor))
        self.note(ChangeType.CREATE, fid, self._parent(path))
        os.write(descriptor, content)
        os.close(descriptor)
        self.note(ChangeType.CLOSE, fid)

    def mkdir(self, path: bytes) -> None:
        self._path(path).mkdir()
        self.note(ChangeType.MKDIR, self._fid_at(path), self._parent(path))

    def link(self, path: bytes, new: bytes) -> None:
        os.link(self._real(path), self._real(new), follow_symlinks=False)
        self.note(ChangeType.HARDLINK, self._fid_at(new), self._parent(new))

    def symlink(self, target: bytes, path: bytes) -> None:
        self._path(path).symlink_to(os.fsdecode(target))
        self.note(ChangeType.SOFTLINK, self._fid_at(path), self._parent(path))

    def unlink(self, path: bytes) -> None:
        self._remove(path, os.unlink, ChangeType.UNLINK)

    def rmdir(self, path: bytes) -> None:
        self._remove(path, os.rmdir, ChangeType.RMDIR)

    def _remove(self, path: bytes, remove: Callable[[bytes], None], kind: ChangeType) -> None:
        status = os.lstat(self._real(path))
        fid, parent = self.fid(status), self._parent(path)
        remove(self._real(path))
        self._gone(status)
        self.note(kind, fid, parent)

    def rename(self, path: bytes, new: bytes) -> None:
        moved, before, after = self._fid_at(path), self._parent(path), self._parent(new)
        over = os.lstat(self._real(new)) if os.path.lexists(self._real(new)) else None
        over_fid = self.fid(over) if over is not None else None
        self._path(path).rename(self._path(new))
        if over_fid == moved:
            return  # Two names of one file: POSIX has nothing happen.
        if over is not None:
            self._gone(over)
        self.note(ChangeType.RENAME, over_fid, after, moved, before)

    def chmod(self, path: bytes, mode: int) -> None:
        self._path(path).chmod(mode)
        self.note(ChangeType.SETATTR, self._fid_at(path))

    def touch(self, path: bytes, mtime_ns: int) -> None:
        os.utime(self._real(path), ns=(mtime_ns, mtime_ns), follow_symlinks=False)
        self.note(ChangeType.MTIME, self._fid_at(path))

    def truncate(self, path: bytes, size: int) -> None:
        os.truncate(self._real(path), size)
        self.note(ChangeType.TRUNCATE, self._fid_at(path))

    def setxattr(self, path: bytes, value: bytes) -> None:
        os.setxattr(self._real(path), "user.owner", value)
        self.note(ChangeType.SETXATTR, self._fid_at(path))

    def open(self, path: bytes) -> int:
        descriptor = os.open(self._real(path), os.O_WRONLY)
        self._opened[descriptor] = self.fid(os.fstat(descriptor))
        return descriptor

    def write_and_close(self, descriptor: int, content: bytes) -> None:
        """What is written to an open file, whatever became of its names, is told when it is closed."""
        os.write(descriptor, content)
        os.close(descriptor)
        self.note(ChangeType.CLOSE, self._opened.pop(descriptor))
