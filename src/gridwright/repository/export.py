"""Sends to the bucket what was created or changed, over nothing that somebody else has written.

Every object is written under a condition: where none should be, or over the known one. Where it fails,
both sides are compared: the same content is no conflict, as after a kill; else both stay, and are named.

Whether a file, or a link, that was touched or renamed still has the content of its object.

Deletes the object of a file that is gone, if the file still is, and the object is the known one.
"""

from __future__ import annotations

import queue
import stat
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from gridwright.repository.below import held_at_most, steps
from gridwright.repository.changelog.changes import RepositoryChanges, SourceOf
from gridwright.repository.changelog.lustre_source import LustreSource
from gridwright.repository.comparing import (
    OTHER_ATTRIBUTES,
    AttributesSide,
    Given,
    attributes_side,
    has_attributes,
    has_bucket_attributes,
    is_released,
    rights_to_give,
)
from gridwright.repository.content import Torn, crc64_of
from gridwright.repository.deletions import ExportDeletions, ObjectDeletions
from gridwright.repository.gone import (
    TAKEN,
    forget_nowhere,
    look_for_lost,
    name_lost,
    name_missing,
    send_again,
)
from gridwright.repository.keys import LEASE, KeyRefusal
from gridwright.repository.known_file import KnownFile, sent_stamp
from gridwright.repository.lease import Lease, plan_lease
from gridwright.repository.listed import BOTH_CHANGED, is_listing_due, list_bucket
from gridwright.repository.made_directories import MadeDirectories
from gridwright.repository.manifest_sync import learn
from gridwright.repository.object_format import PERMISSIONS, attributes_of, metadata_of
from gridwright.repository.planned import PlannedStore
from gridwright.repository.probing import plan_trial, require_store
from gridwright.repository.publishing import forget_library, library_of, publish_manifest
from gridwright.repository.s3.tries import MAY_PASS
from gridwright.repository.scan import Action, find_changes
from gridwright.repository.sending import (
    HAS_CONTENT,
    Sending,
    WithoutContent,
    bound,
    check_stored,
    condition_of,
    first_name,
    flush_many,
    former_row,
    has_content,
    has_known_content,
    is_untouched,
    open_for_sending,
    refuse_without_content,
    row_of,
    send,
)
from gridwright.repository.settings import (
    OpenRepository,
    Prefer,
    ReportedCount,
    RepositoryReport,
    note_failed,
)
from gridwright.repository.state_directory import UploadJournal
from gridwright.repository.store import (
    ObjectHead,
    StoreError,
    StoreFault,
    WriteCondition,
    WrittenObject,
)
from gridwright.repository.unfinished import end_step, take_sent, was_sent

_FAILS_ALIKE = (*MAY_PASS, StoreFault.FORBIDDEN)
"""Faults of a copy for which sending the content would fail, too."""
MOST_AT_ONCE = 64
"""Objects under way: each small one takes a connection."""
ATTEMPTS = 3
"""Tries to read a file that changes meanwhile."""
MOST_FAILURES = 10
"""Objects that may fail one after the other because the store does not answer, before the export ends."""
FORGOTTEN_OF_LIBRARY = "no more said to be in that library"
_IS_BOTH = (
    "is a file or a directory here, and the other in the bucket; both stay "
    "(rename it, import, and export it again)"
)
Progress = Callable[[int], None]
"""Told of bytes that have been sent, from other threads."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What an export is told."""

    paths: Sequence[bytes] = ()
    deletions: bool = False
    delete_up_to: int | None = None
    """So many objects may be deleted; None for as many as are usual (`deletions.py`)."""
    prefer: Prefer | None = None
    forget_library: str | None = None
    """The identifier of a library that is gone for good, or how it begins."""
    dry_run: bool = False


