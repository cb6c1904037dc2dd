"""Makes files, directories and links of what is said of their objects: whole first, then named.

Nothing is made through a symbolic link, and a name appears with its size, owner, mode and times at once.

Directories that an import makes, and those that it finds: whose they are, whatever users exchange.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import stat
from contextlib import suppress

from gridwright.beneath import change_owner, change_times, change_xattr, descriptor_path, make_private, pinned
from gridwright.repository.arriving import dig_holes
from gridwright.repository.below import PART
from gridwright.repository.comparing import FileSide, file_side
from gridwright.repository.content import crc64_of, is_same_moment, open_for_reading
from gridwright.repository.extended import drop_inherited_acl, read_xattrs, write_xattrs
from gridwright.repository.file_clock import UNKNOWN, is_kept_as
from gridwright.repository.file_locks import give_lease_back, has_lease, take_lease
from gridwright.repository.known_file import KnownFile, signed_inode, stamp_of
from gridwright.repository.object_format import kept_mode
from gridwright.repository.placing import Placer, hold_writers, is_as, place_new
from gridwright.repository.references import write_state
from gridwright.repository.reserved import open_reserved
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport

_MADE_MODE = 0o755


class MadeDirectories:
    """Makes directories, and knows them again by a mark that another user cannot give."""

    def __init__(self, opened: OpenRepository) -> None:
        self._opened = opened
        self._is_root = os.geteuid() == 0
        self._mark = f"{'trusted' if self._is_root else 'user'}.gridwright.made"
        """What a directory has that an import has made, and not given its attributes yet: its path."""
        self._unmarked: dict[bytes, tuple[int, int]] = {}
        """Those of file systems without such attributes, by path: device and inode."""
        self._met: tuple[bytes, int, int] | None = None
        """The last directory that was looked at: path, device, inode."""

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """The open directory that a path lies in, and its name there; directories that are missing are made.

        Raises OSError: ESTALE where another directory than was made or meant is on the way.
        """
        below = self._opened.below
        head = path.rpartition(b"/")[0]
        try:
            directory, name = below.parent(path)
        except FileNotFoundError:
            if self._opened.known.looks:
                return self._looked_at(head), path.rpartition(b"/")[2]
            self._make_directories(head)
            directory, name = below.parent(path)
        if self._is_root and head and (head, *_identity(directory)) != self._met:
            # From above, so that each stays open for the next, and nobody exchanges what was looked at.
            for each in _steps(head):
                self._look_at(each)
            directory, name = below.parent(path)
            self._met = (head, *_identity(directory))
        return directory, name

    def _looked_at(self, path: bytes) -> int:
        """The innermost directory that is there of those that a dry run would make."""
        found = self._opened.below.root
        for each in _steps(path):
            if self._opened.below.status(each) is None:
                break
            if self._is_root:
                self._look_at(each)
            found = self._opened.below.parent(each + b"/.")[0]
        return found

    def _make_directories(self, path: bytes) -> None:
        for at in _steps(path):
            directory, name = self._opened.below.parent(at)
            try:
                made = make_private(directory, name)
            except FileExistsError:
                if self._is_root:
                    self._look_at(at)
                continue
            try:
                drop_inherited_acl(made)
                # Only now others may enter: what they exchange it with has another mark.
                try:
                    change_xattr(made, self._mark, at)
                except OSError:
                    self._unmarked[at] = _identity(made)
                os.fchmod(made, _MADE_MODE | os.fstat(made).st_mode & stat.S_ISGID)
            finally:
                os.close(made)

    def is_made(self, descriptor: int, path: bytes, status: os.stat_result) -> bool:
        """Whether an open directory is as an import has made it for this path.

        Raises OSError: ESTALE where it was made for another one.
        """
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & ~stat.S_ISGID != _MADE_MODE:
            return False
        try:
            made_for = os.getxattr(descriptor, self._mark)
        except OSError:
            return self._unmarked.get(path) == _identity(descriptor)
        if made_for != path:
            raise OSError(errno.ESTALE, "another directory is in its place, which was left as it is")
        return True

    def _look_at(self, path: bytes) -> None:
        """Raise OSError where another user's directory may have come in the place of one, by an exchange."""
        directory, _ = self._opened.below.parent(path + b"/.")
        status = os.fstat(directory)
        trusted = {0, os.geteuid()}
        if self.is_made(directory, path, status) or status.st_uid in trusted:
            return
        row = self._opened.known.get(path) or self._opened.known.told_path(path)
        if row is None or row.uid == status.st_uid or self._opened.below.writers(path) <= trusted:
            return
        raise OSError(
            errno.ESTALE,
            f"a directory of user {status.st_uid} is in the place of one of user {row.uid}; it was left",
        )

    def settle(self, descriptor: int) -> None:
        """Take the mark away: the directory has its attributes."""
        with suppress(OSError):
            change_xattr(descriptor, self._mark, None)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _steps(path: bytes) -> list[bytes]:
    """A directory, after those that it lies in."""
    names = path.split(b"/")
    return [b"/".join(names[: count + 1]) for count in range(len(names))]


