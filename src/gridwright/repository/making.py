"""Makes files, directories and links of what is said of their objects: whole first, then named.

Nothing is made through a symbolic link, and a name appears with its size, owner, mode and times at once.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import secrets
import stat
from contextlib import suppress

from gridwright.beneath import change_owner, change_times, descriptor_path, pinned
from gridwright.repository.arriving import dig_holes
from gridwright.repository.below import PART, c_library
from gridwright.repository.content import crc64_of, open_for_reading
from gridwright.repository.extended import read_xattrs, write_xattrs
from gridwright.repository.known_file import HIDDEN, KnownFile, is_hidden
from gridwright.repository.lazy.open_files import has_lease, take_lease
from gridwright.repository.made_directories import MadeDirectories
from gridwright.repository.object_format import kept_mode
from gridwright.repository.references import write_state
from gridwright.repository.settings import OpenRepository, RepositoryReport

_NO_REPLACE = 1
_OTHER_ATTRIBUTES = "its owner or permissions are others in the bucket"
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Maker:
    """Makes what rows say, below one repository's directory."""

    def __init__(self, opened: OpenRepository, report: RepositoryReport) -> None:
        self._opened = opened
        self._report = report
        self._is_root = os.geteuid() == 0
        self._directories = MadeDirectories(opened)

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """As `MadeDirectories.parent`."""
        return self._directories.parent(path)

    def name_only(self, row: KnownFile) -> None:
        """Make a file of its object's size, without content, in place of what is there. Raises OSError."""
        directory, name = self.parent(row.path)
        part = part_name()
        descriptor = self.unplaced_name(row, directory, part)
        try:
            place(directory, part, name)
            note_here(row, os.fstat(descriptor))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=directory)
            raise
        finally:
            os.close(descriptor)

    def unplaced_name(self, row: KnownFile, directory: int, part: bytes) -> int:
        """Make such a file under a free name in an open directory; its descriptor. Raises OSError."""
        descriptor = self._new_name(directory, part, row)
        try:
            row.is_name_only = row.size > 0
            self.dress(descriptor, row)
            if row.is_name_only:
                self._opened.cover.cover(descriptor)
                if self._is_root and self._opened.cover.why_not:
                    os.fchmod(descriptor, HIDDEN)
                self._say_how_it_is_read()
        except BaseException:
            os.close(descriptor)
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=directory)
            raise
        return descriptor

    def _new_name(self, directory: int, part: bytes, row: KnownFile) -> int:
        """Make a file of its object's size, empty or released; its descriptor."""
        if row.size and self._opened.cover.released is not None:
            return self._opened.cover.released.make(directory, part, row)
        descriptor = os.open(part, _NEW, 0o600, dir_fd=directory)
        try:
            os.ftruncate(descriptor, row.size)
        except BaseException:
            os.close(descriptor)
            os.unlink(part, dir_fd=directory)
            raise
        return descriptor

    def link(self, row: KnownFile) -> None:
        """Make a symbolic link. Raises OSError."""
        directory, name = self.parent(row.path)
        part = part_name()
        os.symlink(row.target or b"", part, dir_fd=directory)
        try:
            with pinned(directory, part) as pin:
                if not stat.S_ISLNK(os.fstat(pin).st_mode):
                    raise OSError(errno.ESTALE, "something else has come in its place", os.fsdecode(row.path))
                if self._is_root:
                    change_owner(pin, row.uid, row.gid)
                if row.xattrs and self._is_root:
                    write_xattrs(descriptor_path(pin), row.xattrs)
                change_times(pin, row.atime_ns, row.mtime_ns)
                place(directory, part, name)
                note_here(row, os.fstat(pin))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=directory)
            raise

    def hard_link(self, row: KnownFile) -> bool:
        """Make a file another name of the one that the manifest says; False where that is not there."""
        first = self._opened.known.get(row.link_of or b"")
        if first is None or (first.size, first.mtime_ns) != (row.size, row.mtime_ns):
            return False
        if None not in (first.crc64, row.crc64) and first.crc64 != row.crc64:
            return False
        status = self._opened.below.status(first.path)
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_ino != first.inode:
            return False
        source, source_name = self._opened.below.parent(first.path)
        source = os.dup(source)
        try:
            directory, name = self.parent(row.path)
            part = part_name()
            os.link(source_name, part, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
            place(directory, part, name)
            # Two names of one file are not renamed over each other, but the first stays behind.
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=directory)
            row.is_name_only = first.is_name_only
            note_here(row, os.stat(name, dir_fd=directory, follow_symlinks=False))
            # The file has one name more, so that its ctime is another one.
            note_here(first, os.stat(name, dir_fd=directory, follow_symlinks=False))
            self._opened.known.put(first)
        finally:
            os.close(source)
        return True

    def directory(self, path: bytes) -> None:
        """Make a directory; its attributes are set in the end. Raises OSError."""
        self.parent(path + b"/.")

    def dress_directory(self, row: KnownFile) -> None:
        """Give a directory that an import made its attributes, another no owner and no wider permissions.

        Whoever writes the bucket, or exchanges two names, would have what others keep in it. Raises OSError.
        """
        descriptor = self.parent(row.path + b"/.")[0] if row.path else self._opened.below.root
        status = os.fstat(descriptor)
        if row.path and self._directories.is_made(descriptor, row.path, status):
            self._attributes(descriptor, row)
            self._directories.settle(descriptor)
        else:
            self._dress_present(descriptor, row, status)
        note_here(row, os.fstat(descriptor))
        if not row.path and self._opened.cover.is_closed:
            # What it has until it is opened is no user's will.
            mode, row.uid, row.gid = self._opened.cover.attributes
            row.mode = stat.S_IFDIR | mode

    def _dress_present(self, descriptor: int, row: KnownFile, status: os.stat_result) -> None:
        here, wanted = stat.S_IMODE(status.st_mode), row.attributes.permissions
        is_owner = not self._is_root or (row.uid, row.gid) == (status.st_uid, status.st_gid)
        may_be_given = bool(row.path) and is_owner and not is_wider(here, wanted)
        if may_be_given and here != wanted:
            os.fchmod(descriptor, wanted)
        is_closed = not row.path and self._opened.cover.is_closed
        if not is_closed and (
            not is_owner
            or (here != wanted and not may_be_given)
            or (row.xattrs and row.xattrs != read_xattrs(descriptor))
        ):
            self._report.note_of(
                "are directories that were here, and kept their owner and who may enter them", row.path
            )
        if (row.atime_ns, row.mtime_ns) != (status.st_atime_ns, status.st_mtime_ns):
            os.utime(descriptor, ns=(row.atime_ns, row.mtime_ns))

    def attributes(self, row: KnownFile) -> bool:
        """Give a file that is as the row says its object's attributes; False where it was changed meanwhile.

        It is made anew where the owner changes, or others may do more with it: who has it open would write to
        what another one believes to be his own. Raises OSError, also where it is open or has another name.
        """
        directory, name = self._opened.below.parent(row.path)
        descriptor = open_for_reading(name, directory)
        try:
            status = os.fstat(descriptor)
            if (status.st_ino, status.st_size) != (row.inode, row.size):
                return False
            is_owner = (status.st_uid, status.st_gid) == (row.uid, row.gid)
            here = stat.S_IMODE(status.st_mode)
            if self._is_root and not (is_owner and not is_wider(here, row.attributes.permissions)):
                return self._made_anew(row, directory, name, descriptor)
            was_hidden = is_hidden(row, status)
            self.dress(descriptor, row)
            if was_hidden:
                os.fchmod(descriptor, HIDDEN)
            note_here(row, os.fstat(descriptor))
        finally:
            os.close(descriptor)
        return True

    def _made_anew(self, row: KnownFile, directory: int, name: bytes, descriptor: int) -> bool:
        """Put a copy with a row's attributes in the place of an open file; False where it was changed."""
        if not take_lease(descriptor):
            raise OSError(errno.EBUSY, f"{_OTHER_ATTRIBUTES}, and it is open")
        status = os.fstat(descriptor)
        if status.st_nlink != 1:
            raise OSError(errno.EMLINK, f"{_OTHER_ATTRIBUTES}, and it has another name")
        if row.is_name_only:
            self.name_only(row)
            return True
        part = part_name()
        copy = os.open(part, _NEW, 0o600, dir_fd=directory)
        try:
            done = 0
            while count := os.sendfile(copy, descriptor, done, 1 << 30):
                done += count
            if done != row.size or row.crc64 not in (None, crc64_of(copy)):
                return False
            if status.st_blocks * 512 < status.st_size:
                dig_holes(copy, row.size)
            self.dress(copy, row)
            os.fsync(copy)
            if not has_lease(descriptor):
                raise OSError(errno.EBUSY, f"{_OTHER_ATTRIBUTES}, and it is open")
            place(directory, part, name)
            note_here(row, os.fstat(copy))
        finally:
            os.close(copy)
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=directory)
        return True

    def dress(self, descriptor: int, row: KnownFile) -> None:
        """Give an open file its attributes, and what says which object it is. Raises OSError."""
        self._attributes(descriptor, row)
        try:
            write_state(descriptor, row.state(self._opened.settings.bucket_url))
        except OSError as error:
            if row.is_name_only:
                raise OSError(
                    error.errno,
                    f"the file cannot say that it is a name only ({error.strerror}); import with --contents",
                ) from error

    def _attributes(self, descriptor: int, row: KnownFile) -> None:
        if self._is_root:
            os.fchown(descriptor, row.uid, row.gid)
        elif (row.uid, row.gid) != (os.geteuid(), os.getegid()):
            self._say_once("owners and groups were left: only root may give files away")
        os.fchmod(descriptor, row.attributes.permissions)
        if row.xattrs and row.xattrs != read_xattrs(descriptor):
            try:
                write_xattrs(descriptor, row.xattrs)
            except (OSError, ValueError) as error:
                self._report.problem(row.path, f"its extended attributes cannot be written: {error}")
        os.utime(descriptor, ns=(row.atime_ns, row.mtime_ns))

    def _say_how_it_is_read(self) -> None:
        cover = self._opened.cover
        if cover.why_not:
            until = "until --contents brings their contents"
            how = "users cannot open names" if self._is_root else "names read as zeros"
            self._say_once(f"{how} {until}: {cover.why_not}")
        elif cover.released is not None:
            self._say_once(f"{cover.released.how}; without an agent, readers wait")
        elif cover.is_closed:
            self._say_once("users cannot enter it until gridwright repo serve loads what they read")

    def _say_once(self, note: str) -> None:
        if note not in self._report.notes:
            self._report.notes.append(note)


