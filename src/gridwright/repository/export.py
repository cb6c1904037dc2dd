"""Sends to the bucket what was created or changed, over nothing that somebody else has written.

Every object is written under a condition: where none should be, or over the known one. Where it fails,
both sides are compared: the same content is no conflict, as after a kill; else both stay, and are named.

Whether a file, or a link, that was touched or renamed still has the content of its object.

Deletes the object of a file that is gone, if the file still is, and the object is the known one.
"""

from __future__ import annotations

import os
import queue
import stat
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace

from gridwright.repository.changelog.changes import RepositoryChanges, SourceOf
from gridwright.repository.changelog.lustre_source import LustreSource
from gridwright.repository.comparing import has_attributes
from gridwright.repository.content import Torn, crc64_of, is_same_content, open_for_reading
from gridwright.repository.counted_names import note_failed
from gridwright.repository.deletion_limit import Deletions, note_refusal
from gridwright.repository.file_clock import is_kept_as
from gridwright.repository.gone import (
    TAKEN,
    forget_nowhere,
    gone_files,
    look_for_lost,
    name_lost,
    name_missing,
    send_again,
)
from gridwright.repository.keys import LEASE, KeyRefusal
from gridwright.repository.knowledge import learn
from gridwright.repository.known import NO_DIRECTORY
from gridwright.repository.known_file import KnownFile, sent_stamp
from gridwright.repository.lease import Lease
from gridwright.repository.listed import is_listing_due, list_bucket
from gridwright.repository.object_format import metadata_of
from gridwright.repository.planned import ETAG as PLANNED
from gridwright.repository.planned import PlannedStore
from gridwright.repository.probing import require_store
from gridwright.repository.publishing import forget_library, publish_manifest
from gridwright.repository.s3.tries import MAY_PASS
from gridwright.repository.scan import Action, find_changes
from gridwright.repository.sending import (
    HAS_CONTENT,
    Hollow,
    Sending,
    bound,
    check_stored,
    condition_of,
    first_name,
    flush_many,
    open_for_sending,
    own_state,
    refuse_hollow,
    row_of,
    send,
)
from gridwright.repository.settings import OpenRepository, Prefer, ReportedCount, RepositoryReport
from gridwright.repository.store import (
    ObjectHead,
    SmallContent,
    StoreError,
    StoreFault,
    WriteCondition,
    WrittenObject,
)
from gridwright.repository.upload_journal import UploadJournal

_CHANGED = "the file was deleted and its object was changed; the object stays"
_FILES = f"inode <> 0 AND {NO_DIRECTORY}"
"""Rows of files and links that were here."""
DELETED_DIRECTORIES = "deleted from the bucket as directories"


class ExportDeletions:
    """Whether an export may delete what its scan has kept as work (`deletion_limit.py`)."""

    def __init__(self, opened: OpenRepository, report: RepositoryReport, up_to: int | None) -> None:
        """Made when the scan has ended, and before anything is sent; `up_to` is what somebody has named."""
        self._opened = opened
        self._report = report
        self._up_to = up_to
        self._count = sum(1 for _ in gone_files(opened.known))
        self._before = opened.known.count(_FILES)[0] if self._count else 0
        self._are_allowed: bool | None = None

    def are_allowed(self) -> bool:
        """Whether objects may be deleted; a refusal is a problem of the report.

        Asked when all is sent: what has another name by now, or another one left, is not lost.
        """
        if self._are_allowed is None:
            known = self._opened.known
            is_all = self._count >= known.count(_FILES)[0]
            moved = sum(map(self._is_elsewhere, gone_files(known)))
            why = Deletions(self._count - moved, self._before, is_all).refusal(self._up_to)
            if why is not None:
                self._report.problem("--deletions", why)
            note_refusal(known, "export", why)
            self._are_allowed = why is None
        return self._are_allowed

    def settle(self) -> None:
        """An export of all without `--deletions` ends a refusal where nothing is gone any more."""
        if self._report.is_complete and not self._opened.known.count(self._opened.known.gone)[0]:
            note_refusal(self._opened.known, "export", None)

    def _is_elsewhere(self, row: KnownFile) -> bool:
        """Whether the file of a row was found under another name, with the content that it had."""
        return any(
            self._opened.known.was_seen(other.path)
            and (other.size, other.mtime_ns, other.target) == (row.size, row.mtime_ns, row.target)
            and (other.target is not None or self._crc64(other) == row.crc64)
            for other in self._opened.known.by_inode(row.inode)
        )

    def _crc64(self, row: KnownFile) -> str | None:
        """That of a file, of which a dry run has sent nothing."""
        if row.etag != PLANNED:
            return row.crc64
        with suppress(OSError):
            directory, name = self._opened.below.parent(row.path)
            descriptor = open_for_reading(name, directory)
            try:
                return crc64_of(descriptor)
            finally:
                os.close(descriptor)
        return None


