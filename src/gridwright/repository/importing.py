"""Imports: makes of a bucket's objects what needs no content, and has contents come where they belong to it.

Directories, links and empty files are made at once. So are names of other files where the file system holds
back who reads them; elsewhere a file is made with its content (`contents.py`). What the listing does not say
of an object is in the manifest, where its ETag is the same, or is asked for. A file that was changed here is
never overwritten: one that was changed on both sides is named.

Moves files whose objects are gone to the trash, where that is wanted and they were not changed here.

Names of objects that are gone are no files: they are forgotten where that is wanted.
"""

from __future__ import annotations

import errno
import os
import queue
import stat
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from gridwright.errors import environment_error
from gridwright.repository.admission import Admission, row_of_head
from gridwright.repository.below import sync_file_system
from gridwright.repository.chosen_paths import name_unknown
from gridwright.repository.comparing import FileSide, file_side, has_same_content, is_name_only, note_restored
from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.deletion_limit import Deletions, note_refusal
from gridwright.repository.export import Progress
from gridwright.repository.gone import (
    FORGOTTEN,
    forget_nowhere,
    has_objects,
    look_for_lost,
    lost_names,
    name_lost,
)
from gridwright.repository.knowledge import tell_manifest
from gridwright.repository.known import NO_DIRECTORY
from gridwright.repository.known_file import KnownFile
from gridwright.repository.listed import (
    BOTH_CHANGED,
    FETCH,
    LINK,
    NOTED,
    AskedObject,
    ListedObject,
    list_bucket,
    listed_objects,
)
from gridwright.repository.making import Maker, note_here
from gridwright.repository.object_format import PERMISSIONS
from gridwright.repository.publishing import NAMES
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport, is_chosen
from gridwright.repository.store import StoreError, StoreFault
from gridwright.repository.unfinished import finishing, set_times_back, take_sent

HERE = "inode <> 0 AND key IS NOT NULL AND path <> x''"
"""Rows of what has objects, without the repository's own directory."""
REMOVED_DIRECTORIES = "removed as empty directories"


def remove_gone(
    opened: OpenRepository,
    make: Maker,
    report: RepositoryReport,
    paths: Sequence[bytes],
    *,
    known: int | None,
    up_to: int | None,
) -> None:
    """Remove files whose objects the listing does not have; `known` is of how many, None only counts them.

    More than is usual are left, unless `up_to` names as many (`deletion_limit.py`). Names that no file has
    are forgotten with them, and stay known and are named where that is refused, or not asked for.
    """
    forget_nowhere(opened, report, paths)
    gone = _gone(opened, report, paths)
    look_for_lost(opened)
    lost = [row for row in lost_names(opened, paths) if not row.inode]
    if known is None:
        if report.is_complete and not (gone or lost or paths):
            note_refusal(opened.known, "import", None)
        name_lost(opened, report, paths)
        for row in reversed(gone):
            report.note_of("have no object any more; --deletions moves such to the trash", row.path)
        return
    is_empty = all(each[0] == opened.keys.start for each in opened.known.all_listed())
    count = sum(not row.attributes.is_directory for row in gone) + len(lost)
    why = Deletions(count, known, is_all=is_empty or count >= known).refusal(up_to)
    note_refusal(opened.known, "import", why)
    if why is not None:
        report.problem("--deletions", why)
        name_lost(opened, report, paths)
        return
    for row in gone:
        if _is_removed(opened, make, report, row):
            report.add(REMOVED_DIRECTORIES if row.attributes.is_directory else "removed", row.size)
    for row in lost:
        report.add(FORGOTTEN, row.size)
        report.note_of("were in the bucket alone, gone from there, and forgotten", row.path)
        opened.known.forget(row.path)


def count_known(opened: OpenRepository) -> int:
    """How many files, links and names there are to be removed or forgotten."""
    return opened.known.count(f"{HERE} AND {NO_DIRECTORY}")[0] + opened.known.count(NAMES)[0]


