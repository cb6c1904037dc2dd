"""Frees the space of files whose content is in the bucket.

A file is only freed after it was read and is what its object is, which is asked for just before, and while
nobody else can change it (`file_locks.py`). On a file system of this kernel the file goes out of the tree,
after the manifest has said so to other machines. On a Lustre with an archive its name stays, released.

Files that are being released lie in a directory beside their place until nobody can come to open them.
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
import shlex
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from gridwright.beneath import DIRECTORY, make_private, open_own
from gridwright.errors import environment_error
from gridwright.refusals import reason_of
from gridwright.repository.below import ASIDE, RELEASING, held_at_most, same_times
from gridwright.repository.comparing import note_restored
from gridwright.repository.content import crc64_of, is_same_content, is_same_moment, open_for_reading
from gridwright.repository.copytool.released import ReleasedNames
from gridwright.repository.extended import read_xattrs
from gridwright.repository.file_clock import UNKNOWN, is_stored_as
from gridwright.repository.file_locks import HoldsForAll, has_lease, is_open_elsewhere, lock_of, take_lease
from gridwright.repository.keys import LEASE, shown
from gridwright.repository.known_file import KnownFile
from gridwright.repository.lease import Lease, plan_lease
from gridwright.repository.making import note_here
from gridwright.repository.manifest_sync import learn
from gridwright.repository.object_format import portable_mode
from gridwright.repository.placing import place_new
from gridwright.repository.planned import PlannedStore
from gridwright.repository.probing import recall_store
from gridwright.repository.publishing import publish_manifest
from gridwright.repository.references import write_state
from gridwright.repository.sending import mark_exported
from gridwright.repository.settings import OpenRepository, RepositoryReport, is_chosen
from gridwright.repository.store import StoreError, StoreFault
from gridwright.repository.walking import parts_below

GRACE_S = 0.1
"""How long a file waits for those who resolved its name before it was taken away: they are between two
steps of open(2), or were taken off their core there."""
_MOST_ASIDE, _OPEN_OF_EACH, _OTHERS_OPEN = 64, 4, 60
"""Files that wait so at a time, where so many may be open; descriptors of each, and of all else."""
_CHANGED, _OPEN = "left, as they were changed", "left, as they are open"
_LINKED = "left, as they have another name"
"""Space is free when all names of a file are gone."""
_SEVERAL = "have other names: space is free when all names of a file are gone, so that none is released"
_Attributes: TypeAlias = tuple[int, int, int, int, int, bytes | None]


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """What is to be released."""

    paths: Sequence[bytes] = ()
    until_free: float | None = None
    """Part of the file system that is to be free, 0 to 1; None releases all that was chosen."""
    unread_for_s: float = 0.0
    """Only files that nobody has read, written or changed for so long."""
    dry_run: bool = False


def release(opened: OpenRepository, options: ReleaseOptions) -> RepositoryReport:
    """Release files, those that were read longest ago first.

    A dry run takes the same steps, as that of an export does. Raises GridwrightError where the store fails,
    and where no lock holds for all who can open a file.
    """
    known = lock_of(opened.below.root)
    if known.lock is HoldsForAll.NONE or (known.lock is HoldsForAll.HSM and not opened.is_guarded):
        raise environment_error(
            f"nothing is released: on {known.name} no lock tells whether another client writes to a file",
            where=str(opened.settings.directory),
            remedy=known.remedy,
        )
    report = opened.report("release", is_dry_run=options.dry_run)
    begun = time.time()
    (_HsmRelease if opened.is_guarded else _LocalRelease)(opened, options, report).run()
    report.requests = dict(opened.store.requests.by_kind)
    report.seconds = time.time() - begun
    return report


class _Release:
    """What every way has in common: which files, in which order, until when."""

    def __init__(self, opened: OpenRepository, options: ReleaseOptions, report: RepositoryReport) -> None:
        self._opened = opened
        self._options = options
        self._report = report
        self._planned_bytes = 0

    def run(self) -> None:
        """Release until enough is free, or nothing more can be released."""
        self._tell_left()
        try:
            for row in self._candidates():
                if self._is_enough():
                    break
                self._try(row)
        finally:
            self._finish()
            self._opened.known.flush()
        if not self._is_enough() and self._options.until_free is not None:
            self._report.problem(
                "", f"less than {self._options.until_free:.0%} is free, and nothing more can be released"
            )

    def _tell_left(self) -> None:
        """Note files with several names, and why one that was named itself is none that may be released."""
        for row in self._opened.known.rows("is_name_only = 0 AND inode <> 0 AND size > 0 AND links > 1"):
            if is_chosen(row.path, self._options.paths):
                self._report.note_of(_SEVERAL, row.path, row.mode)
        for path in self._options.paths:
            if why := self._why_never(path):
                self._report.note_of(why, path)

    def _why_never(self, path: bytes) -> str | None:
        row = self._opened.known.get(path)
        try:
            status = self._opened.below.status(path)
        except OSError as error:
            self._report.refused(path, "released", error)
            return None
        if status is None or stat.S_ISDIR(status.st_mode):
            is_away = status is None and row is not None and row.is_only_in_bucket
            return "are in the bucket alone already" if is_away else None
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return "have no content that takes space"
        if row is None or row.key is None or not row.inode:
            return "have no object that is known: gridwright repo export NAME sends such files"
        if _was_used(status, self._options.unread_for_s):
            return "were used within the time of --unread-for"
        return "are released already" if row.is_name_only else None

    def _candidates(self, condition: str = "1") -> Iterator[KnownFile]:
        """Files that may be released and fit a condition, those first that were read longest ago."""
        for row in self._opened.known.rows(
            f"is_name_only = 0 AND inode <> 0 AND size > 0 AND {condition}", order="atime_ns, path"
        ):
            if is_chosen(row.path, self._options.paths) and _is_file(row):
                yield row

    def _is_enough(self, more: int = 0) -> bool:
        """Whether as much is free as was wanted, with what a dry run would have freed, and so many bytes."""
        if self._options.until_free is None:
            return False
        space = os.fstatvfs(self._opened.below.root)
        free = space.f_bavail * space.f_frsize + self._planned_bytes + more
        return free >= self._options.until_free * space.f_blocks * space.f_frsize

    def _try(self, row: KnownFile) -> None:
        try:
            self._release(row)
        except FileNotFoundError:
            return
        except StoreError as error:
            if error.fault in (StoreFault.UNREACHABLE, StoreFault.THROTTLED):
                raise
            self._report.problem(row.path, error.problems[0].what)
        except OSError as error:
            self._report.refused(row.path, "released", error)

    def _release(self, row: KnownFile) -> None:
        directory, name = self._opened.below.parent(row.path)
        with ExitStack() as held:
            descriptor = open_for_reading(name, directory)
            held.callback(os.close, descriptor)
            if _was_used(os.fstat(descriptor), self._options.unread_for_s):
                return
            self._release_open(row, directory, descriptor, held)

    def _release_open(self, row: KnownFile, directory: int, descriptor: int, held: ExitStack) -> None:
        """Release a file that is open. Who takes `held` closes it. Raises OSError, StoreError."""
        raise NotImplementedError

    def _finish(self) -> None:
        """End what waits."""

    def _why_not(self, row: KnownFile, descriptor: int) -> str | None:
        """Why an open file may not be released, that nobody changes meanwhile; it is read.

        Raises OSError, and StoreError where the object is not the exported one.
        """
        # What others have mapped is on disk then, and each later change of it changes the ctime.
        os.fsync(descriptor)
        before = os.fstat(descriptor)
        if before.st_nlink != 1:
            return _LINKED
        if not _is_as_exported(descriptor, before, row) or not _is_object(self._opened, descriptor, row):
            return _CHANGED
        after = os.fstat(descriptor)
        return None if is_same_moment(before, after) else _CHANGED

    def _is_planned(self, row: KnownFile) -> bool:
        """Whether nothing is to be done, and what would be freed was counted."""
        if self._options.dry_run:
            self._report.add("released", row.size, row.mode)
            self._planned_bytes += row.blocks * 512
        return self._options.dry_run


class _HsmRelease(_Release):
    """Of a Lustre: the metadata server frees the content, and the inode stays."""

    def run(self) -> None:
        """The same, with files that were read back meanwhile."""
        note_restored(self._opened)
        super().run()

    def _release_open(self, row: KnownFile, directory: int, descriptor: int, held: ExitStack) -> None:
        names = self._opened.released_names
        if not names.is_released(descriptor):
            if never := names.why_never(descriptor):
                self._report.add(never, row.size, row.mode)
                return
            # Whoever writes after this changes the version, which the metadata server looks at.
            version = names.version(descriptor)
            why = self._why_not(row, descriptor)
            if why is None and not self._is_planned(row):
                settings = self._opened.settings
                # An agent finds the object by it, whatever ends this command in between.
                mark_exported(descriptor, row, settings.bucket_url, os.fstat(descriptor))
                why = names.release(os.fsencode(settings.directory), descriptor, version)
            if why is not None:
                self._report.add(why, row.size, row.mode)
            if why is not None or self._options.dry_run:
                return
            self._report.add("released", row.size, row.mode)
        if not self._options.dry_run:
            self._note(names, row, descriptor)

    def _note(self, names: ReleasedNames, row: KnownFile, descriptor: int) -> None:
        """Write down that a file has no content here, unless somebody has had it brought already."""
        status, bucket_url = os.fstat(descriptor), self._opened.settings.bucket_url
        if not _is_same_file(status, row):
            return
        row.is_name_only = True
        write_state(descriptor, replace(row.state(bucket_url), had_content=True))
        if not names.is_released(descriptor):
            row.is_name_only = False
            write_state(descriptor, row.state(bucket_url))
        note_here(self._opened, row, os.fstat(descriptor))
        self._opened.known.put(row)


@dataclass(frozen=True, slots=True)
class _FileAside:
    """A file that lies aside, leased, and waits."""

    row: KnownFile
    descriptor: int
    aside: AsideDirectory
    attributes: _Attributes
    held: ExitStack


class _LocalRelease(_Release):
    """Of a file system of this kernel: the file goes out of the tree, and its row says so."""

    def __init__(self, opened: OpenRepository, options: ReleaseOptions, report: RepositoryReport) -> None:
        super().__init__(opened, options, report)
        self._lease = Lease(opened.store, opened.keys.own(LEASE))
        self._waiting: list[_FileAside] = []
        self._most_aside = held_at_most(_OPEN_OF_EACH, _MOST_ASIDE, _OTHERS_OPEN)
        self._is_all_placed = not may_be_left(opened)

    def run(self) -> None:
        """The same, with a note that files may lie aside, and other machines told of each before it goes."""
        opened, looks = self._opened, self._options.dry_run
        recall_store(opened)
        with nullcontext() if looks else self._lease:
            learn(opened, self._report)
            if looks:
                planned = PlannedStore.in_place_of(opened, ())
                opened = self._opened = replace(opened, store=planned)
                plan_lease(planned)
            note_begun(opened)
            super().run()
            if "released" in self._report.done:
                words = opened.settings.words
                self._report.notes.append(
                    f"released files have no names here: gridwright repo ls {words} shows them, and "
                    f"gridwright repo import {words} brings them back"
                )
            if self._is_all_placed:
                opened.known.set_fact(RELEASING, "0")
            if opened.known.leaving:
                opened.known.leaving.clear()
                publish_manifest(opened, self._report)

    def _candidates(self, condition: str = "1") -> Iterator[KnownFile]:
        """In rounds, since some may stay: those of each are not here for other machines before it begins."""
        leaving, at_least = self._opened.known.leaving, self._most_aside
        while self._choose(at_least):
            publish_manifest(self._opened, self._report)
            for row in super()._candidates(f"{condition} AND {leaving.CHOSEN}"):
                self._lease.check(self._opened.settings.bucket_url)
                yield row
            self._finish()
            leaving.tried()
            at_least *= 4

    def _choose(self, at_least: int) -> bool:
        """Note so many files, or as many as would be enough, as leaving; whether there is any."""
        leaving, count, size = self._opened.known.leaving, 0, 0
        for row in super()._candidates(leaving.OTHERS):
            if self._is_enough(size) and (count >= at_least or not size):
                break
            if self._may_leave(row):
                leaving.add(row.path)
                count += 1
                size += row.blocks * 512
        return count > 0

    def _may_leave(self, row: KnownFile) -> bool:
        """Whether a file looks as it was exported, and as nobody uses it."""
        try:
            status = self._opened.below.status(row.path)
        except OSError:
            return True
        return status is not None and not _was_used(status, self._options.unread_for_s)

    def _is_enough(self, more: int = 0) -> bool:
        if len(self._waiting) >= self._most_aside or self._options.until_free is not None:
            # Some of them may get their names back, and space is free when they are gone.
            waiting = sum(each.row.blocks for each in self._waiting) * 512
            self._planned_bytes += waiting
            would_be = super()._is_enough(more)
            self._planned_bytes -= waiting
            if would_be or len(self._waiting) >= self._most_aside:
                self._finish()
        return super()._is_enough(more)

    def _release_open(self, row: KnownFile, directory: int, descriptor: int, held: ExitStack) -> None:
        if not take_lease(descriptor):
            self._report.add(_OPEN, row.size, row.mode)
            return
        # Who has written before the lease is seen now; nobody does after it.
        if why := self._why_not(row, descriptor):
            self._report.add(why, row.size, row.mode)
        elif not self._is_planned(row):
            self._set_aside(row, directory, descriptor, held)

    def _set_aside(self, row: KnownFile, directory: int, descriptor: int, held: ExitStack) -> None:
        """Take the name of a leased file away for a moment."""
        name = row.path.rpartition(b"/")[2]
        attributes = _attributes(descriptor)
        aside = AsideDirectory.make(directory, note_begun(self._opened))
        held.callback(aside.close)
        try:
            aside.take(name)
        except OSError:
            aside.leave()
            raise
        waiting = _FileAside(row, descriptor, aside, attributes, held.pop_all())
        if aside.inode(name) != row.inode:
            # Somebody has given the name to another file.
            with waiting.held:
                self._give_back(waiting, _CHANGED)
            return
        self._opened.known.put(row.not_here())
        self._waiting.append(waiting)

    def _finish(self) -> None:
        """Free what lies aside, after a time of grace, and give names back where somebody has come."""
        if not self._waiting:
            return
        time.sleep(GRACE_S)
        # Before the first one goes: else its object would be that of a file that somebody has deleted.
        self._opened.known.flush()
        for each in self._waiting:
            with each.held:
                self._finish_one(each)
        self._waiting = []

    def _finish_one(self, waiting: _FileAside) -> None:
        is_changed = _attributes(waiting.descriptor) != waiting.attributes
        is_linked = os.fstat(waiting.descriptor).st_nlink != 1
        if not has_lease(waiting.descriptor) or is_changed or is_linked:
            self._give_back(waiting, _CHANGED if is_changed else _LINKED if is_linked else _OPEN)
            return
        try:
            waiting.aside.free(waiting.row.path.rpartition(b"/")[2])
            self._report.add("released", waiting.row.size, waiting.row.mode)
        except OSError as error:
            self._is_all_placed = False
            path, words = waiting.row.path, self._opened.settings.words
            self._report.problem(
                path,
                f"it is not here any more, and its space is not free: {reason_of(error)}; gridwright repo "
                f"import {words} {shlex.quote(shown(path))} brings it",
            )

    def _give_back(self, waiting: _FileAside, why: str) -> None:
        row, aside = waiting.row, waiting.aside
        self._report.add(why, row.size, row.mode)
        try:
            aside.give_back(row.path.rpartition(b"/")[2])
            # As it was known, so that what was changed is found.
            self._opened.known.put(row)
        except FileExistsError:
            self._is_all_placed = False
            self._report.problem(row.path, two_have_come(aside.own))
        except OSError as error:
            # The next command puts back what lies there.
            self._is_all_placed = False
            self._report.problem(row.path, f"it lies aside, and cannot be put back: {reason_of(error)}")


def _is_file(row: KnownFile) -> bool:
    return row.attributes.is_file and row.key is not None and row.links == 1


def _was_used(status: os.stat_result, within_s: float) -> bool:
    last = max(status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns) / 1e9
    return time.time() - last < within_s


def _attributes(descriptor: int) -> _Attributes:
    """What may change of a file without its being opened."""
    status = os.fstat(descriptor)
    owners = status.st_uid, status.st_gid
    return status.st_mode, *owners, status.st_size, status.st_mtime_ns, read_xattrs(descriptor)


def _is_same_file(status: os.stat_result, row: KnownFile) -> bool:
    same = (status.st_size, status.st_ino) == (row.size, row.inode)
    return same and is_stored_as(row.mtime_ns, status.st_mtime_ns)


def _is_as_exported(descriptor: int, status: os.stat_result, row: KnownFile) -> bool:
    """Whether a file has the size, time and inode of its row and, where it was touched, its attributes."""
    if not _is_same_file(status, row):
        return False
    if status.st_ctime_ns == row.ctime_ns:
        return True
    mode, uid, gid, _, _, xattrs = _attributes(descriptor)
    return (portable_mode(mode), uid, gid, xattrs) == (row.mode, row.uid, row.gid, row.xattrs)


def _is_object(opened: OpenRepository, descriptor: int, row: KnownFile) -> bool:
    """Whether an open file is what its object is now: it is read.

    Raises StoreError where the object is not the exported one.
    """
    head = opened.store.head(row.key or "", None).result()
    if (head.entry.etag, head.entry.size) != (row.etag, row.size):
        raise StoreError(StoreFault.CHANGED, row.key or "", "it is not what was exported")
    if row.crc64 is not None and head.crc64 is not None and head.crc64 != row.crc64:
        raise StoreError(StoreFault.DAMAGED, row.key or "", "its CRC is not that of the file")
    # An object with the ETag that an export has seen has the CRC that was exported.
    if crc64 := head.crc64 or row.crc64:
        return crc64_of(descriptor) == crc64
    return is_same_content(descriptor, head) is True


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