_OTHER_ATTRIBUTES = "its owner or permissions are others in the bucket"
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_new(directory: int, part: bytes) -> int:
    """Make a file, in an open directory, that its owner alone may read; its descriptor. Raises OSError."""
    descriptor = os.open(part, _NEW, 0o600, dir_fd=directory)
    drop_inherited_acl(descriptor)
    return descriptor


class Maker:
    """Makes what rows say, below one repository's directory."""

    def __init__(
        self, opened: OpenRepository, report: RepositoryReport, *, takes_objects: bool = False
    ) -> None:
        """With `takes_objects`, files that were changed here go to the trash for what the bucket has."""
        self._opened = opened
        self._report = report
        self._takes_objects = takes_objects
        self.placer = Placer(opened.below.root, report)
        self._is_root = os.geteuid() == 0
        self._directories = MadeDirectories(opened)

    @classmethod
    def of(cls, opened: OpenRepository, report: RepositoryReport, prefer: Prefer | None) -> Maker:
        """The maker of an import, or that of a dry run."""
        kind = PlannedMaker if report.is_dry_run else Maker
        return kind(opened, report, takes_objects=prefer == "objects")

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """As `MadeDirectories.parent`."""
        return self._directories.parent(path)

    def place(self, path: bytes, directory: int, part: bytes, name: bytes) -> None:
        """Give what is whole, in the open directory of a path, its name there.

        Raises OSError: FileExistsError, with why, where the name is of a file that was changed, or may be.
        """
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            place_new(directory, part, name)
            return
        is_changed = self._is_changed(path, status)
        self.placer.replace(path, directory, part, name, status, keep=is_changed)

    def _is_changed(self, path: bytes, status: os.stat_result) -> bool:
        """Whether what has a name was changed. Raises FileExistsError where it is to stay then."""
        row = self._opened.known.get(path)
        row = row if row is not None and row.inode else None
        is_changed = file_side(self._opened, path, status, row) is FileSide.CHANGED
        if is_changed and not self._takes_objects:
            raise FileExistsError(errno.EEXIST, "somebody has changed it meanwhile; it was left as it is")
        return is_changed

    def name_only(self, row: KnownFile) -> None:
        """Make a file that needs no content, in place of what is there: an empty one, or a released one.

        Released ones are made where the file system holds back who reads them. Raises OSError.
        """
        directory, name = self.parent(row.path)
        part = part_name()
        descriptor = self._new_name(directory, part, row)
        try:
            row.is_name_only = row.size > 0
            self.dress(descriptor, row)
            self.place(row.path, directory, part, name)
            note_here(self._opened, row, os.fstat(descriptor))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=directory)
            raise
        finally:
            os.close(descriptor)

    def _new_name(self, directory: int, part: bytes, row: KnownFile) -> int:
        """Make such a file under a free name in an open directory; its descriptor."""
        if not row.size:
            return open_new(directory, part)
        if not self._opened.is_guarded:
            raise AssertionError("a name without content would be read as zeros here")
        self._say_names_wait()
        return self._opened.released_names.make(directory, part, row)

    def _say_names_wait(self) -> None:
        self._say_once(f"{self._opened.released_names.how}; without an agent, readers wait")

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
                self.place(row.path, directory, part, name)
                note_here(self._opened, row, os.fstat(pin))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=directory)
            raise

    def hard_link(self, row: KnownFile) -> bool:
        """Make a file another name of the one that the manifest says; False where that is not the same file.

        Whoever writes the bucket says which one: so its content, owner and permissions are as both rows say,
        and it comes into no directory of a user who has it in none of his. Raises OSError.
        """
        first = self._opened.known.get(row.link_of or b"")
        seen = self._seen_as(first, row) if first is not None else None
        if first is None or seen is None:
            return False
        source, source_name = self._opened.below.parent(first.path)
        source = os.dup(source)
        try:
            directory, name = self.parent(row.path)
            owners = {0, os.geteuid(), seen.st_uid, os.fstat(source).st_uid}
            if os.fstat(directory).st_uid not in owners:
                return False
            part = part_name()
            os.link(source_name, part, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
            try:
                status = os.stat(part, dir_fd=directory, follow_symlinks=False)
                if not is_as(status, seen):
                    return False
                self.place(row.path, directory, part, name)
            finally:
                # Two names of one file are not renamed over each other, but the first stays behind.
                with suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=directory)
            row.is_name_only = first.is_name_only
            # The file has one name more, so that its ctime is another one.
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            for each in (row, first):
                note_here(self._opened, each, status)
                if not is_as(status, seen):
                    each.ctime_ns = UNKNOWN
            self._opened.known.put(first)
        finally:
            os.close(source)
        return True

    def _seen_as(self, first: KnownFile, row: KnownFile) -> os.stat_result | None:
        """The status of a file that is as known, and as a row of another name says; else None."""
        seen = self._opened.below.status(first.path)
        if seen is None or not stat.S_ISREG(seen.st_mode) or signed_inode(seen.st_ino) != first.inode:
            return None
        are_of_one = _are_names_of_one(first, row) and (not self._is_root or _rights(first) == _rights(row))
        if not are_of_one or _rights(first) != (seen.st_uid, seen.st_gid, kept_mode(seen.st_mode)):
            return None
        is_known = file_side(self._opened, first.path, seen, first) is FileSide.SAME
        return seen if is_known else None

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
        note_here(self._opened, row, os.fstat(descriptor))

    def _dress_present(self, descriptor: int, row: KnownFile, status: os.stat_result) -> None:
        here, wanted = stat.S_IMODE(status.st_mode), row.attributes.permissions
        is_owner = not self._is_root or (row.uid, row.gid) == (status.st_uid, status.st_gid)
        may_be_given = bool(row.path) and is_owner and not is_wider(here, wanted)
        looks = self._report.is_dry_run
        if may_be_given and here != wanted and not looks:
            os.fchmod(descriptor, wanted)
        if (
            not is_owner
            or (here != wanted and not may_be_given)
            or (row.xattrs and row.xattrs != read_xattrs(descriptor))
        ):
            self._report.note_of(
                "were here before: of a directory, the owner and who may enter it stay", row.path
            )
        if (row.atime_ns, row.mtime_ns) != (status.st_atime_ns, status.st_mtime_ns) and not looks:
            os.utime(descriptor, ns=(row.atime_ns, row.mtime_ns))

    def attributes(self, row: KnownFile, seen: os.stat_result) -> bool:
        """Give a file its object's attributes; False where it was changed since it was `seen` to be as known.

        It is made anew where the owner changes, or others may do more with it: who has it open would write to
        what another one believes to be his own. Raises OSError, also where it is open or has another name.
        """
        directory, name = self._opened.below.parent(row.path)
        descriptor = open_for_reading(name, directory)
        try:
            is_held = hold_writers(descriptor)
            # The lease came after the look: who has written in between is seen now.
            status = os.fstat(descriptor)
            if not is_same_moment(seen, status):
                return False
            if self._is_to_be_anew(row, status):
                return self._made_anew(row, directory, name, descriptor)
            self.dress(descriptor, row)
            note_here(self._opened, row, os.fstat(descriptor))
            if not is_held:
                # Who has written to it just before it got its times is seen by its content alone.
                row.ctime_ns = UNKNOWN
        finally:
            os.close(descriptor)
        return True

    def _is_to_be_anew(self, row: KnownFile, status: os.stat_result) -> bool:
        is_owner = (status.st_uid, status.st_gid) == (row.uid, row.gid)
        here = stat.S_IMODE(status.st_mode)
        return self._is_root and not (is_owner and not is_wider(here, row.attributes.permissions))

    def _made_anew(self, row: KnownFile, directory: int, name: bytes, descriptor: int) -> bool:
        """Put a copy with a row's attributes in the place of an open file; False where it was changed."""
        if not take_lease(descriptor):
            raise OSError(errno.EBUSY, f"{_OTHER_ATTRIBUTES}, and it is open")
        _refuse_names(os.fstat(descriptor))
        status = os.fstat(descriptor)
        part = part_name()
        copy = open_new(directory, part)
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
            give_lease_back(descriptor)
            self.place(row.path, directory, part, name)
            note_here(self._opened, row, os.fstat(copy))
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
        self._say_owners_left(row)
        if self._is_root:
            os.fchown(descriptor, row.uid, row.gid)
        os.fchmod(descriptor, row.attributes.permissions)
        if row.xattrs and row.xattrs != read_xattrs(descriptor):
            try:
                write_xattrs(descriptor, row.xattrs)
            except (OSError, ValueError) as error:
                self._report.problem(row.path, f"its extended attributes cannot be written: {error}")
        os.utime(descriptor, ns=(row.atime_ns, row.mtime_ns))

    def _say_owners_left(self, row: KnownFile) -> None:
        if not self._is_root and (row.uid, row.gid) != (os.geteuid(), os.getegid()):
            self._say_once("owners and groups were left: only root may give files away")

    def _say_once(self, note: str) -> None:
        if note not in self._report.notes:
            self._report.notes.append(note)

    def remove(self, row: KnownFile, status: os.stat_result) -> None:
        """Remove an empty directory, or move a file that was seen so to the trash. Raises OSError."""
        directory, name = self._opened.below.parent(row.path)
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(name, dir_fd=directory)
            self._opened.below.refresh()
        else:
            self.placer.remove(row.path, directory, name, status)