def _gone(opened: OpenRepository, report: RepositoryReport, paths: Sequence[bytes]) -> list[KnownFile]:
    """The rows of what was not changed and has no object, what lies within a directory before it.

    A directory is one of these where nothing would be left in it, and nothing is to come.
    """
    found: list[KnownFile] = []
    going = set[bytes]()
    for row in opened.known.rows(HERE, order="path DESC"):
        if not is_chosen(row.path, paths) or opened.known.listed(row.key or ""):
            continue
        try:
            status = opened.below.status(row.path)
            if status is None or file_side(opened, row.path, status, row) is FileSide.CHANGED:
                continue
            if row.attributes.is_directory and not _is_to_be_empty(opened, row, going):
                continue
        except OSError as error:
            report.problem(row.path, f"whether it was changed cannot be seen: {error.strerror}")
            continue
        found.append(row)
        going.add(row.path)
    return found


def _is_to_be_empty(opened: OpenRepository, row: KnownFile, going: Collection[bytes]) -> bool:
    """Whether nothing lies in a directory but what goes. Raises OSError."""
    if has_objects(opened, row):
        return False
    names = os.listdir(opened.below.parent(row.path + b"/.")[0])  # noqa: PTH208 - of a descriptor
    return all(row.path + b"/" + os.fsencode(name) in going for name in names)


def _is_removed(opened: OpenRepository, make: Maker, report: RepositoryReport, row: KnownFile) -> bool:
    try:
        status = opened.below.status(row.path)
        if status is None:
            return False
        # A directory has another time since files in it were removed; it goes where nothing is left in it.
        is_directory = stat.S_ISDIR(status.st_mode)
        if not is_directory and file_side(opened, row.path, status, row) is FileSide.CHANGED:
            return False
        make.remove(row, status)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            report.refused(row.path, "removed", error)
        return False
    opened.known.forget(row.path)
    return True


