"""Makes files, directories and links of what is said of their objects: whole first, then named.

Nothing is made through a symbolic link, and a name appears with its size, owner, mode and times at once.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import replace

from gridwright.beneath import change_owner, change_times, pinned
from gridwright.refusals import reason_of
from gridwright.repository.below import part_name, remove_part, same_times
from gridwright.repository.comparing import FileSide, file_side, xattrs_of
from gridwright.repository.content import crc64_of, is_same_moment, open_for_reading
from gridwright.repository.extended import (
    acls_of,
    drop_inherited_acl,
    give_xattrs,
    read_xattrs,
    xattrs_to_give,
)
from gridwright.repository.file_clock import UNKNOWN, bounded_ns, is_stored_as
from gridwright.repository.file_locks import give_lease_back, has_lease, take_lease
from gridwright.repository.known_file import KnownFile, signed_inode, stamp_of
from gridwright.repository.made_directories import MadeDirectories, is_wider
from gridwright.repository.object_format import portable_mode
from gridwright.repository.placing import BeforeName, Placer, dig_holes, hold_writers, is_as, place_new
from gridwright.repository.references import write_state
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport
from gridwright.repository.walking import open_reserved
from gridwright.trusted import user_name

_OTHER_ATTRIBUTES = "its owner or permissions are others in the bucket"
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_new(directory: int, part: bytes) -> int:
    """Make a file, in an open directory, that its owner alone may read; its descriptor. Raises OSError."""
    with same_times(directory):
        descriptor = os.open(part, _NEW, 0o600, dir_fd=directory)
    drop_inherited_acl(descriptor, is_directory=False)
    return descriptor


_OF_USERS = ("st_mode", "st_uid", "st_gid", "st_size", "st_mtime_ns")


class Maker:
    """Makes what rows say, below one repository's directory."""

    def __init__(
        self,
        opened: OpenRepository,
        report: RepositoryReport,
        *,
        takes_objects: bool = False,
        are_given: bool = False,
    ) -> None:
        """With `takes_objects`, files that were changed here go to the trash for what the bucket has.

        `are_given` is that of `MadeDirectories`.
        """
        self._opened = opened
        self._report = report
        self._takes_objects = takes_objects
        self.placer = Placer(opened.below.root, report)
        self._is_root = os.geteuid() == 0
        self._directories = MadeDirectories(opened, are_given=are_given)
        self._dressed = set[bytes]()
        """Files that a dry run would have given attributes."""

    @classmethod
    def of(
        cls,
        opened: OpenRepository,
        report: RepositoryReport,
        prefer: Prefer | None,
        *,
        are_given: bool = False,
    ) -> Maker:
        """The maker of an import, or that of a dry run."""
        kind = PlannedMaker if report.is_dry_run else Maker
        return kind(opened, report, takes_objects=prefer == "objects", are_given=are_given)

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """As `MadeDirectories.parent`."""
        return self._directories.parent(path)

    def place(
        self, path: bytes, directory: int, part: bytes, name: bytes, *, descriptor: int | None = None
    ) -> None:
        """Give what is whole, in the open directory of a path, its name there.

        It may be open as `descriptor`. Raises OSError: FileExistsError, with why, where the name is of a file
        that was changed, or may be.
        """
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            with same_times(directory):
                place_new(directory, part, name, descriptor=descriptor)
            return
        is_changed = self._is_changed(path, status)
        self.placer.replace(path, directory, part, name, status, keep=is_changed)
        self._opened.known.first_names.keep_former(path, status.st_ino)

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
            before = self.before_name(descriptor)
            self.place(row.path, directory, part, name, descriptor=descriptor)
            self.note_named(row, descriptor, before)
        except BaseException:
            remove_part(directory, part)
            raise
        finally:
            os.close(descriptor)

    def before_name(self, descriptor: int) -> BeforeName:
        """What a file is that is whole, and gets its name now; call `note_named` then. Raises OSError."""
        is_held = False
        if self._opened.clock.is_fine:
            with suppress(OSError):
                is_held = take_lease(descriptor)
        return BeforeName(os.fstat(descriptor), is_held)

    def note_named(self, row: KnownFile, descriptor: int, before: BeforeName) -> None:
        """Note a file that has its name: what users did to it since is theirs, and the next export's.

        Whoever waits for a name is there before this is. Nobody writes to a file that is held by a lease;
        what else is changed shows. A ctime that may be a user's proves nothing. Raises OSError.
        """
        status = os.fstat(descriptor)
        self.note_new(row, before.status)
        row.links, row.ctime_ns = status.st_nlink, UNKNOWN
        is_same = all(getattr(status, each) == getattr(before.status, each) for each in _OF_USERS)
        if before.is_held and is_same and read_xattrs(descriptor) == row.xattrs:
            row.ctime_ns = self._opened.clock.recorded_ctime(status)
        if before.is_held:
            give_lease_back(descriptor)

    def note_new(self, row: KnownFile, status: os.stat_result) -> None:
        """As `note_here`, of a file that this run has made: all that it has came from the bucket."""
        if row.links > 1:
            self._opened.known.first_names.keep(status.st_ino, row.path)
        note_here(self._opened, row, status)

    def _new_name(self, directory: int, part: bytes, row: KnownFile) -> int:
        """Make such a file under a free name in an open directory; its descriptor."""
        if not row.size:
            return open_new(directory, part)
        if not self._opened.is_guarded:
            raise AssertionError("a name without content would be read as zeros here")
        self._say_names_wait()
        with same_times(directory):
            return self._opened.released_names.make(directory, part, row)

    def _say_names_wait(self) -> None:
        self._say_once(f"{self._opened.released_names.how}; without an agent, readers wait")

    def link(self, row: KnownFile) -> None:
        """Make a symbolic link. Raises OSError."""
        directory, name = self.parent(row.path)
        part = part_name()
        with same_times(directory):
            os.symlink(row.target or b"", part, dir_fd=directory)
        try:
            with pinned(directory, part) as pin:
                if not stat.S_ISLNK(os.fstat(pin).st_mode):
                    raise OSError(errno.ESTALE, "something else has come in its place", os.fsdecode(row.path))
                if self._is_root:
                    change_owner(pin, row.uid, row.gid)
                row.xattrs = None  # Linux has none of users on links (xattr(7)).
                change_times(pin, row.atime_ns, row.mtime_ns)
                made = os.fstat(pin)
                self.place(row.path, directory, part, name)
                # FUSE knows nothing more of a name that went, as the part's does where no rename serves.
                found = self._opened.below.status(row.path) or made
                note_here(self._opened, row, found if os.path.samestat(found, made) else made)
        except BaseException:
            remove_part(directory, part)
            raise

    def hard_link(self, row: KnownFile) -> bool:
        """Make a file another name of the one that the manifest says; False where that is not the same file.

        Whoever writes the bucket says which one: so its content, owner and permissions are as both rows say,
        and a file that was here before comes into no directory of a user who has it in none of his. Raises
        OSError.
        """
        first = self._opened.known.get(row.link_of or b"")
        seen = self._seen_as(first, row) if first is not None else None
        if first is None or seen is None:
            return False
        source, source_name = self._opened.below.parent(first.path)
        source = os.dup(source)
        try:
            directory, name = self.parent(row.path)
            is_new = self._opened.known.first_names.get(seen.st_ino) is not None
            is_new = is_new and self._had_former(row.path, first.path)
            owners = {seen.st_uid, os.fstat(source).st_uid}
            if not is_new and not self._may_come_to(row, os.fstat(directory), owners):
                return False
            part = part_name()
            with same_times(directory):
                os.link(source_name, part, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
            try:
                status = os.stat(part, dir_fd=directory, follow_symlinks=False)
                if not is_as(status, seen):
                    return False
                self.place(row.path, directory, part, name)
            finally:
                # Two names of one file are not renamed over each other, but the first stays behind.
                remove_part(directory, part)
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

    def _had_former(self, path: bytes, first: bytes) -> bool:
        """Whether a path is a name of the file whose place this run has given to another, or there was none.

        Who may not have a file that was here may not have the one that is in its place. Raises OSError.
        """
        former = self._opened.known.first_names.former(first)
        if former is None:
            return True
        there = self._opened.below.status(path)
        return there is not None and signed_inode(there.st_ino) == former

    def _may_come_to(self, row: KnownFile, around: os.stat_result | None, owners: set[int]) -> bool:
        """Whether a file that was here may get a name in a directory, by who will own that; else noted."""
        path = row.path.rpartition(b"/")[0]
        owner = os.geteuid() if around is None else around.st_uid
        if self._is_root and (around is None or self.is_made(path, around)):
            told = self._opened.known.manifest_row_of(path)
            owner = owner if told is None else told.uid
        if owner in owners | {0, os.geteuid()}:
            return True
        self._report.note_of(
            "were made apart from the other name's file, which was here: the directory is another user's",
            row.path,
            row.mode,
        )
        return False

    def _seen_as(self, first: KnownFile, row: KnownFile) -> os.stat_result | None:
        """The status of a file that is as known, and as a row of another name says; else None."""
        seen = self._opened.below.status(first.path)
        if seen is None or not stat.S_ISREG(seen.st_mode) or signed_inode(seen.st_ino) != first.inode:
            return None
        here = seen.st_uid, seen.st_gid, portable_mode(seen.st_mode)
        if not self._may_be_names_of_one(first, row) or _rights(first) != here:
            return None
        is_known = file_side(self._opened, first.path, seen, first) is FileSide.SAME
        return seen if is_known else None

    def _may_be_names_of_one(self, first: KnownFile, row: KnownFile) -> bool:
        """Whether two rows can be of one file, by what their objects and the manifest say."""
        is_content = first.etag == row.etag or (first.crc64 is not None and first.crc64 == row.crc64)
        is_moment = first.size == row.size and is_stored_as(row.mtime_ns, first.mtime_ns)
        return is_content and is_moment and (not self._is_root or _rights(first) == _rights(row))

    def directory(self, path: bytes) -> None:
        """Make a directory; its attributes are set in the end. Raises OSError."""
        self.parent(path + b"/.")

    def is_made(self, path: bytes, status: os.stat_result) -> bool:
        """Whether a directory is as an import has made it, without attributes of its own. Raises OSError."""
        return self.made_ns(path, status) is not None

    def made_ns(self, path: bytes, status: os.stat_result) -> int | None:
        """As `MadeDirectories.made_ns`."""
        if not path or not self._directories.may_be_made(status):
            return None
        return self._directories.made_ns(self._opened.below.parent(path + b"/.")[0], path, status)

    def dress_directory(self, row: KnownFile) -> bool:
        """Give a directory that an import made its attributes, another no owner and no wider permissions.

        Whoever writes the bucket, or exchanges two names, would have what others keep in it. Whether one
        that was here got others than it had. Raises OSError.
        """
        is_changed = False
        descriptor = self.parent(row.path + b"/.")[0] if row.path else self._opened.below.root
        status = os.fstat(descriptor)
        if row.path and self._directories.is_made(descriptor, row.path, status):
            self._attributes(descriptor, row)
            self._directories.settle(descriptor)
        else:
            is_changed = self._dress_present(descriptor, row, status)
        note_here(self._opened, row, os.fstat(descriptor))
        return is_changed

    def dress_without_objects(self) -> None:
        """Give directories that no object tells of to the owner and the group of the one above."""
        for path in sorted(self._directories.without_objects):
            try:
                above = os.fstat(self.parent(path)[0])
                if self.is_made(path.rpartition(b"/")[0], above):
                    continue
                descriptor = self.parent(path + b"/.")[0]
                if self._directories.is_made(descriptor, path, os.fstat(descriptor)):
                    os.fchown(descriptor, above.st_uid, above.st_gid)
                    self._directories.settle(descriptor)
            except OSError as error:
                self._report.refused(path, "given to the owner of the directory above", error)

    def _dress_present(self, descriptor: int, row: KnownFile, status: os.stat_result) -> bool:
        if not self._is_root and status.st_uid != os.geteuid():
            self._keep_of_another(descriptor, row, status)
            return False
        here, wanted = stat.S_IMODE(status.st_mode), row.attributes.permissions
        is_owner = not self._is_root or (row.uid, row.gid) == (status.st_uid, status.st_gid)
        may_be_given = bool(row.path) and is_owner and not is_wider(here, wanted)
        looks = self._report.is_dry_run
        if may_be_given and here != wanted and not looks:
            os.fchmod(descriptor, wanted)
        own = read_xattrs(descriptor)
        has_acls = acls_of(row.xattrs) == acls_of(own)
        is_changed = (may_be_given and here != wanted) or not is_stored_as(row.mtime_ns, status.st_mtime_ns)
        with suppress(ValueError):
            is_changed |= bool(xattrs_to_give(own, row.xattrs, with_acls=False))
        if not is_owner or (here != wanted and not may_be_given) or not has_acls:
            self._report.note_of(
                "were here before: of a directory, the owner and who may enter it stay", row.path, row.mode
            )
        if not looks:
            self._give_xattrs(descriptor, row, with_acls=False)
        if (row.atime_ns, row.mtime_ns) != (status.st_atime_ns, status.st_mtime_ns) and not looks:
            os.utime(descriptor, ns=(row.atime_ns, row.mtime_ns))
        return is_changed

    def _keep_of_another(self, descriptor: int, row: KnownFile, status: os.stat_result) -> None:
        """Leave another user's directory as it is, which only its owner changes, and have its row say so."""
        mode, xattrs = portable_mode(status.st_mode), read_xattrs(descriptor)
        is_as_told = (mode, xattrs) == (row.mode, row.xattrs) and is_stored_as(
            row.mtime_ns, status.st_mtime_ns
        )
        if not is_as_told:
            owner = user_name(status.st_uid)
            others = status.st_mode & ~row.attributes.permissions & (stat.S_IRWXG | stat.S_IRWXO)
            enters = ", and more users may enter than the bucket says" if others else ""
            self._report.note_of(
                f"belong to {owner}: owner, mode and times stay, which only "
                f"{owner if owner == 'root' else f'{owner} or root'} can change{enters}",
                row.path,
                row.mode,
            )
        row.mtime_ns, row.xattrs = bounded_ns(status.st_mtime_ns), xattrs

    def attributes(self, row: KnownFile, seen: os.stat_result) -> bool:
        """Give a file its object's attributes; False where it was changed since it was `seen` to be as known.

        It is made anew where the owner or the ACL changes, or others may do more with it: who has it open
        would write to what another one believes to be his own. Raises OSError, also where it is open or has
        another name.
        """
        directory, name = self._opened.below.parent(row.path)
        descriptor = open_for_reading(name, directory)
        try:
            is_held = hold_writers(descriptor)
            # The lease came after the look: who has written in between is seen now.
            status = os.fstat(descriptor)
            if not is_same_moment(seen, status):
                return False
            if self.needs_another(row, status):
                return self._made_anew(row, directory, name, descriptor)
            self.dress(descriptor, row, is_new=False)
            note_here(self._opened, row, os.fstat(descriptor))
            if not is_held:
                # Who has written to it just before it got its times is seen by its content alone.
                row.ctime_ns = UNKNOWN
        finally:
            os.close(descriptor)
        return True

    def needs_another(self, row: KnownFile, status: os.stat_result) -> bool:
        """Whether a file gets attributes only as another one that takes its place. Raises OSError."""
        if not self._is_root:
            return False
        is_owner = (status.st_uid, status.st_gid) == (row.uid, row.gid)
        here = stat.S_IMODE(status.st_mode)
        is_same = is_owner and acls_of(xattrs_of(self._opened, row.path)) == acls_of(row.xattrs)
        return not is_same or is_wider(here, row.attributes.permissions)

    def _made_anew(self, row: KnownFile, directory: int, name: bytes, descriptor: int) -> bool:
        """Put a copy with a row's attributes in the place of an open file; False where it was changed."""
        if not take_lease(descriptor):
            raise OSError(errno.EBUSY, f"{_OTHER_ATTRIBUTES}, and it is open")
        _refuse_names(os.fstat(descriptor).st_nlink)
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
            before = self.before_name(copy)
            self.place(row.path, directory, part, name)
            self.note_named(row, copy, before)
        finally:
            os.close(copy)
            remove_part(directory, part)
        return True

    def dress(self, descriptor: int, row: KnownFile, *, is_new: bool = True) -> None:
        """Give an open file its attributes, and what says which object it is. Raises OSError."""
        self._attributes(descriptor, row, is_new=is_new)
        if not self._opened.is_guarded:
            # Nobody asks for it there, and cp -a and rsync -X would take it to files of which it is not true.
            return
        try:
            write_state(descriptor, row.state(self._opened.settings.bucket_url))
        except OSError as error:
            if row.is_name_only:
                raise OSError(
                    error.errno,
                    f"the file cannot say that it is a name only ({reason_of(error)}); "
                    "import with --contents",
                ) from error

    def _attributes(self, descriptor: int, row: KnownFile, *, is_new: bool = True) -> None:
        self._say_owners_left(row)
        if self._is_root:
            os.fchown(descriptor, row.uid, row.gid)
        os.fchmod(descriptor, row.attributes.permissions)
        if row.xattrs or not is_new:
            self._give_xattrs(descriptor, row)
        os.utime(descriptor, ns=(row.atime_ns, row.mtime_ns))

    def _give_xattrs(self, descriptor: int, row: KnownFile, *, with_acls: bool = True) -> None:
        """Give an open file the extended attributes of a row, which then has those that the file has."""
        try:
            give_xattrs(descriptor, row.xattrs, with_acls=with_acls)
        except (OSError, ValueError) as error:
            self._report.problem(row.path, f"its extended attributes cannot be written: {reason_of(error)}")
        row.xattrs = read_xattrs(descriptor)

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
            with same_times(directory):
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
            keep = self._is_changed(row.path, status)
            self._look_for_trash()
            directory, name = self._opened.below.parent(row.path)
            self._opened.below.names_away[status.st_ino] += 1
            is_elsewhere = self._opened.below.links(status) > 0
            self._opened.known.first_names.keep_former(row.path, status.st_ino)
            self.placer.plan(row.path, directory, name, status, keep=keep, is_elsewhere=is_elsewhere)
        if not row.attributes.is_link:
            self._say_owners_left(row)
        row.inode, row.links, row.ctime_ns = 1, 0, UNKNOWN

    def hard_link(self, row: KnownFile) -> bool:
        """Plan another name of a file that is here, or is planned."""
        first = self._opened.known.get(row.link_of or b"")
        if first is None:
            return False
        seen = None if is_planned(first) else self._seen_as(first, row)
        if not (self._may_be_names_of_one(first, row) if is_planned(first) else seen):
            return False
        if seen is not None or not self._had_former(row.path, first.path):
            owner = first.uid if seen is None else seen.st_uid
            owners = {owner, os.fstat(self._opened.below.parent(first.path)[0]).st_uid}
            around = self._opened.below.status(row.path.rpartition(b"/")[0])
            if not self._may_come_to(row, around, owners):
                return False
        row.is_name_only = first.is_name_only
        self.plan(row)
        return True

    def dress_directory(self, row: KnownFile) -> bool:
        """Say what a directory that is here would keep."""
        status = self._opened.below.status(row.path) if row.path else os.fstat(self._opened.below.root)
        if status is None:
            self._say_owners_left(row)
            return False
        descriptor = self._opened.below.parent(row.path + b"/.")[0] if row.path else self._opened.below.root
        is_made = bool(row.path) and self._directories.is_made(descriptor, row.path, status)
        return not is_made and self._dress_present(descriptor, row, status)

    def attributes(self, row: KnownFile, seen: os.stat_result) -> bool:
        """Whether a file could be given its object's attributes."""
        if self.needs_another(row, seen):
            _refuse_names(self._opened.below.links(seen))
        self._say_owners_left(row)
        self._dressed.add(row.path)
        return True

    def _seen_as(self, first: KnownFile, row: KnownFile) -> os.stat_result | None:
        """As that of a run, which has given a file its attributes by then."""
        if first.path not in self._dressed:
            return super()._seen_as(first, row)
        return self._opened.below.status(first.path) if self._may_be_names_of_one(first, row) else None

    def remove(self, row: KnownFile, status: os.stat_result) -> None:
        """Look whether a file could be moved to the trash. Raises OSError."""
        if not stat.S_ISDIR(status.st_mode):
            self._look_for_trash()
            self._opened.below.names_away[status.st_ino] += 1
        self._opened.below.planned_away.add(row.path)
        self._opened.below.refresh()

    def _look_for_trash(self) -> None:
        with suppress(FileNotFoundError):
            os.close(open_reserved(self._opened.below.root, make=False))


def is_planned(row: KnownFile) -> bool:
    """Whether a dry run would have made what a row says: no file that is here has no name."""
    return bool(row.inode) and not row.links


def _refuse_names(count: int) -> None:
    if count != 1:
        raise OSError(errno.EMLINK, f"{_OTHER_ATTRIBUTES}, and it has another name")


def _rights(row: KnownFile) -> tuple[int, int, int]:
    return row.uid, row.gid, row.mode


def note_here(opened: OpenRepository, row: KnownFile, status: os.stat_result) -> None:
    """Note in a row what is true of the file here, as it was just looked at.

    Its mtime is as its file system keeps it. A ctime is known only of a file that nobody has changed by now.
    """
    kind, size, mtime_ns, _, row.inode = stamp_of(status)
    is_changed = kind == stat.S_IFREG and (size != row.size or not is_stored_as(row.mtime_ns, mtime_ns))
    row.ctime_ns = UNKNOWN if is_changed else opened.clock.recorded_ctime(status)
    row.links = status.st_nlink
    if is_stored_as(row.mtime_ns, mtime_ns):
        row.mtime_ns = mtime_ns
    row.uid, row.gid, row.mode = status.st_uid, status.st_gid, portable_mode(status.st_mode)


def as_here(opened: OpenRepository, row: KnownFile, status: os.stat_result) -> KnownFile:
    """The row of a file whose content is that of the row, with the attributes that it has here."""
    found = replace(row, mtime_ns=bounded_ns(status.st_mtime_ns))
    note_here(opened, found, status)
    return found