class PlannedMaker(Maker):
    """Makes nothing: notes in rows of a copy what would be here, where nothing is in its way."""

    def name_only(self, row: KnownFile) -> None:
        """Plan a file that needs no content."""
        if row.size:
            self._say_names_wait()
        row.is_name_only = row.size > 0
        self.plan(row)

    def link(self, row: KnownFile) -> None:
        """Plan a symbolic link."""
        self.plan(row)

    def plan(self, row: KnownFile) -> None:
        """Note a file as one that is here. Raises OSError where it could not be made."""
        self.parent(row.path)
        status = self._opened.below.status(row.path)
        if status is not None:
            self._is_changed(row.path, status)
            self._look_for_trash()
        if not row.attributes.is_link:
            self._say_owners_left(row)
        row.inode, row.links, row.ctime_ns = 1, 0, UNKNOWN

    def hard_link(self, row: KnownFile) -> bool:
        """Plan another name of a file that is here, or is planned."""
        first = self._opened.known.get(row.link_of or b"")
        if first is None:
            return False
        if is_planned(first):
            owner = first.uid if self._is_root else os.geteuid()
            is_same = _are_names_of_one(first, row) and (not self._is_root or _rights(first) == _rights(row))
        else:
            seen = self._seen_as(first, row)
            is_same, owner = seen is not None, -1 if seen is None else seen.st_uid
        owners = {0, os.geteuid(), owner, self._owner_around(first.path)}
        if not is_same or self._owner_around(row.path) not in owners:
            return False
        row.is_name_only = first.is_name_only
        self.plan(row)
        return True

    def _owner_around(self, path: bytes) -> int:
        """Who owns the directory that a path lies in, or will."""
        status = self._opened.below.status(path.rpartition(b"/")[0])
        return os.geteuid() if status is None else status.st_uid

    def dress_directory(self, row: KnownFile) -> None:
        """Say what a directory that is here would keep."""
        status = self._opened.below.status(row.path)
        if status is None:
            self._say_owners_left(row)
            return
        descriptor = self._opened.below.parent(row.path + b"/.")[0] if row.path else self._opened.below.root
        if not (row.path and self._directories.is_made(descriptor, row.path, status)):
            self._dress_present(descriptor, row, status)

    def attributes(self, row: KnownFile, seen: os.stat_result) -> bool:
        """Whether a file could be given its object's attributes."""
        if self._is_to_be_anew(row, seen):
            _refuse_names(seen)
        self._say_owners_left(row)
        return True

    def remove(self, row: KnownFile, status: os.stat_result) -> None:
        """Look whether a file could be moved to the trash. Raises OSError."""
        if not stat.S_ISDIR(status.st_mode):
            self._look_for_trash()

    def _look_for_trash(self) -> None:
        with suppress(FileNotFoundError):
            os.close(open_reserved(self._opened.below.root, make=False))