MOST_AT_ONCE = 128
"""Questions under way for what the manifest does not say."""
MOST_WHOLE_BYTES = 1 << 20
"""Bytes of the largest file that has no name before its content: a name takes about as long to make."""
_BATCH = 1000
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
GIVEN = "given new attributes"
Ended = Callable[[OpenRepository, RepositoryReport], None]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What an import is told."""

    paths: Sequence[bytes] = ()
    deletions: bool = False
    delete_up_to: int | None = None
    """So many files may go to the trash; None for as many as are usual (`deletion_limit.py`)."""
    prefer: Prefer | None = None
    dry_run: bool = False
    names: bool = False
    """Bring no content that is not here: where names need contents, what is not here is only noted."""
    contents: bool = False
    """Leave small files that are not here yet to `import_contents`: they come whole, with no name before."""


def import_objects(
    opened: OpenRepository,
    options: ImportOptions,
    *,
    restore: str | None = None,
    progress: Progress = lambda _bytes: None,
    ended: Ended = lambda _opened, _report: None,
) -> RepositoryReport:
    """Make files of what was created or changed in the bucket. Raises GridwrightError.

    Contents come where the file system does not hold back who reads a name, and where they are asked for.
    `restore` is as in `ContentOptions`; `ended` is called with the report of each half.
    """
    has_contents = options.contents or not opened.is_guarded
    names = import_names(opened, replace(options, contents=has_contents))
    ended(opened, names)
    if not has_contents:
        return names
    wanted = ContentOptions(options.paths, options.prefer, options.dry_run, restore)
    contents = import_contents(opened, wanted, progress)
    ended(opened, contents)
    contents.verb = names.verb
    for name, each in contents.done.items():
        if each.count:
            names.count(name).add_all(each)
    contents.done = names.done
    names.failed.take(contents.failed)
    contents.failed = names.failed
    contents.notes = names.all_notes + contents.notes
    contents.seconds += names.seconds
    times = (names.at_least_s, contents.at_least_s)
    contents.at_least_s = None if None in times else sum(each for each in times if each is not None)
    return contents


def import_names(opened: OpenRepository, options: ImportOptions) -> RepositoryReport:
    """Import names. Raises GridwrightError where the store as a whole, or the disk, fails."""
    report = RepositoryReport(opened.settings.name, "import", options.dry_run)
    begun = time.time()
    take_sent(opened, report)
    # The store looks for its objects while the manifest is read. Nothing is made before the listing is whole:
    # what lacks in it was deleted.
    entries = opened.store.list(opened.keys.start)
    admission = Admission(opened, report)
    tell_manifest(opened, admission)
    list_bucket(opened, entries=entries)
    if not options.dry_run:
        opened.known.before_writing = lambda: sync_file_system(opened.below.root)
    try:
        with nullcontext(False) if options.dry_run else finishing(opened) as was_killed:
            _Import(opened, options, report, admission).run()
            opened.known.flush()
            if was_killed:
                set_times_back(opened)
    finally:
        opened.known.before_writing = lambda: None
        report.requests = dict(opened.store.requests.by_kind)
        report.seconds = time.time() - begun
    return report


class _Import:
    def __init__(
        self,
        opened: OpenRepository,
        options: ImportOptions,
        report: RepositoryReport,
        admission: Admission,
    ) -> None:
        self._opened = opened
        self._options = options
        self._report = report
        self._admission = admission
        self._make = Maker.of(opened, report, options.prefer)
        self._arrived: queue.SimpleQueue[AskedObject] = queue.SimpleQueue()
        self._under_way = 0
        self._to_fetch: list[tuple[bytes, str, int, None]] = []
        self._notes_alone = options.names and not opened.is_guarded
        self._to_tell: list[KnownFile] = []
        """Those of them of which the manifest says nothing, or another thing."""

    def run(self) -> None:
        name_unknown(self._opened, self._report, self._options.paths)
        note_restored(self._opened)
        before = count_known(self._opened) if self._options.deletions else None
        for listed in listed_objects(self._opened, self._options.paths, self._report):
            self._consider(listed)
            self._wait_for(MOST_AT_ONCE - 1)
        self._wait_for(0)
        self._keep_to_fetch()
        if self._opened.is_guarded:
            self._make_hard_links()
        remove_gone(
            self._opened,
            self._make,
            self._report,
            self._options.paths,
            known=before,
            up_to=self._options.delete_up_to,
        )
        self._make.placer.settle()
        self._dress_directories()

    def _consider(self, listed: ListedObject) -> None:
        """Decide about one object: what became of it and of its file since both were equal."""
        path, entry = listed.path, listed.entry
        known = self._opened.known.get(path)
        row = known if known is not None and known.inode else None
        try:
            status = self._opened.below.status(path)
            if status is None and known is not None and known.is_only_in_bucket and known.etag != entry.etag:
                self._report.note_of("are in the bucket alone, with another object than was known", path)
            if self._notes_alone and status is None and not self._is_to_be_noted(listed, known):
                return
            if listed.is_directory:
                self._consider_directory(listed, row, status)
                return
            if status is not None and row is not None and row.is_of(entry.etag, entry.last_modified_ns):
                # Whatever became of the file, its object has nothing new.
                return
            side = file_side(self._opened, path, status, row)
            if side is FileSide.ABSENT:
                self._obtain(listed, row)
            elif row is not None and row.etag == entry.etag:
                self._ask(AskedObject(listed, self._opened.store.head(entry.key), row, side, status))
            elif side is FileSide.SAME or self._options.prefer == "objects":
                self._obtain(listed, None)
            elif has_same_content(self._opened, path, entry):
                self._obtain(listed, None, here=status)
            elif self._options.prefer != "files":
                self._report.problem(path, BOTH_CHANGED)
        except OSError as error:
            self._refused(path, error)
        except StoreError as error:
            self._report.problem(path, error.problems[0].what)

    def _is_to_be_noted(self, listed: ListedObject, known: KnownFile | None) -> bool:
        """Whether what is not here is not known yet, or as another object."""
        if known is None or not known.is_of(listed.entry.etag, listed.entry.last_modified_ns):
            return True
        # What was here was deleted here: that stays known, for an export with --deletions.
        if not known.inode and not known.is_name_only and known.attributes.is_file:
            self._opened.known.put(known.not_here())
        return False

    def _consider_directory(
        self, listed: ListedObject, row: KnownFile | None, status: os.stat_result | None
    ) -> None:
        entry = listed.entry
        if status is not None and not stat.S_ISDIR(status.st_mode):
            self._report.problem(
                listed.path, "its object is a directory, and here it is none; neither was overwritten"
            )
            return
        if status is None or row is None or not row.is_of(entry.etag, entry.last_modified_ns):
            # What comes into it may make it before its own attributes are known.
            self._obtain(listed, row if status is None else None, is_new=status is None)

    def _obtain(
        self,
        listed: ListedObject,
        row: KnownFile | None,
        *,
        here: os.stat_result | None = None,
        is_new: bool = True,
    ) -> None:
        """Find out what the listing does not say, and make it."""
        entry = listed.entry
        told = listed.told or row
        if told is not None and told.size == entry.size and told.is_of(entry.etag, entry.last_modified_ns):
            is_told = told is listed.told and told.path == listed.path
            told = told if is_told else replace(told, path=listed.path)
            self._made(told, here=here, is_new=is_new, is_told=is_told)
            return
        asked = AskedObject(listed, self._opened.store.head(entry.key), is_new=is_new)
        if here is not None:
            self._answered(asked, here=here)
        else:
            self._ask(asked)

    def _ask(self, asked: AskedObject) -> None:
        self._under_way += 1
        asked.future.add_done_callback(lambda _: self._arrived.put(asked))

    def _wait_for(self, most: int) -> None:
        while self._under_way > most or not self._arrived.empty():
            asked = self._arrived.get()
            self._under_way -= 1
            self._answered(asked)

    def _answered(self, asked: AskedObject, *, here: os.stat_result | None = None) -> None:
        try:
            head = asked.future.result()
            row = row_of_head(self._opened, self._report, self._admission, asked.listed.path, head)
        except StoreError as error:
            if error.fault is StoreFault.UNREACHABLE:
                raise
            self._report.problem(asked.listed.path, error.problems[0].what)
            return
        if row is None:
            return
        if asked.known is None:
            told = asked.listed.told
            if told is not None and (told.etag, told.size) == (row.etag, row.size):
                # The format has no place for these.
                row.xattrs, row.link_of, row.blocks = told.xattrs, told.link_of, told.blocks
            self._made(row, here=here, is_new=asked.is_new)
        elif PERMISSIONS in head.metadata:
            self._take_attributes(asked, row)
        else:
            self._opened.known.put(replace(asked.known, stored_ns=row.stored_ns))

    def _take_attributes(self, asked: AskedObject, told: KnownFile) -> None:
        """Give a file the attributes that its object, with the same content, was given meanwhile."""
        known = asked.known or told
        if stat.S_IFMT(known.mode) != stat.S_IFMT(told.mode):
            self._obtain(asked.listed, None)
            return
        row = replace(
            known, mode=told.mode, uid=told.uid, gid=told.gid, atime_ns=told.atime_ns, mtime_ns=told.mtime_ns,
            version_id=told.version_id, stored_ns=told.stored_ns, libraries=told.libraries,
        )  # fmt: skip
        is_same = (row.version_id, *_compared(row)) == (known.version_id, *_compared(known))
        if is_same or (asked.side is FileSide.CHANGED and self._options.prefer == "files"):
            self._opened.known.put(row if is_same else known)
        elif asked.side is FileSide.CHANGED and self._options.prefer != "objects":
            self._report.problem(asked.listed.path, BOTH_CHANGED)
        elif asked.side is FileSide.CHANGED:
            self._obtain(asked.listed, None)
        else:
            self._give(row, asked.seen)

    def _give(self, row: KnownFile, seen: os.stat_result | None) -> None:
        try:
            if row.attributes.is_link:
                self._make.link(row)
            elif seen is None or not self._make.attributes(row, seen):
                self._report.problem(row.path, "it was changed while its object's attributes were looked at")
                return
            self._opened.known.put(row)
            self._report.add(GIVEN)
        except OSError as error:
            self._refused(row.path, error)

    def _made(
        self, row: KnownFile, *, here: os.stat_result | None, is_new: bool, is_told: bool = False
    ) -> None:
        """Make what a row says, and write the row. `is_told`: the manifest says the same.

        `here` is a file as it was before its content was found to be that of the object; `is_new` is false of
        a directory that was here.
        """
        try:
            if self._notes_alone and self._opened.below.status(row.path) is None:
                self._opened.known.put(row.not_here())
                self._report.add(NOTED, row.size)
                return
            if row.attributes.is_directory:
                self._make.directory(row.path) if row.path else None
                # Attributes come last: whoever adds a name to a directory changes its time.
                self._opened.known.add_work([(row.path, "dress", 0, None)])
                self._opened.known.tell([row])
            elif here is not None:
                is_new = False
                row.is_name_only = is_name_only(self._opened, row.path)
                note_here(self._opened, row, here)
                self._opened.known.put(row)
            elif row.link_of is not None:
                self._opened.known.add_work([(row.path, LINK, row.size, None)])
                self._opened.known.tell([row])
                return
            elif row.attributes.is_link:
                self._make.link(row)
                self._opened.known.put(row)
            elif self._comes_whole(row):
                # Directories have all their names before they get their times.
                self._make.parent(row.path)
                self._to_fetch.append((row.path, FETCH, row.size, None))
                if not is_told:
                    self._to_tell.append(row)
                if len(self._to_fetch) >= _BATCH:
                    self._keep_to_fetch()
                return
            else:
                self._make.name_only(row)
                self._opened.known.put(row)
            if is_new:
                self._report.add("made", row.size)
        except OSError as error:
            self._refused(row.path, error)

    def _comes_whole(self, row: KnownFile) -> bool:
        if not self._opened.is_guarded:
            return row.size > 0
        return (
            self._options.contents
            and 0 < row.size <= MOST_WHOLE_BYTES
            and row.links < 2
            and self._opened.below.status(row.path) is None
        )

    def _keep_to_fetch(self) -> None:
        self._opened.known.tell(self._to_tell)
        self._opened.known.add_work(self._to_fetch)
        self._to_fetch, self._to_tell = [], []

    def _make_hard_links(self) -> None:
        for path, action, _, _ in self._opened.known.work():
            row = self._opened.known.told_path(path) if action == LINK else None
            if row is None:
                continue
            try:
                if not self._make.hard_link(row):
                    row.link_of = None
                    self._make.name_only(row)
                self._opened.known.put(row)
                self._report.add("made", 0 if row.link_of else row.size)
            except OSError as error:
                self._refused(path, error)

    def _dress_directories(self) -> None:
        """Give directories their attributes, those within before those around."""
        for path in self._opened.known.work_backwards("dress"):
            row = self._opened.known.told_path(path)
            if row is None:
                continue
            try:
                self._make.dress_directory(row)
                self._opened.known.put(row)
            except OSError as error:
                self._refused(path, error)

    def _refused(self, path: bytes, error: OSError) -> None:
        if error.errno in _FULL:
            raise environment_error(
                f"the disk is full ({error.strerror}); nothing is half-written",
                where=str(self._opened.settings.directory),
                remedy="make room, and run the command again: it goes on",
            ) from error
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            error = OSError(error.errno, "a symbolic link or a file is where a directory should be")
        self._report.refused(path, "made", error)


def _compared(row: KnownFile) -> tuple[int, int, int, int]:
    """The attributes that make a difference; when a file was last read does not."""
    return row.mode, row.uid, row.gid, row.mtime_ns