_OWN = PART + secrets.token_hex(8).encode()
_NUMBERS = itertools.count()


def is_wider(here: int, wanted: int) -> bool:
    """Whether somebody may do more with permissions than with those that are here."""
    return bool(wanted & ~here & ~stat.S_ISVTX or here & ~wanted & stat.S_ISVTX)


def part_name() -> bytes:
    """A name for a file that is not whole yet, which nothing else has."""
    return b"%s-%x" % (_OWN, next(_NUMBERS))


def place(directory: int, part: bytes, name: bytes) -> None:
    """Give what is whole its name, in place of what has it. Raises OSError."""
    os.rename(part, name, src_dir_fd=directory, dst_dir_fd=directory)


def place_new(directory: int, part: bytes, name: bytes, *, source: int | None = None) -> None:
    """Give what is whole a name that nothing has. Raises OSError: FileExistsError where something has it.

    `part` lies in the open directory `source`, or in the same one.
    """
    source = directory if source is None else source
    library = c_library()
    if library.renameat2(source, part, directory, name, _NO_REPLACE) == 0:
        return
    number = ctypes.get_errno()
    if number not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(number, os.strerror(number))
    # NFS and some others have no such rename; of two names the second is never made over another file.
    os.link(part, name, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
    os.unlink(part, dir_fd=source)


def note_root(opened: OpenRepository) -> None:
    """Note what the repository's own directory has, now that it is open again."""
    row = opened.known.get(b"")
    if row is not None:
        note_here(row, os.fstat(opened.below.root))
        opened.known.put(row)


def note_here(row: KnownFile, status: os.stat_result) -> None:
    """Note in a row what is true of the file here."""
    row.inode, row.ctime_ns, row.links = status.st_ino, status.st_ctime_ns, status.st_nlink
    row.uid, row.gid = status.st_uid, status.st_gid
    if not is_hidden(row, status):
        row.mode = kept_mode(status.st_mode)