def is_planned(row: KnownFile) -> bool:
    """Whether a dry run would have made what a row says: no file that is here has no name."""
    return bool(row.inode) and not row.links


def _refuse_names(status: os.stat_result) -> None:
    if status.st_nlink != 1:
        raise OSError(errno.EMLINK, f"{_OTHER_ATTRIBUTES}, and it has another name")


_OWN = PART + secrets.token_hex(8).encode()
_NUMBERS = itertools.count()


def _are_names_of_one(first: KnownFile, row: KnownFile) -> bool:
    """Whether two rows can be of one file, by what their objects and the manifest say."""
    is_content = first.etag == row.etag or (first.crc64 is not None and first.crc64 == row.crc64)
    is_moment = first.size == row.size and is_kept_as(row.mtime_ns, first.mtime_ns)
    return is_content and is_moment


def _rights(row: KnownFile) -> tuple[int, int, int]:
    return row.uid, row.gid, row.mode


def is_wider(here: int, wanted: int) -> bool:
    """Whether somebody may do more with permissions than with those that are here."""
    return bool(wanted & ~here & ~stat.S_ISVTX or here & ~wanted & stat.S_ISVTX)


def part_name() -> bytes:
    """A name for a file that is not whole yet, which nothing else has."""
    return b"%s-%x" % (_OWN, next(_NUMBERS))


def note_here(opened: OpenRepository, row: KnownFile, status: os.stat_result) -> None:
    """Note in a row what is true of the file here, as it was just looked at.

    Its mtime is as its file system keeps it. A ctime is known only of a file that nobody has changed by now.
    """
    kind, size, mtime_ns, _, row.inode = stamp_of(status)
    is_changed = kind == stat.S_IFREG and (size != row.size or not is_kept_as(row.mtime_ns, mtime_ns))
    row.ctime_ns = UNKNOWN if is_changed else opened.clock.kept(status)
    row.links = status.st_nlink
    if is_kept_as(row.mtime_ns, mtime_ns):
        row.mtime_ns = mtime_ns
    row.uid, row.gid, row.mode = status.st_uid, status.st_gid, kept_mode(status.st_mode)
