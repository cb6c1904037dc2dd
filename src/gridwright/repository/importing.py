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
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

from gridwright.errors import environment_error
from gridwright.refusals import reason_of
from gridwright.repository.admission import Admission, row_of_head
from gridwright.repository.below import sync_beside_others
from gridwright.repository.comparing import (
    OTHER_ATTRIBUTES,
    AttributesSide,
    FileSide,
    attributes_side,
    file_side,
    has_bucket_attributes,
    has_same_content,
    holds_content_of,
    is_name_only,
    note_restored,
    of_bucket,
    time_to_give,
    xattrs_of,
)
from gridwright.repository.content import is_same_moment
from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.deletions import FORGOTTEN_AT_ONCE, Deletions, note_refusal
from gridwright.repository.export import Progress
from gridwright.repository.file_clock import UNKNOWN
from gridwright.repository.gone import (
    forget_lost,
    forget_nowhere,
    has_objects,
    look_for_lost,
    lost_names,
    name_lost,
)
from gridwright.repository.known import NO_DIRECTORY
from gridwright.repository.known_file import KnownFile
from gridwright.repository.listed import (
    BOTH_CHANGED,
    FETCH,
    LINK,
    NOTED,
    ListedObject,
    PendingObject,
    list_bucket,
    listed_objects,
    listed_parents,
)
from gridwright.repository.making import Maker, as_here, note_here
from gridwright.repository.manifest_sync import tell_manifest
from gridwright.repository.object_format import PERMISSIONS, portable_mode
from gridwright.repository.publishing import NAMES, library_of
from gridwright.repository.scan import Action, action_for, name_unknown
from gridwright.repository.sending import attributes_of_status
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport, is_chosen
from gridwright.repository.store import StoreError, StoreFault
from gridwright.repository.unfinished import close_again, end_step, finishing, take_sent

HERE = "inode <> 0 AND key IS NOT NULL AND path <> x''"
"""Rows of what has objects, without the repository's own directory."""
REMOVED, REMOVED_DIRECTORIES = "removed", "removed as empty directories"


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

    More than is usual are left, unless `up_to` names as many (`deletions.py`). Names that no file has
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
            report.note_of(
                "have no object any more; gridwright repo import NAME --deletions moves such to the trash",
                row.path,
                row.mode,
            )
        return
    is_empty = all(each[0] == opened.keys.start for each in opened.known.all_listed())
    count = sum(not row.attributes.is_directory for row in gone) + len(lost)
    why = Deletions(count, known, is_all=is_empty or count >= known).refusal(up_to)
    note_refusal(opened.known, "import", why)
    if why is not None:
        report.problem("--deletions", why)
        name_lost(opened, report, paths)
        return
    removed: list[bytes] = []
    try:
        for row in gone:
            if _is_removed(opened, make, report, row):
                kind = REMOVED_DIRECTORIES if row.attributes.is_directory else REMOVED
                report.add(kind, row.size, row.mode)
                removed.append(row.path)
            if len(removed) >= FORGOTTEN_AT_ONCE:
                opened.known.forget(*removed)
                removed.clear()
    finally:
        opened.known.forget(*removed)
    forget_lost(opened.known, report, lost)


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
            report.problem(row.path, f"whether it was changed cannot be seen: {reason_of(error)}")
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
    return True