def delete_object(
    opened: OpenRepository, path: bytes, report: RepositoryReport, *, prefer: Prefer | None
) -> None:
    """Delete the object of a path where nothing is any more, and its row.

    The path is looked at again: what is there by now keeps its object. So does a path that cannot be looked
    at, and an object that somebody has changed; these are named.
    """
    try:
        is_there = opened.below.status(path) is not None
    except OSError as error:
        report.problem(path, f"whether it is gone cannot be seen ({error.strerror}); the object stays")
        return
    if is_there:
        report.note_of("are there again; objects stay", path)
        return
    delete_object_of(opened, opened.known.get(path), report, prefer=prefer)
    opened.below.refresh()


def delete_object_of(
    opened: OpenRepository, row: KnownFile | None, report: RepositoryReport, *, prefer: Prefer | None
) -> None:
    """Delete the object of a row, and the row; an object that somebody has changed stays, and is named.

    Where the bucket has versions, the object's stays as an older one.
    """
    if row is None:
        return
    if row.key is None:
        opened.known.forget(row.path)
        return
    try:
        head = opened.store.head(row.key).result()
        if head.entry.etag != row.etag and prefer != "files":
            report.problem(row.path, _CHANGED)
            return
        # What somebody writes from now on stays, too, where the store heeds the condition.
        opened.store.delete(row.key, head.entry.etag)
    except StoreError as error:
        if error.fault is StoreFault.CHANGED:
            report.problem(row.path, _CHANGED)
            return
        if error.fault is not StoreFault.NOT_THERE:
            report.problem(row.path, error.problems[0].what)
            return
        opened.known.forget(row.path)
        return
    opened.known.forget(row.path)
    report.add(DELETED_DIRECTORIES if row.attributes.is_directory else Action.DELETE, row.size)


def is_untouched(opened: OpenRepository, sending: Sending, row: KnownFile) -> bool:
    """Whether the content of an open file is that of its row; it is read where nothing else tells.

    Raises OSError, and StoreError where the store has to be asked.
    """
    descriptor = sending.descriptor
    if descriptor is None:
        return sending.target is not None and (sending.target, sending.xattrs) == (row.target, row.xattrs)
    if sending.content.size != row.size or not is_kept_as(row.mtime_ns, sending.status.st_mtime_ns):
        return False
    state = own_state(descriptor)
    if state is not None and state.is_name_only and state.is_of(row.etag, sending.status):
        # Nothing is here that could differ.
        return True
    if row.crc64 is not None:
        return crc64_of(descriptor) == row.crc64
    if row.key is None:
        return False
    return is_same_content(descriptor, opened.store.head(row.key).result()) is True


def has_content(opened: OpenRepository, sending: Sending, head: ObjectHead) -> bool:
    """Whether an object has what is to be sent. Raises OSError, StoreError."""
    if sending.descriptor is not None:
        return is_same_content(sending.descriptor, head) is True
    data = sending.content.data if isinstance(sending.content, SmallContent) else b""
    return head.entry.size == len(data) and (not data or opened.store.get(sending.key) == data)