def export(
    opened: OpenRepository,
    options: ExportOptions,
    progress: Progress = lambda _bytes: None,
    source_of: SourceOf = LustreSource,
) -> RepositoryReport:
    """Export, and write the manifest. Raises GridwrightError where the store as a whole fails.

    Changelogs are taken first, since they must not wait for the store. A dry run takes the same steps with a
    store that only looks (`planned.py`), and a copy of what is known.
    """
    report = opened.report("export", is_dry_run=options.dry_run)
    begun, changes = time.time(), None
    if opened.settings.changelog is not None and not (options.dry_run or options.paths):
        changes = RepositoryChanges(opened, source_of)
        changes.take()
    with ExitStack() as held:
        lease = None if options.dry_run else _hold(opened, held, report)
        end_step(opened)
        learn(opened, report)  # Within the lease: nobody publishes more meanwhile.
        _forget_library(opened, options, report)
        is_forgotten = False
        if changes is None or is_listing_due(opened.known):
            starts = list_bucket(opened, options.paths)
            if options.dry_run:
                opened = replace(opened, store=PlannedStore.in_place_of(opened, starts))
                plan_trial(opened, report)
                plan_lease(opened.store)
            is_forgotten = not options.paths and forget_nowhere(opened, report)
        if changes is None:
            find_changes(opened, options.paths, report, deletions=options.deletions)
        else:
            changes.find(report, deletions=options.deletions)
        _Export(opened, options, report, lease, progress).run()
        if opened.known.is_listed:
            name_missing(opened, options.paths, report)
        _tell(opened, options, report, begun, is_forgotten=is_forgotten)
        if opened.known.is_listed:
            look_for_lost(opened, options.paths)
        name_lost(opened, report, options.paths)
    report.requests = dict(opened.store.requests.by_kind)
    if not options.dry_run:
        report.seconds = time.time() - begun
    return report


def _forget_library(opened: OpenRepository, options: ExportOptions, report: RepositoryReport) -> None:
    if options.forget_library is not None:
        count = forget_library(opened.known, options.forget_library)
        report.done[FORGOTTEN_OF_LIBRARY] = ReportedCount(count)


def _hold(opened: OpenRepository, held: ExitStack, report: RepositoryReport) -> Lease:
    """The lease of a repository whose store is safe. Raises GridwrightError."""
    uploads = held.enter_context(closing(UploadJournal(opened.known.state.made)))
    opened.store.begin_uploads(uploads)  # The trial of the store makes some, too.
    require_store(opened, report)
    return held.enter_context(Lease(opened.store, opened.keys.own(LEASE)))


def _tell(
    opened: OpenRepository,
    options: ExportOptions,
    report: RepositoryReport,
    begun: float,
    *,
    is_forgotten: bool,
) -> None:
    """Note what an export that began then has done, and tell other machines of it."""
    if is_whole := not options.paths and report.is_complete:
        opened.known.set_fact("exported", repr(begun))
    if not options.paths:
        note_failed(opened.known, begun, report.failed)
    if is_whole or report.done or is_forgotten:
        publish_manifest(opened, report)


def _is_file_object(row: KnownFile | None) -> bool:
    return row is not None and row.key is not None and not row.attributes.is_directory


class _Postponed(Exception):
    """What has to wait until all else is sent, and deleted."""


class _Restored(Exception):
    """A file whose content has come just now, and that is to be looked at again before anything is sent."""


@dataclass(slots=True)
class _Task:
    sending: Sending
    action: Action
    row: KnownFile | None
    future: Future[WrittenObject] | None = None
    newer: KnownFile | None = None
    """What the manifest says, where that is something else than the row."""
    source: KnownFile | None = None
    """Whose object is copied; None where the content is sent."""

    def again(self, opened: OpenRepository) -> _Task:
        """The same, opened once more: the next attempt."""
        self.sending.close()
        sending = open_for_sending(opened, self.sending.path, self.sending.key)
        sending.attempt = self.sending.attempt + 1
        sending.row, sending.told = self.sending.row, self.sending.told
        return _Task(sending, Action.SEND, self.row, newer=self.newer)


