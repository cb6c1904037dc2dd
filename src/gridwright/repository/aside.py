"""Files that are being released: each lies in a directory beside its place until nobody can come to open it.

Who resolved a name before it was taken away opens the file, however late; so it stays, under a lease, in a
directory of its own until a time of grace is over. Where somebody has come, it gets its name back. A kill at
any step leaves that directory, and the next command that changes something puts back what lies in it
(`put_back_left`).

Whoever owns a directory may give such a name to any other one of root's in it, such as the trash. So files
lie one directory deeper, under a name that nobody else can know, and that was noted before: only they are put
back.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass

from gridwright.beneath import DIRECTORY, make_private, open_own
from gridwright.refusals import reason_of
from gridwright.repository.below import ASIDE, RELEASING, same_times
from gridwright.repository.content import crc64_of, open_for_reading
from gridwright.repository.file_clock import UNKNOWN, is_stored_as
from gridwright.repository.file_locks import is_open_elsewhere
from gridwright.repository.known_file import KnownFile
from gridwright.repository.making import note_here
from gridwright.repository.placing import place_new
from gridwright.repository.settings import OpenRepository
from gridwright.repository.walking import parts_below

_NONE_LEFT = (None, "0")
_OF_OLDER = (
    "a killed release of an older version left it, or somebody gave another directory this name: look what "
    "lies in it, move what belongs beside it there, and remove it"
)
_SECRET = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class AsideDirectory:
    """A directory beside a file, of whoever runs this alone. Close it in the end."""

    beside: int
    """The open directory that both lie in."""
    own: bytes
    """Its name there."""
    outer: int
    descriptor: int
    """Of the directory in it, in which the file lies."""
    secret: bytes
    """The name of that."""

    @classmethod
    def make(cls, beside: int, secret: bytes) -> AsideDirectory:
        """Make one that nobody else can have made. Raises OSError."""
        own = ASIDE + secrets.token_hex(8).encode()
        with same_times(beside):
            outer = make_private(beside, own)
        try:
            os.mkdir(secret, 0o700, dir_fd=outer)
        finally:
            os.close(outer)
        return cls.open(beside, own, secret)

    @classmethod
    def open(cls, beside: int, own: bytes, secret: bytes) -> AsideDirectory:
        """Open one. Raises OSError: FileNotFoundError where it is none that was made with this secret."""
        outer = open_own(own, directory=beside)
        try:
            return cls(os.dup(beside), own, outer, os.open(secret, DIRECTORY, dir_fd=outer), secret)
        except BaseException:
            os.close(outer)
            raise

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
        self.leave()

    def free(self, name: bytes) -> None:
        """Remove an entry, and the directory. Raises OSError where the entry stays."""
        os.unlink(name, dir_fd=self.descriptor)
        self.leave()

    def leave(self) -> None:
        """Remove the directory, in which nothing is left to lose; one that was exchanged meanwhile stays."""
        with suppress(OSError):
            self.remove()

    def remove(self) -> None:
        """Remove the directory, which is empty. Raises OSError."""
        with suppress(FileNotFoundError), same_times(self.beside):
            os.rmdir(self.secret, dir_fd=self.outer)
            os.rmdir(self.own, dir_fd=self.beside)

    def close(self) -> None:
        """Close all three directories."""
        for descriptor in (self.descriptor, self.outer, self.beside):
            os.close(descriptor)


def note_begun(opened: OpenRepository) -> bytes:
    """Note that files will lie aside, and in what: it has the name of a release before that left some."""
    if not _SECRET.fullmatch(noted := opened.known.fact(RELEASING) or ""):
        opened.known.set_fact(RELEASING, noted := secrets.token_hex(16))
    return noted.encode()


def may_be_left(opened: OpenRepository) -> bool:
    """Whether files may lie aside."""
    return opened.known.fact(RELEASING) not in _NONE_LEFT


def put_back_left(opened: OpenRepository) -> list[tuple[bytes, str]]:
    """Put back what a killed release left; what could not be, and why. Raises OSError."""
    if not may_be_left(opened):
        return []
    problems = []
    for path in [each.path for each in parts_below(opened.below.root, lambda name: name.startswith(ASIDE))]:
        directory, _, own = path.rpartition(b"/")
        if any(each.startswith(ASIDE) for each in directory.split(b"/")):
            continue
        try:
            if (aside := _noted(opened, path)) is None:
                continue
        except OSError as error:
            problems.append((path, reason_of(error)))
            continue
        try:
            _put_back(opened, aside, directory)
        except FileExistsError:
            problems.append((path, two_have_come(own)))
        except OSError as error:
            problems.append((path, f"a killed release left it: {reason_of(error)}"))
        finally:
            aside.close()
    if not problems:
        opened.known.set_fact(RELEASING, "0")
    return problems


def _noted(opened: OpenRepository, path: bytes) -> AsideDirectory | None:
    """What lies at a path, where a release of this repository has made it; None where nothing is left there.

    Raises OSError for one of an older release, which had no secret: it cannot be told from other directories.
    """
    noted = opened.known.fact(RELEASING) or ""
    try:
        beside, own = opened.below.parent(path)
        if _SECRET.fullmatch(noted):
            with suppress(FileNotFoundError):
                return AsideDirectory.open(beside, own, noted.encode())
        os.close(open_own(own, directory=beside))
    except OSError:
        # It is somebody else's, or is none.
        return None
    try:
        # Killed before anything lay in it.
        os.rmdir(own, dir_fd=beside)
    except OSError:
        if not _SECRET.fullmatch(noted):
            raise OSError(errno.ESTALE, _OF_OLDER) from None
    return None


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
        if row is not None and row.size == status.st_size and is_stored_as(row.mtime_ns, status.st_mtime_ns):
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
        is_same = row.size == status.st_size and is_stored_as(row.mtime_ns, status.st_mtime_ns)
        return is_same and not is_open_elsewhere(descriptor) and crc64_of(descriptor) == row.crc64
    finally:
        os.close(descriptor)


def two_have_come(own: bytes) -> str:
    """What to do where a file lies aside, and another one has its name."""
    return (
        "another file was made under its name while it was released: that one has the name, and the released "
        f"one lies below {os.fsdecode(own)} beside it; keep either, and remove that directory"
    )