def former_row(opened: OpenRepository, sending: Sending) -> KnownFile | None:
    """The row of a file under the name that it had, if it was renamed and nothing has its new key.

    Its object is copied then, and no content sent. Raises OSError.
    """
    known = opened.known
    for row in known.by_inode(sending.status.st_ino):
        if row.key is None or not row.attributes.is_file or known.was_seen(row.path):
            continue
        with suppress(StoreError):
            if is_untouched(opened, sending, row) and not _is_there(opened, sending.key):
                return row
    return None


def _is_there(opened: OpenRepository, key: str) -> bool:
    try:
        opened.store.head(key).result()
    except StoreError as error:
        if error.fault is StoreFault.NOT_THERE:
            return False
        raise
    return True


MOST_AT_ONCE = 64
"""Objects under way: each small one takes a connection."""
ATTEMPTS = 3
"""Tries to read a file that changes meanwhile."""
MOST_FAILURES = 10
"""Objects that may fail one after the other because the store does not answer, before the export ends."""
FORGOTTEN_OF_LIBRARY = "no more said to be in that library"
_BOTH_CHANGED = (
    "both the file and its object were changed; neither was overwritten "
    "(--prefer files sends the file, import --prefer objects takes the object)"
)
Progress = Callable[[int], None]
"""Told of bytes that have been sent, from other threads."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What an export is told."""

    paths: Sequence[bytes] = ()
    deletions: bool = False
    delete_up_to: int | None = None
    """So many objects may be deleted; None for as many as are usual (`deletion_limit.py`)."""
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
    report = RepositoryReport(opened.settings.name, "export", options.dry_run)
    begun, changes = time.time(), None
    if opened.settings.changelog is not None and not (options.dry_run or options.paths):
        changes = RepositoryChanges(opened, source_of)
        changes.take()
    with ExitStack() as held:
        lease = None if options.dry_run else _hold(opened, held, report)
        learn(opened, report)  # Within the lease: nobody publishes more meanwhile.
        _forget_library(opened, options, report)
        is_forgotten = False
        if changes is None or is_listing_due(opened.known):
            starts = list_bucket(opened, options.paths)
            if options.dry_run:
                opened = replace(opened, store=PlannedStore.in_place_of(opened, starts))
            is_forgotten = not options.paths and forget_nowhere(opened, report)
        if changes is None:
            find_changes(opened, options.paths, report, deletions=options.deletions)
        else:
            changes.find(report, deletions=options.deletions)
        _Export(opened, options, report, lease, progress).run()
        if opened.known.is_listed:
            name_missing(opened, options.paths, report)
        if not options.dry_run:
            _tell(opened, options, report, begun, is_forgotten=is_forgotten)
        if opened.known.is_listed:
            look_for_lost(opened, options.paths)
        name_lost(opened, report, options.paths)
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