class _Export:
    """Objects under way, and the rows of those that have arrived."""

    def __init__(
        self,
        opened: OpenRepository,
        options: ExportOptions,
        report: RepositoryReport,
        lease: Lease | None,
        progress: Progress,
    ) -> None:
        """Without `lease`, only looking."""
        self._opened = opened
        self._options = options
        self._report = report
        self._lease = lease
        self._progress = progress
        self._arrived: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._under_way = 0
        self._most = min(MOST_AT_ONCE, held_at_most())
        self._failures = 0
        self._had_files = opened.known.has_files()
        self._library = library_of(opened.known)
        self._has_newer = bool(opened.known.newer)
        self._unsure: set[bytes] = set()
        """Paths whose objects the store may have taken without saying so, also from a killed export."""
        self._deletions = ExportDeletions(opened, report, options.delete_up_to)
        self._is_deleted = False
        """Whether all is sent and deleted that need not wait for it."""
        self._postponed: list[tuple[bytes, Action]] = []
        self._above: tuple[bytes, KnownFile | None] = (b"", None)
        """The last directory in which something new lay, and what `_file_above` found of it."""
        known = opened.known
        self._is_new_bucket = known.is_listed and not options.paths and not any(known.all_listed())
        self._free = b""
        """The last directory of which `_lies_in_file` found nothing."""

    def run(self) -> None:
        """Do all the work that the scan has kept. Raises GridwrightError where the store does not answer."""
        if self._opened.known.is_listed:
            send_again(self._opened, self._options.paths, self._options.prefer)
        self._report.begin()
        if self._lease is not None:
            flush_many(self._opened)
        try:
            for path, action, row in self._opened.known.work_with_rows(begins=self._lease is not None):
                if action != Action.DELETE:
                    self._begin(path, Action(action), row)
                    self._wait_for(self._most - 1)
            self._wait_for(0)
            if self._options.deletions and self._deletions.are_allowed():
                with ObjectDeletions(self._opened, self._report, prefer=self._options.prefer) as objects:
                    for path in self._opened.known.work_backwards(Action.DELETE):
                        self._wait_for(0)
                        objects.delete(path)
            self._is_deleted = True
            for path, action in self._postponed:
                self._begin(path, action, self._opened.known.get(path))
                self._wait_for(self._most - 1)
            self._wait_for(0)
            if not (self._options.deletions or self._options.paths):
                self._deletions.settle()
            self._opened.known.flush()
            if self._lease is not None:
                take_sent(self._opened, self._report)  # A store may go on after a kill.
            begun = self._opened.known.begun_now(all_there_is=not self._options.paths)
            self._opened.known.end(path for path in begun if path not in self._unsure)
        finally:
            self._opened.known.flush()

    def _wait_for(self, most: int) -> None:
        while self._under_way > most or not self._arrived.empty():
            self._finish(self._arrived.get())
        if self._lease is not None:
            self._lease.check(self._opened.settings.bucket_url)

    def _begin(self, path: bytes, action: Action, row: KnownFile | None, attempt: int = 1) -> None:
        try:
            key = self._key(path, row)
            sending = open_for_sending(self._opened, path, key)
        except _Postponed:
            self._postponed.append((path, action))
            return
        except KeyRefusal as refusal:
            self._report.problem(path, refusal.reason)
            return
        except FileNotFoundError:
            self._report.note_of("went while the export ran", path)
            return
        except OSError as error:
            self._report.refused(path, "read", error)
            return
        sending.attempt = attempt
        bound(sending, self._report)
        newer = self._opened.known.newer.get(path) if self._has_newer and row is not None else None
        if row is not None and row.is_version_of(newer):
            sending.row, sending.told = row, newer
        self._opened.known.begin(path, sent_stamp(sending.status))
        self._go_on(_Task(sending, action, row, newer=newer))

    def _go_on(self, task: _Task, *, copies: bool = True) -> None:
        """Do what is to be done of an open file, by a copy of its object where that is allowed and serves."""
        sending = task.sending
        try:
            if self._is_undressed(sending, task.row):
                self._left(sending, "an import was ended before it gave it its attributes; import again")
            elif not (copies and self._without_moving(task)):
                self._refuse_without_content(sending)
                self._send(task, condition_of(self._opened, sending, task.row, self._options.prefer))
        except WithoutContent as error:
            self._left(sending, str(error))
        except _Restored:
            sending.close()
            self._begin(sending.path, task.action, task.row, sending.attempt)
        except StoreError as error:
            self._failed(task, error)
        except OSError as error:
            self._unread(sending, error)

    def _is_undressed(self, sending: Sending, row: KnownFile | None) -> bool:
        """Whether a directory is as an import made it that had no time to give it what its object says."""
        path = sending.path
        if not (path and sending.attributes.is_directory):
            return False
        is_in_bucket = self._opened.known.listed(sending.key) is not None
        if not (row.attributes.is_directory if row is not None else is_in_bucket):
            return False
        descriptor = self._opened.below.parent(path + b"/.")[0]
        return MadeDirectories(self._opened).is_made(descriptor, path, sending.status)

    def _unread(self, sending: Sending, error: OSError) -> None:
        sending.close()
        self._report.refused(sending.path, "read", error)

    def _left(self, sending: Sending, why: str) -> None:
        sending.close()
        self._report.problem(sending.path, why)

    def _refuse_without_content(self, sending: Sending) -> None:
        """Have a file here whose content is to be read. Raises WithoutContent, _Restored, OSError."""
        descriptor = sending.descriptor
        if descriptor is None:
            return
        if self._opened.is_guarded:
            if self._lease is None:
                return
            if is_released(self._opened, descriptor):
                # The file system brings what is read. Its ctime is another one then.
                self._opened.released_names.wait_for(descriptor)
                raise _Restored
        elif not sending.has_state:
            return
        refuse_without_content(self._opened, descriptor)

    def _key(self, path: bytes, row: KnownFile | None) -> str:
        """The key of a path: the known one, so that what was imported goes back to where it came from.

        Some stores have no object of a key while others lie below it. So what is a file now and was a
        directory, or the other way, comes after all else, and after deletions, if these were allowed. Raises
        KeyRefusal, OSError, and _Postponed for what comes later.
        """
        if not path:
            return self._opened.keys.start
        is_in_bucket = row is not None and row.key is not None
        if not is_in_bucket and (above := self._file_above(path)) is not None:
            self._hold_back(path, above)
        status = self._opened.below.status(path)
        if status is None:
            raise FileNotFoundError(path)
        is_directory = stat.S_ISDIR(status.st_mode)
        if row is not None and row.key is not None:
            if row.attributes.is_directory == is_directory:
                self._refuse_both(path, row.key)
                return row.key
            if is_directory and not self._is_deleted and self._options.deletions and row.inode:
                self._deletions.add_replaced(path)
            self._hold_back(path, row)
            with ObjectDeletions(self._opened, self._report, prefer=self._options.prefer) as objects:
                objects.delete_of(row)
        is_new = row is None and not is_directory and not self._is_deleted
        if is_new and self._had_files and self._opened.known.has_rows_below(path):
            raise _Postponed
        key = self._opened.keys.key_of(path, is_directory=is_directory)
        self._refuse_both(path, key)
        return key

    def _refuse_both(self, path: bytes, key: str) -> None:
        """Raise KeyRefusal where a new object would make one name file and directory in the bucket.

        Some stores refuse that by themselves, and S3 does not.
        """
        known = self._opened.known
        if self._is_new_bucket or known.listed(key) is not None:
            return
        directory = path
        if is_file := not key.endswith("/"):
            directory = path.rpartition(b"/")[0]
        are_below = known.has_keys_below(key) if known.is_listed else known.has_rows_below(path)
        if (is_file and are_below) or self._lies_in_file(directory):
            raise KeyRefusal(path, _IS_BOTH)

    def _lies_in_file(self, directory: bytes) -> bool:
        """Whether the bucket has a file that has the name of a directory, or of one that it lies in.

        By the listing, or the manifest, where that of this run has not all or was not made.
        """
        if not directory or directory == self._free:
            return False
        known, keys = self._opened.known, self._opened.keys
        is_whole = known.is_listed and not self._options.paths
        for each in steps(directory):
            if known.listed(keys.key_of(each, is_directory=False)) is not None:
                return True
            if not is_whole and _is_file_object(known.newer.get(each)):
                return True
        self._free = directory
        return False

    def _hold_back(self, path: bytes, other: KnownFile) -> None:
        """Let a path through when the object of another kind in its way, its own or one above, may go.

        Raises KeyRefusal where it stays, and _Postponed while it is there.
        """
        if not self._options.deletions:
            raise KeyRefusal(path, "was a file or a directory, and is the other now; see --deletions")
        if not other.inode:
            raise KeyRefusal(path, _IS_BOTH)
        if not self._is_deleted:
            raise _Postponed
        if not self._deletions.are_allowed():
            raise KeyRefusal(path, "was a file or a directory, and is the other now; deletions were refused")
        if other.path != path:
            raise KeyRefusal(path, "is in a directory where a file was, whose object is still there")

    def _file_above(self, path: bytes) -> KnownFile | None:
        """The row of a file, with an object, whose place a directory has taken in which a path lies."""
        directory = path.rpartition(b"/")[0]
        if not (directory and self._had_files):
            return None
        if self._is_deleted or self._above[0] != directory:
            rows = map(self._opened.known.get, steps(directory))
            self._above = directory, next((row for row in rows if _is_file_object(row)), None)
        return self._above[1]

    def _send(self, task: _Task, condition: WriteCondition) -> None:
        if not task.sending.key:
            # The repository's own directory in a bucket without a prefix is in the manifest alone.
            self._known(task, WrittenObject("", None, None))
            return
        makes = self._opened.store.abilities.makes_directories and task.sending.key.endswith("/")
        if makes and self._is_without_object(task):
            return
        sent = send(self._opened, task.sending, condition, self._progress)
        self._wait_later(task, sent)
        if makes:
            # Before anything that lies in it is sent, which would make it.
            sent.exception()

    def _wait_later(self, task: _Task, future: Future[WrittenObject]) -> None:
        """Have a task finished when the store has answered."""
        self._under_way += 1
        task.future = future
        future.add_done_callback(lambda _: self._arrived.put(task))

    def _is_without_object(self, task: _Task) -> bool:
        """Whether the store has a directory that it made itself: it says so, and lists no object."""
        sending, known = task.sending, self._opened.known
        if known.is_listed and known.listed(sending.key) is not None:
            return False
        try:
            head = self._opened.store.head(sending.key).result()
        except StoreError:
            return False
        if PERMISSIONS in head.metadata:
            return False
        self._report.note_of(
            "are in the manifest alone, as the store keeps no objects of directories",
            sending.path,
            sending.status.st_mode,
        )
        task.action, task.row = Action.COMPARE, None
        self._known(task, WrittenObject(head.entry.etag, head.version_id, head.crc64))
        return True

    def _without_moving(self, task: _Task) -> bool:
        """Do what needs no content moved: nothing at all, other attributes, or another name."""
        sending, row = task.sending, task.row
        if row is not None and row.is_of_others(self._library) and self._options.prefer != "files":
            return has_known_content(self._opened, sending, row) and self._leaves_attributes(task, row)
        if task.action is Action.COMPARE and row and is_untouched(self._opened, sending, row):
            # Extended attributes are in the manifest alone: nothing is to be written to the object.
            is_same = sending.xattrs == row.xattrs
            if is_same:
                self._known_before(task, row)
            elif not self._is_left_to_import(task):
                task.action = Action.ATTRIBUTES
                self._known(task, WrittenObject(row.etag, row.version_id, row.crc64, row.stored_ns))
            return True
        return self._is_left_to_import(task) or (sending.descriptor is not None and self._is_copied(task))

    def _is_copied(self, task: _Task) -> bool:
        """Whether the object of a file is made of the one that it had, with attributes or a name of now."""
        sending, row = task.sending, task.row
        if task.action is not Action.COMPARE and row and is_untouched(self._opened, sending, row):
            task.action = Action.ATTRIBUTES
            try:
                given = self._others_given(sending, row)
                if given is not None and self._is_left(task, row, given):
                    return True
            except StoreError as error:
                if error.fault in _FAILS_ALIKE:
                    raise
                task.action = Action.SEND
                return False
            task.source = row
        else:
            task.source = former_row(self._opened, sending) if row is None and self._had_files else None
            task.action = Action.RENAME if task.source else Action.SEND
        if task.source is None:
            return False
        reference = task.source.reference(self._opened.settings.bucket_url)
        self._wait_later(task, self._opened.store.copy(reference, sending.key, metadata_of(sending.stored)))
        return True

    def _leaves_attributes(self, task: _Task, row: KnownFile) -> bool:
        """Keep what the bucket says of a file that this library never had, and has with the same content.

        What the file has is no change that anybody made here; where an import would give it others, it is
        named. False where its object is not the known one any more. Raises StoreError.
        """
        sending = task.sending
        here, mtime_ns = sending.given
        if not sending.path or has_bucket_attributes(self._opened, here, mtime_ns, row.rights, row.mtime_ns):
            self._known_before(task, row)
            if (row.rights, row.mtime_ns) != (here, mtime_ns):
                # What its user may not give it stays in the bucket as it was.
                self._opened.known.newer.keep([row])
            return True
        is_file = not row.attributes.is_directory
        if is_file and self._opened.store.head(row.key or "").result().entry.etag != row.etag:
            return False
        self._left(sending, OTHER_ATTRIBUTES)
        return True

    def _known_before(self, task: _Task, row: KnownFile) -> None:
        """Note a file that is here, of an object that nothing is written to."""
        task.action = Action.COMPARE
        self._known(task, WrittenObject(row.etag, row.version_id, row.crc64, row.stored_ns))

    def _is_left_to_import(self, task: _Task) -> bool:
        """Whether another library gave the object attributes that this one has not; a conflict is named."""
        row, newer = task.row, task.newer
        if self._options.prefer == "files" or row is None or newer is None or not row.was_given_others(newer):
            return False
        said = rights_to_give(self._opened, newer.rights, row.rights)
        return self._is_left(task, row, (said, newer.mtime_ns))

    def _is_left(self, task: _Task, row: KnownFile, said: Given) -> bool:
        """Leave a file to an import that gives it what its object is `said` to have; a conflict is named."""
        side = attributes_side(task.sending.given, (row.rights, row.mtime_ns), said)
        if side is AttributesSide.CHANGED:
            self._left(task.sending, BOTH_CHANGED)
        elif side is AttributesSide.SAME and row.attributes.is_directory:
            task.sending.close()
        elif side is AttributesSide.SAME:
            self._known_before(task, row)
        return side is not AttributesSide.TAKEN

    def _others_given(self, sending: Sending, row: KnownFile) -> Given | None:
        """The attributes that an object with the known content was given by somebody else; None for none.

        Raises StoreError.
        """
        if self._options.prefer == "files":
            return None
        head = self._opened.store.head(row.key or "").result()
        # The store's Date may be late: a newer object with the known attributes is the known one. One with
        # those of the file was given them by an export that was killed.
        is_same = row.is_of(row.etag, head.entry.last_modified_ns) or any(
            has_attributes(head, each) for each in (row.attributes, sending.stored)
        )
        if head.entry.etag != row.etag or is_same:
            return None
        return self._object_attributes(head, row.xattrs)

    def _object_attributes(self, head: ObjectHead, xattrs: bytes | None) -> Given:
        """What an object says of its file; of extended attributes the manifest alone tells."""
        entry = head.entry
        found = attributes_of(
            head.metadata, is_directory=entry.key.endswith("/"), last_modified_ns=entry.last_modified_ns,
            owner=self._opened.owner,
        ).attributes  # fmt: skip
        return (found.mode, found.uid, found.gid, xattrs), found.mtime_ns

    def _finish(self, task: _Task) -> None:
        self._under_way -= 1
        if task.future is None:
            raise AssertionError("a task that was never sent")
        try:
            stored = task.future.result()
            if task.source is not None:
                stored = replace(stored, crc64=task.source.crc64 or stored.crc64)
            elif self._lease is not None:
                stored = check_stored(self._opened.store, task.sending, stored)
            self._known(task, stored)
            self._failures = 0
        except Torn:
            self._again(task)
        except StoreError as error:
            if task.source is None or error.fault in _FAILS_ALIKE:
                self._failed(task, error)
            else:
                # Its object is not the known one any more, or is archived: the content is here.
                task.action, task.source = Action.SEND, None
                self._go_on(task, copies=False)
        except OSError as error:
            self._unread(task.sending, error)

    def _again(self, task: _Task) -> None:
        task.sending.close()
        if task.sending.attempt < ATTEMPTS:
            path = task.sending.path
            self._begin(path, task.action, self._opened.known.get(path), task.sending.attempt + 1)
        else:
            self._report.problem(
                task.sending.path,
                f"it changed each of the {ATTEMPTS} times that it was read; nothing was sent",
            )

    def _failed(self, task: _Task, error: StoreError) -> None:
        if error.fault is StoreFault.NOT_THERE and task.row is not None:
            # The object is gone, so that nothing can be overwritten.
            if task.row.is_only_in_bucket:
                self._report.note_of(TAKEN, task.sending.path)
            task.row = None
            task.sending.close()
            self._opened.known.forget(task.sending.path)
            self._begin(task.sending.path, Action.SEND, None, task.sending.attempt + 1)
            return
        if error.fault is StoreFault.CHANGED:
            self._settle(task)
            return
        self._left(task.sending, error.problems[0].what)
        if error.fault in MAY_PASS:
            self._unsure.add(task.sending.path)
        if error.fault is StoreFault.NO_BUCKET:
            raise error
        if error.fault in (StoreFault.UNREACHABLE, StoreFault.THROTTLED):
            self._failures += 1
            if self._failures >= MOST_FAILURES:
                raise error

    def _settle(self, task: _Task) -> None:
        """Another object is there: the same content, as after a kill, or a conflict."""
        sending = task.sending
        try:
            head = self._opened.store.head(sending.key).result()
        except StoreError as error:
            self._left(sending, error.problems[0].what)
            return
        is_same = has_content(self._opened, sending, head)
        if is_same and has_attributes(head, sending.stored):
            # A store without CRCs has shown by its MD5 that the content is that of the file.
            crc64 = head.crc64 or (crc64_of(sending.descriptor) if sending.descriptor is not None else None)
            stored = WrittenObject(head.entry.etag, head.version_id, crc64, head.entry.last_modified_ns)
            task.action, task.row = Action.COMPARE, None
            self._known(task, stored)
        elif is_same and task.row is None and self._has_other_attributes(sending, head):
            self._left(sending, OTHER_ATTRIBUTES)
        elif not is_same and not was_sent(self._opened, sending.path, head):
            self._unsure.add(sending.path)
            is_taken = sending.key.endswith("/") and head.entry.size > 0
            self._left(sending, HAS_CONTENT if is_taken else BOTH_CHANGED)
        elif sending.attempt >= ATTEMPTS:
            self._left(
                sending, f"the store says {ATTEMPTS} times that its object is another one, and shows the "
                "same one each time: its conditions do not hold"
            )  # fmt: skip
        else:
            # Nothing but attributes is written over, or what a killed export has sent: the file is newer.
            task.row = None
            self._send(task.again(self._opened), WriteCondition(etag=head.entry.etag))

    def _has_other_attributes(self, sending: Sending, head: ObjectHead) -> bool:
        """Whether somebody else gave attributes to an object of which nothing is known.

        A later attempt may meet what an earlier one has sent.
        """
        (here, mtime_ns), (said, said_ns) = sending.given, self._object_attributes(head, sending.xattrs)
        is_said = PERMISSIONS in head.metadata and bool(sending.path) and sending.attempt == 1
        return is_said and not has_bucket_attributes(self._opened, here, mtime_ns, said, said_ns)

    def _known(self, task: _Task, stored: WrittenObject) -> None:
        """Write the row of what is now equal on both sides."""
        sending = task.sending
        before = None if task.action is Action.SEND else task.source or task.row
        link_of = first_name(self._opened, sending)
        row = row_of(self._opened, sending, stored, link_of, before)
        if task.action is Action.COMPARE and task.row is not None and task.row.link_of == link_of:
            row.libraries = task.row.libraries
        else:
            others = [each for each in (task.row, task.newer) if each and each.etag == row.etag]
            if any(each.link_of or each.xattrs for each in (row, *others)):
                # The manifest alone tells these: who asked the store before has them from it later.
                others.append(row)
            row = row.after(*others)
            if sending.told is not None:
                self._keep_of_bucket(sending, row)
        self._opened.known.put(row, settles=True)
        size = sending.content.size if task.action is Action.SEND else 0
        if sending.attempt > 1 or row.is_name_only:  # The listing, which was before, may lack it.
            self._opened.known.list_objects([(sending.key, row.size, row.etag, row.stored_ns, "")])
        if not (task.action is Action.COMPARE and task.row is not None and row.attributes.is_directory):
            self._report.add(task.action, size, row.mode)
        sending.close()

    def _keep_of_bucket(self, sending: Sending, row: KnownFile) -> None:
        """Keep for the manifest what the object says, and the file has not."""
        said = sending.stored
        stored = replace(
            row, mode=said.mode, uid=said.uid, gid=said.gid, mtime_ns=said.mtime_ns,
            xattrs=sending.stored_xattrs,
        )  # fmt: skip
        if stored != row:
            self._opened.known.newer.keep([stored])
