"""Files whose names were given to placeholders: each has a name beside until it is sure that nobody opens it.

Who resolved the name before the swap opens the old file, however late; so it stays, under a lease, in a
directory of its own until a time of grace is over. Where somebody has come, it gets its name back. A kill at
any step leaves that directory, and the next command that changes something puts back what lies in it
(`put_back_left`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass

from gridwright.repository.below import ASIDE, c_library, is_part, same_times
from gridwright.repository.known_file import KnownFile
from gridwright.repository.lazy.open_files import has_lease, is_open_elsewhere, take_lease
from gridwright.repository.references import StateError, read_state
from gridwright.repository.settings import OpenRepository

FACT = "releasing"
"""Whether such directories may be there, which is noted before the first one is made."""
_OTHER = b".gridwright-other"
_EXCHANGE = 2
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class AsideDirectory:
    """A directory beside a file, of whoever runs this alone. Close it in the end."""

    beside: int
    """The open directory that both lie in."""
    own: bytes
    """Its name there."""
    descriptor: int

    @classmethod
    def make(cls, beside: int) -> AsideDirectory:
        """Make one that nobody else can have made. Raises OSError."""
        own = ASIDE + secrets.token_hex(8).encode()
        with same_times(beside):
            os.mkdir(own, 0o700, dir_fd=beside)
        return cls.open(beside, own)

    @classmethod
    def open(cls, beside: int, own: bytes) -> AsideDirectory:
        """Open one. Raises OSError, PermissionError where it is somebody else's."""
        descriptor = os.open(own, _DIRECTORY, dir_fd=beside)
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            os.close(descriptor)
            raise PermissionError(errno.EPERM, "it is somebody else's")
        return cls(os.dup(beside), own, descriptor)

    def swap(self, entry: bytes, name: bytes) -> None:
        """Have an entry of this directory and a name beside it change places. Raises OSError.

        Each file has a name at any moment, and the name beside a file.
        """
        with same_times(self.beside):
            if c_library().renameat2(self.descriptor, entry, self.beside, name, _EXCHANGE) == 0:
                return
            number = ctypes.get_errno()
            if number not in (errno.EINVAL, errno.ENOSYS):
                raise OSError(number, os.strerror(number))
            # NFS, Lustre and some others do not exchange names.
            os.link(name, _OTHER, src_dir_fd=self.beside, dst_dir_fd=self.descriptor, follow_symlinks=False)
            os.rename(entry, name, src_dir_fd=self.descriptor, dst_dir_fd=self.beside)
            os.rename(_OTHER, entry, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def inode(self, entry: bytes) -> int | None:
        """The inode of an entry; None where there is none. Raises OSError."""
        try:
            return os.stat(entry, dir_fd=self.descriptor, follow_symlinks=False).st_ino
        except FileNotFoundError:
            return None

    def remove(self, entry: bytes) -> None:
        """Remove an entry, and the directory when it is empty. Raises OSError."""
        with suppress(FileNotFoundError):
            os.unlink(entry, dir_fd=self.descriptor)
        with suppress(FileNotFoundError), same_times(self.beside):
            os.rmdir(self.own, dir_fd=self.beside)

    def close(self) -> None:
        """Close both directories."""
        os.close(self.descriptor)
        os.close(self.beside)

    def put_back(self, name: bytes, placeholder: int) -> str | None:
        """Give the file here its name back from an open placeholder, and remove that; else why not.

        Raises OSError.
        """
        if not _is_untouched(placeholder) or not take_lease(placeholder):
            return _two_came(self.own, name)
        self.swap(name, name)
        if self.inode(name) != os.fstat(placeholder).st_ino:
            # Somebody gave the name to another file meanwhile, as he might have done a moment later.
            self.swap(name, name)
        elif not has_lease(placeholder):
            return _two_came(self.own, name)
        self.remove(name)
        return None


def put_back_left(opened: OpenRepository) -> list[tuple[bytes, str]]:
    """Put back what a killed release left beside its placeholders; what could not be, and why.

    Raises OSError.
    """
    if opened.known.fact(FACT) != "1":
        return []
    problems = []
    root = opened.below.root
    for at, names, _, directory in os.fwalk(b".", dir_fd=root, follow_symlinks=False, onerror=lambda _: None):
        for own in [each for each in names if each.startswith(ASIDE)]:
            names.remove(own)
            path = os.path.normpath(os.path.join(at, own))  # noqa: PTH118 - bytes
            try:
                aside = AsideDirectory.open(directory, own)
            except OSError:
                continue
            try:
                why = _put_back(opened, aside, os.path.dirname(path))  # noqa: PTH120 - bytes
            except OSError as error:
                why = f"a killed release left it, and it cannot be put back: {error.strerror}"
            finally:
                aside.close()
            if why:
                problems.append((path, why))
    if not problems:
        opened.known.set_fact(FACT, "0")
    return problems


def _put_back(opened: OpenRepository, aside: AsideDirectory, directory: bytes) -> str | None:
    entries = [os.fsencode(each) for each in os.listdir(aside.descriptor)]  # noqa: PTH208
    for entry in sorted(entries, key=lambda each: each != _OTHER):
        if is_part(entry):
            # A placeholder that was not whole, and had no other name yet.
            os.unlink(entry, dir_fd=aside.descriptor)
            continue
        descriptor = os.open(entry, _FILE, dir_fd=aside.descriptor)
        try:
            if why := _put_entry_back(opened, aside, entry, descriptor, directory):
                return why
        finally:
            os.close(descriptor)
    with suppress(FileNotFoundError), same_times(aside.beside):
        os.rmdir(aside.own, dir_fd=aside.beside)
    return None


def _put_entry_back(
    opened: OpenRepository, aside: AsideDirectory, entry: bytes, descriptor: int, directory: bytes
) -> str | None:
    status = os.fstat(descriptor)
    if _is_untouched(descriptor):
        if not take_lease(descriptor):
            return _two_came(aside.own, entry)
        os.unlink(entry, dir_fd=aside.descriptor)
        return None
    row = _row_of(opened, status, directory, entry)
    if row is None:
        return "a killed release left it, and nothing is known of what lies in it: see where that belongs"
    name = row.path.rpartition(b"/")[2]
    is_as_exported = (status.st_size, status.st_mtime_ns) == (row.size, row.mtime_ns)
    try:
        placeholder = os.open(name, _FILE, dir_fd=aside.beside)
    except FileNotFoundError:
        placeholder = -1
    try:
        if placeholder >= 0 and os.fstat(placeholder).st_ino == status.st_ino:
            os.unlink(entry, dir_fd=aside.descriptor)
        elif placeholder >= 0 and _is_untouched(placeholder):
            if entry != name:
                os.rename(entry, name, src_dir_fd=aside.descriptor, dst_dir_fd=aside.descriptor)
            return aside.put_back(name, placeholder)
        elif is_as_exported and not is_open_elsewhere(descriptor):
            # What has the name by now is newer, and this is in the bucket.
            os.unlink(entry, dir_fd=aside.descriptor)
        else:
            return _two_came(aside.own, entry)
    finally:
        if placeholder >= 0:
            os.close(placeholder)
    return None


def _row_of(
    opened: OpenRepository, status: os.stat_result, directory: bytes, entry: bytes
) -> KnownFile | None:
    rows = opened.known.by_inode(status.st_ino) if stat.S_ISREG(status.st_mode) else []
    return next(
        (
            each
            for each in rows
            if each.path.rpartition(b"/")[0] == directory and entry in (each.path.rpartition(b"/")[2], _OTHER)
        ),
        None,
    )


def _is_untouched(descriptor: int) -> bool:
    """Whether an open file is a placeholder that nobody has filled or changed."""
    status = os.fstat(descriptor)
    try:
        state = read_state(descriptor) if stat.S_ISREG(status.st_mode) else None
    except StateError:
        return False
    return state is not None and state.is_name_only and state.is_unchanged(status)


def _two_came(own: bytes, name: bytes) -> str:
    return (
        "two opened it while it was released, and each has a file of his own: one has its name, the other is "
        f"{os.fsdecode(name)} in {os.fsdecode(own)} beside it; compare them, and remove that directory"
    )