@dataclass(slots=True)
class _Task:
    sending: Sending
    action: Action
    row: KnownFile | None
    future: Future[WrittenObject] | None = None

    def again(self, opened: OpenRepository) -> _Task:
        """The same, opened once more: the next attempt."""
        self.sending.close()
        sending = open_for_sending(opened, self.sending.path, self.sending.key)
        sending.attempt = self.sending.attempt + 1
        return _Task(sending, Action.SEND, self.row)


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
        self._failures = 0
        self._had_files = opened.known.has_files()
        self._unsure: set[bytes] = set()
        """Paths whose objects the store may have taken without saying so."""
        self._deletions = ExportDeletions(opened, report, options.delete_up_to)

    def run(self) -> None:
        """Do all the work that the scan has kept. Raises GridwrightError where the store does not answer."""
        if self._opened.known.is_listed:
            send_again(self._opened, self._options.paths, self._options.prefer)
        if self._lease is not None:
            flush_many(self._opened)
        try:
            for path, action, row in self._opened.known.work_with_rows(begins=self._lease is not None):
                if action == Action.DELETE:
                    self._wait_for(0)
                    if self._deletions.are_allowed():
                        delete_object(self._opened, path, self._report, prefer=self._options.prefer)
                    continue
                self._begin(path, Action(action), row)
                self._wait_for(MOST_AT_ONCE - 1)
            self._wait_for(0)
            if self._options.deletions:
                self._deletions.are_allowed()
            elif not self._options.paths:
                self._deletions.settle()
            self._opened.known.flush()
            self._opened.known.end(
                path for path in self._opened.known.begun_now() if path not in self._unsure
            )
        finally:
            self._opened.known.flush()
            self._report.requests = dict(self._opened.store.requests.by_kind)

    def _wait_for(self, most: int) -> None:
        while self._under_way > most or not self._arrived.empty():
            self._finish(self._arrived.get())
        if self._lease is not None:
            self._lease.check(self._opened.settings.bucket_url)

    def _begin(self, path: bytes, action: Action, row: KnownFile | None, attempt: int = 1) -> None:
        try:
            key = self._key(path, row)
            sending = open_for_sending(self._opened, path, key)
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
        self._opened.known.begin(path, sent_stamp(sending.status))
        try:
            if not self._without_moving(task := _Task(sending, action, row)):
                self._refuse_hollow(sending)
                self._send(task, condition_of(sending, row, self._options.prefer))
        except Hollow:
            self._left(sending, "it was written to before all its content was here; write it anew as a whole")
        except StoreError as error:
            self._failed(task, error)
        except OSError as error:
            self._unread(sending, error)

    def _unread(self, sending: Sending, error: OSError) -> None:
        sending.close()
        self._report.refused(sending.path, "read", error)

    def _left(self, sending: Sending, why: str) -> None:
        sending.close()
        self._report.problem(sending.path, why)

    def _refuse_hollow(self, sending: Sending) -> None:
        if sending.descriptor is not None:
            if self._opened.is_guarded:
                if self._lease is None:
                    return
                # Where the file system brings what is read, reading it to send it is enough.
                self._opened.released_names.wait_for(sending.descriptor)
            refuse_hollow(sending.descriptor)

    def _key(self, path: bytes, row: KnownFile | None) -> str:
        """The key of a path: the known one, so that what was imported goes back to where it came from."""
        if not path:
            return self._opened.keys.start
        status = self._opened.below.status(path)
        if status is None:
            raise FileNotFoundError(path)
        is_directory = stat.S_ISDIR(status.st_mode)
        if row is not None and row.key is not None:
            if row.attributes.is_directory == is_directory:
                return row.key
            if not self._options.deletions:
                raise KeyRefusal(path, "was a file or a directory, and is the other now; see --deletions")
            if not row.inode:
                raise KeyRefusal(path, "is a file or a directory, and the other in the bucket; both stay")
            delete_object_of(self._opened, row, self._report, prefer=self._options.prefer)
        return self._opened.keys.key_of(path, is_directory=is_directory)

    def _send(self, task: _Task, condition: WriteCondition) -> None:
        if not task.sending.key:
            # The repository's own directory in a bucket without a prefix is in the manifest alone.
            self._known(task, WrittenObject("", None, None))
            return
        self._under_way += 1
        task.future = send(self._opened, task.sending, condition, self._progress)
        task.future.add_done_callback(lambda _: self._arrived.put(task))

    def _without_moving(self, task: _Task) -> bool:
        """Do what needs no content moved: nothing at all, other attributes, or another name."""
        sending, row = task.sending, task.row
        if task.action is Action.COMPARE and row and is_untouched(self._opened, sending, row):
            self._known(task, WrittenObject(row.etag, row.version_id, row.crc64, row.stored_ns))
            return True
        if sending.descriptor is None:
            return False
        if task.action is Action.ATTRIBUTES and row and is_untouched(self._opened, sending, row):
            source: KnownFile | None = row
        else:
            source = former_row(self._opened, sending) if row is None and self._had_files else None
            task.action = Action.RENAME if source else Action.SEND
        if source is None:
            return False
        reference = source.reference(self._opened.settings.bucket_url)
        try:
            if task.action is Action.ATTRIBUTES and self._was_given_others(sending, source):
                self._conflict(sending)
                return True
            copied = self._opened.store.copy(reference, sending.key, metadata_of(sending.attributes))
        except StoreError as error:
            if error.fault in (*MAY_PASS, StoreFault.FORBIDDEN):
                raise
            # Its object is not the known one any more, or is archived: the content is here.
            task.action = Action.SEND
            return False
        self._known(task, replace(copied, crc64=source.crc64 or copied.crc64), source)
        return True

    def _was_given_others(self, sending: Sending, row: KnownFile) -> bool:
        """Whether an object with the known content was other attributes. Raises StoreError."""
        if self._options.prefer == "files":
            return False
        head = self._opened.store.head(row.key or "").result()
        # The store's Date may be late: a newer object with the known attributes is the known one. One with
        # those of the file was given them by an export that was killed.
        is_same = row.is_of(row.etag, head.entry.last_modified_ns) or any(
            has_attributes(head, each) for each in (row.attributes, sending.attributes)
        )
        return head.entry.etag == row.etag and not is_same

    def _conflict(self, sending: Sending) -> None:
        self._left(sending, HAS_CONTENT if sending.key.endswith("/") else _BOTH_CHANGED)

    def _finish(self, task: _Task) -> None:
        self._under_way -= 1
        if task.future is None:
            raise AssertionError("a task that was never sent")
        try:
            stored = task.future.result()
            if self._lease is not None:
                stored = check_stored(self._opened.store, task.sending, stored)
            self._known(task, stored)
            self._failures = 0
        except Torn:
            self._again(task)
        except StoreError as error:
            self._failed(task, error)
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
        if has_content(self._opened, sending, head):
            if has_attributes(head, sending.attributes):
                # A store without CRCs has shown by its MD5 that the content is that of the file.
                own = sending.descriptor
                crc64 = head.crc64 or (None if own is None else crc64_of(own))
                stored = WrittenObject(head.entry.etag, head.version_id, crc64, head.entry.last_modified_ns)
                task.action, task.row = Action.COMPARE, None
                self._known(task, stored)
            elif sending.attempt >= ATTEMPTS:
                self._condition_never_holds(task, head)
            else:
                # Nothing but attributes is written over, and those of the file are newer than what is known.
                task.row = None
                self._send(task.again(self._opened), WriteCondition(etag=head.entry.etag))
            return
        self._conflict(sending)

    def _condition_never_holds(self, task: _Task, head: ObjectHead) -> None:
        """The store refuses to write over the object that it says is there, each time."""
        sending = task.sending
        if stat.S_ISDIR(sending.status.st_mode):
            # Stores on directories have one wherever something lies below it, and no object of it.
            self._report.note_of(
                "are in the manifest alone, as the store keeps no objects of directories", sending.path
            )
            task.action, task.row = Action.COMPARE, None
            self._known(task, WrittenObject(head.entry.etag, head.version_id, head.crc64))
            return
        sending.close()
        self._report.problem(
            sending.path, f"the store says {ATTEMPTS} times that its object is another one, and shows the "
            "same one each time: its conditions do not hold"
        )  # fmt: skip

    def _known(self, task: _Task, stored: WrittenObject, source: KnownFile | None = None) -> None:
        """Write the row of what is now equal on both sides."""
        sending = task.sending
        before = None if task.action is Action.SEND else source or task.row
        link_of = first_name(self._opened, sending)
        row = row_of(self._opened, sending, stored, link_of, before)
        if task.action is Action.COMPARE and task.row is not None:
            row.libraries = task.row.libraries
        self._opened.known.put(row, settles=True)
        size = sending.content.size if task.action is Action.SEND else 0
        if sending.attempt > 1:  # It may be one that the listing, which was before, has not.
            self._opened.known.list_objects([(sending.key, size, row.etag, row.stored_ns, "")])
        self._report.add(task.action, size)
        sending.close()
