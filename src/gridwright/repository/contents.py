"""Brings the contents of files that are not here, many at once: whole and checked, then in their place.

What was fetched is held against the CRC of its object, where one is known, before anybody sees it.
"""

from __future__ import annotations

import errno
import os
import queue
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.refusals import reason_of
from gridwright.repository.below import part_name, same_times, sync_beside_others
from gridwright.repository.comparing import FileSide, check_brought, file_side, is_name_only
from gridwright.repository.content import crc64_of
from gridwright.repository.export import Progress
from gridwright.repository.extended import NOT_NAMELESS
from gridwright.repository.known_file import KnownFile
from gridwright.repository.listed import BOTH_CHANGED, FETCH, LINK
from gridwright.repository.making import Maker, PlannedMaker, is_planned, note_here, open_new
from gridwright.repository.placing import (
    Arrived,
    Fetching,
    Flushed,
    HeldDirectory,
    dig_holes,
    flushing,
    is_untouched,
    name_new,
    place_new,
)
from gridwright.repository.planned import PlannedStore
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport, is_chosen
from gridwright.repository.store import StoreError, StoreFault
from gridwright.repository.unfinished import finishing
from gridwright.units import format_bytes

CONTENTS = "import --contents"
MOST_AT_ONCE = 64
MOST_FAILURES = 10
_GIVEN_UP_S = 0.5
"""How long requests that were broken off have to end, so that nobody writes to their files any more."""
RESTORE_DAYS = 7
"""How long an archived object that was restored can be read."""
_NAME_TAKEN = "something else has its name since; the next import compares"
_NAMED_AT_ONCE = 16
"""Files that get their names in one step: what others do there meanwhile does not show in the times."""
_NAMES = "is_name_only <> 0 AND inode <> 0"
"""Rows of released files."""


@dataclass(frozen=True, slots=True)
class ContentOptions:
    """What is to be brought, and how."""

    paths: Sequence[bytes] = ()
    prefer: Prefer | None = None
    dry_run: bool = False
    restore: str | None = None
    """Have archived objects restored, in this tier: Standard, Bulk or Expedited."""


def import_contents(
    opened: OpenRepository, options: ContentOptions, progress: Progress = lambda _bytes: None
) -> RepositoryReport:
    """Bring contents. Raises GridwrightError before anything is fetched where there is no room for all."""
    report = opened.report(CONTENTS, is_dry_run=options.dry_run)
    begun = time.time()
    check_room(opened, _bytes_to_fetch(opened, options))
    if options.dry_run:
        opened = replace(opened, store=PlannedStore.in_place_of(opened, [opened.keys.start]))
        _Contents(opened, options, report, progress).run_looking()
        report.requests = dict(opened.store.requests.by_kind)
        return report
    opened.known.before_writing = lambda: sync_beside_others(opened.below.root)
    try:
        with finishing(opened):
            _Contents(opened, options, report, progress).run()
            opened.known.keep_not_taken()
    finally:
        opened.known.flush()
        opened.known.before_writing = lambda: None
        report.requests = dict(opened.store.requests.by_kind)
        report.seconds = time.time() - begun
    return report


def _bytes_to_fetch(opened: OpenRepository, options: ContentOptions) -> int:
    """Bytes that are to be brought."""
    new = opened.known.count_work().get(FETCH, (0, 0))[1]
    if not options.paths:
        return new + opened.known.count(_NAMES)[1]
    return new + sum(row.size for row in opened.known.rows(_NAMES) if is_chosen(row.path, options.paths))