MOST_AT_ONCE = 128
"""Questions under way for what the manifest does not say."""
MOST_WHOLE_BYTES = 1 << 20
"""Bytes of the largest file that has no name before its content: a name takes about as long to make."""
_BATCH = 1000
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
GIVEN, JOINED = "given new attributes", "made another name of a file"
_STAYS_APART = "were linked to another name in another library; here each stays a file of its own"
_STAYS_JOINED = "were made apart from another name in another library; here both stay one file"
_IS_DIRECTORY = (
    "its object is no directory, and here it is one; neither was overwritten (gridwright repo import NAME "
    "--deletions takes the object where nobody has changed what is here; else rename the directory and "
    "import again)"
)
_IS_NO_DIRECTORY = (
    "its object is a directory, and here it is none; neither was overwritten (gridwright repo import NAME "
    "--deletions takes the object where nobody has changed what is here; else rename the file and import "
    "again)"
)
Ended = Callable[[OpenRepository, RepositoryReport], None]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What an import is told."""

    paths: Sequence[bytes] = ()
    deletions: bool = False
    delete_up_to: int | None = None
    """So many files may go to the trash; None for as many as are usual (`deletions.py`)."""
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
    contents.notes = list(dict.fromkeys([*names.all_notes, *contents.notes]))
    contents.seconds += names.seconds
    times = (names.at_least_s, contents.at_least_s)
    contents.at_least_s = None if None in times else sum(each for each in times if each is not None)
    return contents


def import_names(opened: OpenRepository, options: ImportOptions) -> RepositoryReport:
    """Import names. Raises GridwrightError where the store as a whole, or the disk, fails."""
    report = opened.report("import", is_dry_run=options.dry_run)
    begun = time.time()
    end_step(opened)
    take_sent(opened, report)
    # The store looks for its objects while the manifest is read. Nothing is made before the listing is whole:
    # what lacks in it was deleted.
    entries = opened.store.list(opened.keys.start)
    admission = Admission(opened, report)
    are_others = tell_manifest(opened, admission)
    list_bucket(opened, entries=entries)
    if not options.dry_run:
        opened.known.before_writing = lambda: sync_beside_others(opened.below.root)
    try:
        with nullcontext() if options.dry_run else finishing(opened):
            _Import(opened, options, report, admission, notes_all=are_others).run()
            admission.keep_not_given()
            opened.known.keep_not_taken()
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
        *,
        notes_all: bool,
    ) -> None:
        """With `notes_all`, files that nobody has changed are noted to be here, too (`knowledge.py`)."""
        self._opened = opened
        self._options = options
        self._report = report
        self._admission = admission
        self._make = Maker.of(opened, report, options.prefer)
        self._arrived: queue.SimpleQueue[PendingObject] = queue.SimpleQueue()
        self._under_way = 0
        self._to_fetch: list[tuple[bytes, str, int, None]] = []
        self._notes_alone = options.names and not opened.is_guarded
        self._notes_all = notes_all
        self._library = library_of(opened.known)
        self._given: dict[int, tuple[bytes, os.stat_result]] = {}
        """Files with several names that got attributes, by inode: a name, and how they were before."""
        self._anew = set[int]()
        """The inodes of files with several names, each of which another file takes."""

    def run(self) -> None:
        self._report.begin()
        name_unknown(self._opened, self._report, self._options.paths)
        note_restored(self._opened)
        # What is gone goes first, as something else may come in its place.
        remove_gone(
            self._opened,
            self._make,
            self._report,
            self._options.paths,
            known=count_known(self._opened) if self._options.deletions else None,
            up_to=self._options.delete_up_to,
        )
        for listed in listed_objects(self._opened, self._options.paths, self._report):
            self._consider(listed)
            self._wait_for(MOST_AT_ONCE - 1)
        self._wait_for(0)
        for parent in listed_parents(self._opened, self._options.paths):
            self._consider_parent(parent)
        self._wait_for(0)
        self._keep_to_fetch()
        self._note_other_names()
        if self._opened.is_guarded:
            self._make_hard_links()
        self._make.placer.settle()
        close_again(self._opened)
        self._dress_directories()
        self._make.dress_without_objects()

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
            if status is not None and stat.S_ISDIR(status.st_mode) != listed.is_directory:
                self._report.problem(path, _IS_NO_DIRECTORY if listed.is_directory else _IS_DIRECTORY)
                return
            if listed.is_directory:
                self._consider_directory(listed, row, status)
                return
            if status is not None and row is not None and row.etag == entry.etag:
                self._consider_attributes(listed, status, row)
                return
            side = file_side(self._opened, path, status, row)
            if side is FileSide.ABSENT:
                self._obtain(listed, row)
            elif side is FileSide.SAME:
                self._obtain(listed, None)
            elif has_same_content(self._opened, path, entry):
                self._obtain(listed, None, here=status)
            elif self._options.prefer == "objects":
                self._obtain(listed, None)
            elif self._options.prefer != "files":
                self._report.problem(path, BOTH_CHANGED)
        except OSError as error:
            self._refused(path, error)
        except StoreError as error:
            self._report.problem(path, error.problems[0].what)

    def _consider_attributes(self, listed: ListedObject, status: os.stat_result, row: KnownFile) -> None:
        """Give a file of the same content what its object was given, by the manifest, else by a HEAD."""
        if listed.has_nothing_new(row):
            # Whatever became of the file.
            self._note_present(listed, status, row)
            return
        if listed.is_in_manifest and listed.told is not None:
            self._take_attributes(listed, row, listed.told)
        else:
            self._ask(PendingObject(listed, self._opened.store.head(listed.entry.key), row))

    def _note_present(self, listed: ListedObject, status: os.stat_result, row: KnownFile) -> None:
        """Note that an unchanged file is here, of which the manifest does not say so."""
        is_in_manifest = listed.told is not None and self._library in listed.told.libraries
        if self._notes_all and not is_in_manifest and action_for(status, row) is None:
            self._opened.known.put_present(row)

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
        is_made = status is not None and self._make.is_made(listed.path, status)
        if status is None or row is None or is_made or not listed.has_nothing_new(row):
            # What comes into it may make it before its own attributes are known.
            self._obtain(listed, row if status is None or is_made else None, is_new=status is None)

    def _consider_parent(self, listed: ListedObject) -> None:
        """Have a directory get its attributes that was made for what was chosen in it."""
        try:
            status = self._opened.below.status(listed.path)
            if status is not None and self._make.is_made(listed.path, status):
                self._consider_directory(listed, None, status)
        except OSError as error:
            self._refused(listed.path, error)

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
            is_in_manifest = told is listed.told and told.path == listed.path
            if not is_in_manifest:
                told = replace(told, path=listed.path)
                self._opened.known.tell([told])
            if here is not None:
                self._note_equal(listed, told, here, is_in_manifest=is_in_manifest)
            else:
                self._made(told, is_new=is_new)
            return
        asked = PendingObject(listed, self._opened.store.head(entry.key), is_new=is_new)
        if here is not None:
            self._answered(asked, here=here)
        else:
            self._ask(asked)

    def _ask(self, asked: PendingObject) -> None:
        self._under_way += 1
        asked.future.add_done_callback(lambda _: self._arrived.put(asked))

    def _wait_for(self, most: int) -> None:
        while self._under_way > most or not self._arrived.empty():
            asked = self._arrived.get()
            self._under_way -= 1
            self._answered(asked)

    def _answered(self, asked: PendingObject, *, here: os.stat_result | None = None) -> None:
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
                row.xattrs, row.blocks = told.xattrs, told.blocks
                row.link_of, row.links = told.link_of, told.links
            elif here is not None or not asked.is_new:
                row = self._with_own_attributes(row)
            self._opened.known.tell([row])
            if here is not None:
                self._note_equal(asked.listed, row, here, is_said=PERMISSIONS in head.metadata)
            else:
                self._made(row, is_new=asked.is_new)
        elif PERMISSIONS in head.metadata:
            row = replace(row, xattrs=asked.known.xattrs)
            self._opened.known.tell([row])
            self._take_attributes(asked.listed, asked.known, row, are_xattrs_said=False)
        else:
            self._opened.known.put(replace(asked.known, stored_ns=row.stored_ns))

    def _with_own_attributes(self, row: KnownFile) -> KnownFile:
        """The row of what is here, and of whose object the manifest says nothing, as after a killed export.

        What the manifest alone has stays as it is here; the next one tells it, also to who has the object.
        """
        try:
            row.xattrs = xattrs_of(self._opened, row.path)
        except OSError as error:
            self._refused(row.path, error)
        return row.after(row) if row.xattrs else row

    def _note_equal(
        self,
        listed: ListedObject,
        row: KnownFile,
        here: os.stat_result,
        *,
        is_said: bool = True,
        is_in_manifest: bool = False,
    ) -> None:
        """Note a file whose content was found to be that of its object, as it was before it was read.

        Where the object `is_said` to have other attributes, and nothing tells that the file got its own in
        this library, both stay, and are named.
        """
        try:
            prefer, is_ours = self._options.prefer, self._is_ours(listed, row.path)
            if (
                is_said
                and not (is_ours and prefer != "objects")
                and not self._has_bucket_attributes(row, here)
            ):
                if prefer == "objects":
                    self._made(row, is_new=True)
                elif prefer != "files":
                    self._report.problem(row.path, OTHER_ATTRIBUTES)
                return
            row.is_name_only = is_name_only(self._opened, row.path)
            note_here(self._opened, row, here)
            if here.st_nlink > 1 and not is_in_manifest:
                row.ctime_ns = UNKNOWN  # The next export tells which name is the first one.
            self._opened.known.put_present(row)
        except OSError as error:
            self._refused(row.path, error)

    def _is_ours(self, listed: ListedObject, path: bytes) -> bool:
        """Whether this library is known to have had a file, so that other attributes are a change of it."""
        rows = self._opened.known.get(path), listed.told
        return any(each is not None and not each.is_of_others(self._library) for each in rows)

    def _has_bucket_attributes(self, row: KnownFile, here: os.stat_result) -> bool:
        file = attributes_of_status(here)
        rights = file.mode, file.uid, file.gid, xattrs_of(self._opened, row.path)
        return has_bucket_attributes(self._opened, rights, file.mtime_ns, row.rights, row.mtime_ns)

    def _take_attributes(
        self, listed: ListedObject, known: KnownFile, told: KnownFile, *, are_xattrs_said: bool = True
    ) -> None:
        """Give a file the attributes that its object, with the same content, was given meanwhile.

        Of an object that the manifest does not know yet, extended attributes are not said: the file may have
        those that a killed export was still to tell.
        """
        if stat.S_IFMT(known.mode) != stat.S_IFMT(told.mode):
            self._obtain(listed, None)
            return
        row = replace(
            known, mode=told.mode, uid=told.uid, gid=told.gid, xattrs=told.xattrs, atime_ns=told.atime_ns,
            mtime_ns=told.mtime_ns, version_id=told.version_id, stored_ns=told.stored_ns,
            libraries=told.libraries,
        )  # fmt: skip
        path, prefer = row.path, self._options.prefer
        try:
            seen = self._opened.below.status(path)
            side = file_side(self._opened, path, seen, known)
            if seen is not None and listed.is_in_manifest and self._is_joined(told, seen, known):
                return
            if (row.version_id, row.rights, row.mtime_ns) == (known.version_id, known.rights, known.mtime_ns):
                self._opened.known.put(row)
            elif side is FileSide.SAME and seen is not None:
                self._give(row, seen, listed)
            elif seen is not None and file_side(self._opened, path, seen, row) is FileSide.SAME:
                # Both sides were changed in the same way, or another name of the file got it before.
                note_here(self._opened, row, seen)
                self._opened.known.put_present(row)
                if seen.st_ino in self._given:
                    self._report.add(GIVEN, mode=row.mode)
            elif seen is not None and not are_xattrs_said and self._has_all_but_xattrs(seen, row):
                note_here(self._opened, row, seen)
                # The next export finds and tells them.
                row.ctime_ns = UNKNOWN
                self._opened.known.put_present(row)
            elif seen is not None and self._is_half_given(seen, known, row):
                self._give(row, seen, listed)
            elif prefer == "objects":
                self._obtain(listed, None)
            elif prefer != "files":
                self._report.problem(path, BOTH_CHANGED)
        except OSError as error:
            self._refused(path, error)

    def _is_joined(self, told: KnownFile, seen: os.stat_result, known: KnownFile) -> bool:
        """Make an untouched file another name of one with which another library has made it one file.

        Where that may not be, and where names of one file here are several there, they stay, and are noted.
        Raises OSError.
        """
        if action_for(seen, known) is not None:
            return False
        if told.link_of is None:
            if known.link_of is not None and told.links < 2 <= self._opened.below.links(seen):
                self._report.note_of(_STAYS_JOINED, told.path, told.mode)
            return False
        first = self._opened.known.get(told.link_of)
        if told.link_of == known.link_of or (first is not None and first.inode == known.inode):
            return False
        if not self._make.hard_link(row := replace(told)):
            self._report.note_of(_STAYS_APART, told.path, told.mode)
            return False
        self._opened.known.put_present(row)
        self._report.add(JOINED, mode=row.mode)
        return True

    def _is_half_given(self, seen: os.stat_result, known: KnownFile, row: KnownFile) -> bool:
        """Whether a killed import has given a file some of its new attributes; noted. Raises OSError."""
        here = attributes_of_status(seen)
        rights = here.mode, here.uid, here.gid, xattrs_of(self._opened, row.path)
        both = (known.rights, known.mtime_ns), (row.rights, row.mtime_ns)
        if attributes_side((rights, here.mtime_ns), *both) is not AttributesSide.SAME:
            return False
        if not holds_content_of(self._opened, seen, known):
            return False
        self._opened.known.put(replace(as_here(self._opened, known, seen), xattrs=rights[3]))
        return True

    def _is_made_anew(self, row: KnownFile, seen: os.stat_result) -> bool:
        """Whether all names of a file get another one that is made of it. Raises OSError.

        One that needs no content has taken the first name before the others are looked at.
        """
        if seen.st_ino in self._anew:
            return True
        links = self._opened.below.links(seen)
        if links < 2 or not self._make.needs_another(row, seen):
            return False
        self._opened.known.flush()
        if len(self._opened.known.by_inode(seen.st_ino)) != links:
            return False
        self._anew.add(seen.st_ino)
        return True

    def _has_all_but_xattrs(self, seen: os.stat_result, row: KnownFile) -> bool:
        """Whether a file is as a row says, but for extended attributes. Raises OSError."""
        same = replace(row, xattrs=xattrs_of(self._opened, row.path))
        return file_side(self._opened, row.path, seen, same) is FileSide.SAME

    def _give(self, row: KnownFile, seen: os.stat_result, listed: ListedObject) -> None:
        if listed.is_in_manifest and listed.told and self._is_made_anew(row, seen):
            self._made(listed.told, is_new=False)
            return
        if row.attributes.is_link:
            self._make.link(row)
        elif not self._make.attributes(row, seen):
            self._report.problem(row.path, "it was changed while its object's attributes were looked at")
            return
        self._opened.known.put_present(row)
        if seen.st_nlink > 1 and not self._options.dry_run:
            self._given[seen.st_ino] = row.path, seen
        self._report.add(GIVEN, mode=row.mode)

    def _made(self, row: KnownFile, *, is_new: bool) -> None:
        """Make what a row says, which was told, and write the row.

        `is_new` is false of a directory that was here.
        """
        try:
            if self._notes_alone and self._opened.below.status(row.path) is None:
                self._opened.known.put(row.not_here())
                self._report.add(NOTED, row.size, row.mode)
                return
            if row.attributes.is_directory:
                self._make.directory(row.path) if row.path else None
                # Attributes come last: whoever adds a name to a directory changes its time.
                self._opened.known.add_work([(row.path, "dress", 0, None)])
            elif row.link_of is not None:
                self._opened.known.add_work([(row.path, LINK, row.size, None)])
                return
            elif row.attributes.is_link:
                self._make.link(row)
                self._opened.known.put_present(row)
            elif self._comes_whole(row):
                # Directories have all their names before they get their times.
                self._make.parent(row.path)
                self._to_fetch.append((row.path, FETCH, row.size, None))
                if len(self._to_fetch) >= _BATCH:
                    self._keep_to_fetch()
                return
            else:
                self._make.name_only(row)
                self._opened.known.put_present(row)
            if is_new:
                self._report.add("made", row.size, row.mode)
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
        self._opened.known.add_work(self._to_fetch)
        self._to_fetch = []

    def _note_other_names(self) -> None:
        """Note attributes under other names of a file, whose objects have none that are new, or are gone."""
        if self._given:
            self._opened.known.flush()
        for inode, (path, seen) in self._given.items():
            row, status = self._opened.known.get(path), self._seen(path)
            if row is None or status is None or action_for(status, row) not in (None, Action.COMPARE):
                continue
            for other in self._opened.known.by_inode(inode):
                was_same = other.crc64 == row.crc64 and action_for(seen, other) in (None, Action.COMPARE)
                there = self._seen(other.path) if was_same else None
                if there is not None and is_same_moment(status, there):
                    here = as_here(self._opened, other, status)
                    self._opened.known.put(replace(here, ctime_ns=row.ctime_ns, xattrs=row.xattrs))

    def _seen(self, path: bytes) -> os.stat_result | None:
        """The status of a file; None for none, and for one that cannot be looked at."""
        with suppress(OSError):
            return self._opened.below.status(path)
        return None

    def _make_hard_links(self) -> None:
        for path, action, _, _ in self._opened.known.work():
            row = self._opened.known.manifest_row_of(path) if action == LINK else None
            if row is None:
                continue
            try:
                if not self._make.hard_link(row):
                    row.link_of = None
                    self._make.name_only(row)
                self._opened.known.put_present(row)
                self._report.add("made", 0 if row.link_of else row.size, row.mode)
            except OSError as error:
                self._refused(path, error)

    def _dress_directories(self) -> None:
        """Give directories their attributes, those within before those around."""
        for path in self._opened.known.work_backwards("dress"):
            row = self._opened.known.manifest_row_of(path)
            if row is None:
                continue
            try:
                if not self._is_left(row):
                    self._dress(row)
            except OSError as error:
                self._refused(path, error)

    def _dress(self, row: KnownFile) -> None:
        """Give a directory what its row says; its own mtime stays where it is still to be sent."""
        said_ns = row.mtime_ns
        status = self._opened.below.status(row.path) if row.path else os.fstat(self._opened.below.root)
        if status is not None and self._options.prefer != "objects":
            row.mtime_ns = time_to_give(self._opened, row, status, self._make.made_ns(row.path, status))
        is_own = row.mtime_ns != said_ns
        if self._make.dress_directory(row):
            self._report.add(GIVEN, mode=row.mode)
        if is_own:
            row.mtime_ns, row.ctime_ns = said_ns, UNKNOWN
        self._opened.known.put(row)

    def _is_left(self, row: KnownFile) -> bool:
        """Whether a directory stays as it was changed here; a conflict is named. Raises OSError."""
        known, status = self._opened.known.get(row.path), self._opened.below.status(row.path)
        if known is None or not known.inode or status is None or self._options.prefer == "objects":
            return False
        if self._make.is_made(row.path, status):
            return False
        here = portable_mode(status.st_mode), status.st_uid, status.st_gid, xattrs_of(self._opened, row.path)
        if here in (known.rights, row.rights):
            return False
        if of_bucket(self._opened, known).rights != row.rights and self._options.prefer != "files":
            self._report.problem(row.path, BOTH_CHANGED)
        return True

    def _refused(self, path: bytes, error: OSError) -> None:
        if error.errno in _FULL:
            raise environment_error(
                f"the disk is full ({reason_of(error)}); nothing is half-written",
                where=str(self._opened.settings.directory),
                remedy="make room, and run the command again: it goes on",
            ) from error
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            error = OSError(error.errno, "a symbolic link or a file is where a directory should be")
        self._report.refused(path, "made", error)
