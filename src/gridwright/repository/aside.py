"""Files that are being released: each lies in a directory beside its place until nobody can come to open it.

Who resolved a name before it was taken away opens the file, however late; so it stays, under a lease, in a
directory of its own until a time of grace is over. Where somebody has come, it gets its name back. A kill at
any step leaves that directory, and the next command that changes something puts back what lies in it
(`put_back_left`).
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass

from gridwright.repository.below import ASIDE, same_times
from gridwright.repository.content import crc64_of, open_for_reading
from gridwright.repository.file_clock import UNKNOWN, is_kept_as
from gridwright.repository.file_locks import is_open_elsewhere
from gridwright.repository.known_file import KnownFile
from gridwright.repository.making import note_here
from gridwright.repository.placing import place_new
from gridwright.repository.settings import OpenRepository
from gridwright.repository.walking import parts_below

FACT = "releasing"
"""Whether such directories may be there, which is noted before the first one is made."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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

    def take(self, name: bytes) -> None:
        """Move what has a name beside this directory into it. Raises OSError."""
        with same_times(self.beside):
            os.rename(name, name, src_dir_fd=self.beside, dst_dir_fd=self.descriptor)

    def inode(self, name: bytes) -> int:
        """The inode of an entry. Raises OSError."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False).st_ino

    def give_back(self, name: bytes) -> None:
        """Give an entry its name back. Raises OSError: FileExistsError where something else has it by now."""
        with same_times(self.beside):
            place_new(self.beside, name, name, source=self.descriptor)
        self.remove()

    def free(self, name: bytes) -> None:
        """Remove an entry, and the directory. Raises OSError."""
        os.unlink(name, dir_fd=self.descriptor)
        self.remove()

    def remove(self) -> None:
        """Remove the directory, which is empty. Raises OSError."""
        with suppress(FileNotFoundError), same_times(self.beside):
            os.rmdir(self.own, dir_fd=self.beside)

    def close(self) -> None:
        """Close both directories."""
        os.close(self.descriptor)
        os.close(self.beside)


def put_back_left(opened: OpenRepository) -> list[tuple[bytes, str]]:
    """Put back what a killed release left; what could not be, and why. Raises OSError."""
    if opened.known.fact(FACT) != "1":
        return []
    problems = []
    for path in [each.path for each in parts_below(opened.below.root, lambda name: name.startswith(ASIDE))]:
        directory, _, own = path.rpartition(b"/")
        if any(each.startswith(ASIDE) for each in directory.split(b"/")):
            continue
        try:
            aside = AsideDirectory.open(*opened.below.parent(path))
        except OSError:
            continue
        try:
            _put_back(opened, aside, directory)
        except FileExistsError:
            problems.append((path, two_have_come(own)))
        except OSError as error:
            problems.append((path, f"a killed release left it: {error.strerror}"))
        finally:
            aside.close()
    if not problems:
        opened.known.set_fact(FACT, "0")
    return problems


def _put_back(opened: OpenRepository, aside: AsideDirectory, directory: bytes) -> None:
    for name in [os.fsencode(each) for each in os.listdir(aside.descriptor)]:  # noqa: PTH208
        row = opened.known.get(directory + b"/" + name if directory else name)
        try:
            aside.give_back(name)
        except FileExistsError:
            if row is None or not _is_content_of(aside, name, row):
                raise
            # What has the name by now is newer, and this is in the bucket.
            aside.free(name)
            continue
        status = os.stat(name, dir_fd=aside.beside, follow_symlinks=False)
        if row is not None and row.size == status.st_size and is_kept_as(row.mtime_ns, status.st_mtime_ns):
            note_here(opened, row, status)
            # What changed of it while it lay there is seen by the next scan.
            row.is_name_only, row.ctime_ns = False, UNKNOWN
            opened.known.put(row)
    aside.remove()


def _is_content_of(aside: AsideDirectory, name: bytes, row: KnownFile) -> bool:
    """Whether what lies aside is what was exported, and nobody has it open."""
    descriptor = open_for_reading(name, aside.descriptor)
    try:
        status = os.fstat(descriptor)
        is_same = row.size == status.st_size and is_kept_as(row.mtime_ns, status.st_mtime_ns)
        return is_same and not is_open_elsewhere(descriptor) and crc64_of(descriptor) == row.crc64
    finally:
        os.close(descriptor)


def two_have_come(own: bytes) -> str:
    """What to do where a file lies aside, and another one has its name."""
    return (
        "another file was made under its name while it was released: that one has the name, and the released "
        f"one lies in {os.fsdecode(own)} beside it; keep either, and remove that directory"
    )