class _Contents:
    def __init__(
        self, opened: OpenRepository, options: ContentOptions, report: RepositoryReport, progress: Progress
    ) -> None:
        self._opened = opened
        self._options = options
        self._report = report
        self._progress = progress
        self._make = Maker.of(opened, report, options.prefer, are_given=True)
        self._arrived: Arrived = queue.SimpleQueue()
        self._under_way: set[bytes] = set()
        self._begun: dict[bytes, Fetching] = {}
        """All that is neither in its place nor given up, by path, wherever an order to stop meets it."""
        self._failures = 0
        self._held: HeldDirectory | None = None
        """That of the file before."""
        self._are_nameless = True
        """Whether new files may have no name before they are whole: a killed import leaves none then."""

    def run_looking(self) -> None:
        """Say what would be fetched."""
        self._run()

    def run(self) -> None:
        """Fetch all, those with other names in the end."""
        with flushing(self._opened.below.root, self._arrived) as self._flushing:
            try:
                self._run()
                self._hold(None)
                self._make.placer.settle()
                self._make.dress_without_objects()
            except BaseException:
                self._drop_all()
                raise

    def _drop_all(self) -> None:
        """Leave nothing of what is under way: a file is whole or nothing."""
        self._hold(None)
        self._opened.store.close()
        self._flushing.close()
        asked: list[Future[Any]] = [each.future for each in self._begun.values() if each.future is not None]
        wait(asked, _GIVEN_UP_S)
        for each in self._begun.values():
            if each.future is not None and each.future.done():
                with suppress(Exception):
                    each.fetched()
            each.drop()

    def _drop(self, fetching: Fetching) -> None:
        fetching.drop()
        self._begun.pop(fetching.row.path, None)

    def _run(self) -> None:
        self._report.begin()
        for row in self._opened.known.manifest_work(FETCH):
            self._begin_from_manifest(row)
            self._wait_for_one()
        for row in self._opened.known.rows(f"{_NAMES} AND link_of IS NULL"):
            self._begin(row)
            self._wait_for_one()
        self._wait_for_all()
        if not self._opened.is_guarded:
            for row in self._opened.known.manifest_work(LINK):
                self._link_or_begin(row)
                self._wait_for_all()
        for row in self._opened.known.rows(f"{_NAMES} AND link_of IS NOT NULL"):
            self._link_or_begin(row)
            self._wait_for_all()

    def _link_or_begin(self, row: KnownFile) -> None:
        if not is_chosen(row.path, self._options.paths):
            return
        first = self._opened.known.get(row.link_of or b"")
        try:
            self._make.parent(row.path)
            if not row.inode and self._is_to_stay(row, self._opened.below.status(row.path)):
                return
            if first is not None and not first.is_name_only and self._make.hard_link(row):
                self._opened.known.put_present(row)
                # Its content is that of the first name.
                self._report.add("made", mode=row.mode)
                return
        except OSError as error:
            self._report.refused(row.path, "made", error)
            return
        if row.inode:
            self._begin(row)
        else:
            row.link_of = None
            self._begin_from_manifest(row)

    def _begin_from_manifest(self, row: KnownFile) -> None:
        """Begin a file of which no name is here, or that takes the place of one that is as it was known."""
        if not is_chosen(row.path, self._options.paths):
            return
        try:
            directory, name = self._make.parent(row.path)
            status = self._opened.below.status(row.path)
            if not self._is_to_stay(row, status):
                self._fetch(row, directory, name, status)
        except OSError as error:
            self._not_written(row, error)

    def _is_to_stay(self, row: KnownFile, status: os.stat_result | None) -> bool:
        """Whether what is here by now stays; what was changed here is named."""
        if status is None:
            return False
        if self._opened.is_guarded:
            return True
        known = self._opened.known.get(row.path)
        known = known if known is not None and known.inode else None
        if self._options.prefer == "objects":
            return False
        if file_side(self._opened, row.path, status, known) is not FileSide.CHANGED:
            return False
        self._report.problem(row.path, BOTH_CHANGED)
        return True

    def _begin(self, row: KnownFile) -> None:
        if not is_chosen(row.path, self._options.paths):
            return
        try:
            status = self._opened.below.status(row.path)
            if is_planned(row):
                self._fetch(row, self._opened.below.root, b"", status)
                return
            side = file_side(self._opened, row.path, status, row)
            if side is FileSide.ABSENT:
                return
            if side is FileSide.CHANGED:
                self._report.problem(row.path, "it was written to before its content was here; left as it is")
                return
            directory, name = self._opened.below.parent(row.path)
            if not is_name_only(self._opened, row.path):
                # It was restored as somebody read it.
                row.is_name_only = False
                if status is not None:
                    note_here(self._opened, row, status)
                self._opened.known.put(row)
                return
            self._fetch(row, directory, name, status)
        except OSError as error:
            self._not_written(row, error)

    def _fetch(self, row: KnownFile, directory: int, name: bytes, before: os.stat_result | None) -> None:
        if isinstance(self._make, PlannedMaker):
            self._plan(self._make, row)
            return
        held = self._directory_of(row.path, directory)
        self._begin_in(held.hold(), row, name, before)

    def _begin_in(
        self,
        held: HeldDirectory,
        row: KnownFile,
        name: bytes,
        before: os.stat_result | None,
        attempt: int = 1,
    ) -> None:
        """Begin to fetch a file, which has a temporary name where it cannot have none until it is whole."""
        part = b"" if before is None and self._are_nameless else part_name()
        fetching = Fetching(row, part, held, name, -1, before, attempt=attempt)
        # Known before anything is made, wherever an order to stop comes.
        self._begun[row.path] = fetching
        self._begin_fetching(fetching)

    def _fetch_again(self, fetching: Fetching) -> None:
        """Fetch once more what came damaged: it may be the way, and not the object. Raises OSError."""
        held = fetching.held.hold()
        self._drop(fetching)
        self._begin_in(held, fetching.row, fetching.name, fetching.before, attempt=2)

    def _begin_fetching(self, fetching: Fetching) -> None:
        reference = fetching.row.reference(self._opened.settings.bucket_url)
        try:
            if fetching.part:
                fetching.descriptor = open_new(fetching.directory, fetching.part)
                fetching.future = self._opened.store.fetch(reference, fetching.descriptor, self._progress)
            else:
                fetching.future = self._opened.store.fetch_new(reference, fetching.directory, self._progress)
        except OSError as error:
            if self._is_named_instead(fetching, error):
                return
            self._drop(fetching)
            raise
        self._under_way.add(fetching.row.path)
        fetching.future.add_done_callback(lambda _: self._arrived.put(fetching))

    def _is_named_instead(self, fetching: Fetching, error: OSError) -> bool:
        """Fetch into a file with a name where the file system has none without. Raises OSError."""
        if fetching.part or fetching.descriptor >= 0 or error.errno not in NOT_NAMELESS:
            return False
        self._are_nameless = False
        fetching.part = part_name()
        self._begin_fetching(fetching)
        return True

    def _plan(self, make: PlannedMaker, row: KnownFile) -> None:
        """Say that a file would be fetched, or why not."""
        try:
            self._opened.store.fetch(row.reference(self._opened.settings.bucket_url), -1).result()
        except StoreError as error:
            self._name_at_least(row, is_new=self._opened.below.status(row.path) is None)
            self._refused(row, error)
            return
        make.plan(row)
        self._brought(row)

    def _brought(self, row: KnownFile) -> None:
        if not row.is_name_only:
            self._report.add("made", row.size, row.mode)
        row.is_name_only = False
        self._opened.known.put_present(row)
        self._report.add("brought", row.size, row.mode)

    def _directory_of(self, path: bytes, directory: int) -> HeldDirectory:
        """The open directory of a file, held until the file of another one comes."""
        around = path.rpartition(b"/")[0]
        held = self._held
        if held is None or held.path != around:
            held = HeldDirectory(around, directory)
            self._hold(held)
        return held

    def _hold(self, directory: HeldDirectory | None) -> None:
        if self._held is not None:
            self._held.let_go()
        self._held = directory

    def _wait_for_one(self) -> None:
        """Wait until another one may be begun."""
        if not self._report.is_dry_run:
            self._wait_for(min(MOST_AT_ONCE, self._flushing.most_held) - 1)

    def _wait_for(self, most: int) -> None:
        if self._report.is_dry_run:
            return
        while (
            len(self._under_way) > most
            or not self._arrived.empty()
            or self._flushing.must_wait(len(self._under_way))
        ):
            self._take()

    def _wait_for_all(self) -> None:
        """Wait until all that was begun is in its place."""
        self._wait_for(0)
        while not self._report.is_dry_run and self._flushing.begin(even_few=True):
            self._take()

    def _take(self) -> None:
        arrived = self._arrived.get()
        if isinstance(arrived, Flushed):
            self._flushing.ended()
            self._place_all(arrived)
        else:
            self._under_way.discard(arrived.row.path)
            self._finish(arrived)
        self._flushing.begin()

    def _finish(self, fetching: Fetching) -> None:
        row = fetching.row
        try:
            crc64 = fetching.fetched()
            check_brought(self._opened, row, fetching.descriptor, crc64 or crc64_of(fetching.descriptor))
            self._failures = 0
            if not self._is_changed(fetching):
                self._dress(fetching)
                self._flushing.add(fetching)
        except StoreError as error:
            if error.fault is StoreFault.DAMAGED and fetching.attempt == 1:
                try:
                    self._fetch_again(fetching)
                except OSError as other:
                    self._not_written(row, other)
                return
            full = os.fstatvfs(fetching.directory).f_bavail == 0
            self._drop(fetching)
            if full:
                raise disk_is_full(self._opened) from error
            self._name_at_least(row, is_new=fetching.before is None)
            self._refused(row, error)
        except OSError as error:
            try:
                if self._is_named_instead(fetching, error):
                    return
            except OSError as other:
                error = other
            self._drop(fetching)
            self._not_written(row, error)

    def _name_at_least(self, row: KnownFile, *, is_new: bool) -> None:
        """Make the name of a file that is new, where others have theirs whose contents do not come."""
        try:
            if not self._opened.is_guarded or not is_new:
                return
            if self._opened.below.status(row.path) is not None:
                return
            self._make.name_only(row)
            self._opened.known.put(row)
            self._report.add("made", row.size, row.mode)
        except OSError as error:
            self._not_written(row, error)

    def _not_written(self, row: KnownFile, error: OSError) -> None:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_is_full(self._opened, reason_of(error)) from error
        self._report.refused(row.path, "written", error)

    def _is_changed(self, fetching: Fetching) -> bool:
        """Whether the name was written to meanwhile; then what was fetched is dropped."""
        if fetching.before is None:
            return False
        row = fetching.row
        status = os.stat(fetching.name, dir_fd=fetching.directory, follow_symlinks=False)
        if row.is_name_only:
            is_same = file_side(self._opened, row.path, status, row) is not FileSide.CHANGED
        else:
            is_same = is_untouched(status, fetching.before)
        if is_same:
            return False
        self._drop(fetching)
        self._report.problem(row.path, "it was written to before its content was here; left as it is")
        return True

    def _dress(self, fetching: Fetching) -> None:
        row = fetching.row
        if 0 <= row.blocks * 512 < row.size:
            dig_holes(fetching.descriptor, row.size)
        whole = replace(row, is_name_only=False) if row.is_name_only else row
        self._make.dress(fetching.descriptor, whole)

    def _place_all(self, flushed: Flushed) -> None:
        """Put what is on disk in the place of the names."""
        failure = flushed.future.exception()
        files = flushed.files
        while files:
            some = [files.pop()]
            # One step for some of a directory: each gives the directory its times back.
            while len(some) < _NAMED_AT_ONCE and files and files[-1].held is some[0].held:
                some.append(files.pop())
            new = [each for each in some if each.before is None and (failure or each.failure) is None]
            errors = self._name_new(new) if new else {}
            for each in some:
                self._placed(each, failure or each.failure or errors.get(each.row.path))

    def _name_new(self, files: Sequence[Fetching]) -> dict[bytes, OSError]:
        """Give new files of one directory their names; what went wrong, by path."""
        errors: dict[bytes, OSError] = {}
        directory = files[0].directory
        with same_times(directory):
            for each in files:
                try:
                    each.before_name = self._make.before_name(each.descriptor)
                    if each.part:
                        place_new(directory, each.part, each.name, descriptor=each.descriptor)
                    else:
                        name_new(directory, each.descriptor, each.name)
                except OSError as error:
                    errors[each.row.path] = error
        return errors

    def _placed(self, fetching: Fetching, failure: BaseException | None) -> None:
        """Note a file that has its name, or replaces what has it, or say why not."""
        row = fetching.row
        try:
            if failure is not None:
                raise failure
            if fetching.before is not None:
                if self._is_changed(fetching):
                    return
                fetching.before_name = self._make.before_name(fetching.descriptor)
                where = row.path, fetching.directory, fetching.part, fetching.name
                self._make.place(*where, descriptor=fetching.descriptor)
        except FileExistsError as error:
            self._drop(fetching)
            self._report.problem(row.path, _NAME_TAKEN if fetching.before is None else reason_of(error))
            return
        except OSError as error:
            self._drop(fetching)
            self._not_written(row, error)
            return
        if fetching.before_name is not None:
            self._make.note_named(row, fetching.descriptor, fetching.before_name)
        self._brought(row)
        fetching.close()
        del self._begun[row.path]

    def _refused(self, row: KnownFile, error: StoreError) -> None:
        if error.fault is StoreFault.ARCHIVED and self._options.restore:
            try:
                if self._opened.store.restore(
                    row.key or "", row.version_id, RESTORE_DAYS, self._options.restore
                ):
                    self._report.add("restore started", row.size, row.mode)
            except StoreError as other:
                error = other
            else:
                self._report.problem(row.path, "its object is being restored; run the command again later")
                return
        self._report.problem(row.path, error.problems[0].what)
        if error.fault in (StoreFault.UNREACHABLE, StoreFault.THROTTLED):
            self._failures += 1
            if self._failures >= MOST_FAILURES:
                raise error


def check_room(opened: OpenRepository, size: int) -> None:
    """Raise GridwrightError where the disk has no room for so many bytes."""
    room = os.fstatvfs(opened.below.root)
    free = (room.f_bfree if os.geteuid() == 0 else room.f_bavail) * room.f_frsize
    if size > free:
        raise environment_error(
            f"the contents are {format_bytes(size)}, and the disk has {format_bytes(free)}: "
            "no content was brought",
            where=str(opened.settings.directory),
            remedy=f"make room, name fewer paths, or {_left(opened)}",
        )


def disk_is_full(opened: OpenRepository, why: str = os.strerror(errno.ENOSPC)) -> GridwrightError:
    """The error of a disk that is full, or has no more for this user."""
    return environment_error(
        f"the disk is full ({why}); files that were brought are whole, and {_others(opened)} as before",
        where=str(opened.settings.directory),
        remedy="make room, and run the command again: it goes on",
    )


def _left(opened: OpenRepository) -> str:
    """What to do without contents; only a file system that guards them has names of such files."""
    return "leave them names only" if opened.is_guarded else "leave the others in the bucket"


def _others(opened: OpenRepository) -> str:
    return "the others are names only" if opened.is_guarded else "the others are in the bucket alone"
