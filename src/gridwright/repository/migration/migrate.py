"""Moves a tree into a library: what is new or changed at the source is copied, and nothing of others touched.

A library may be migrated to again and again while the source is in use. The last pass, for the cut-over, also
removes what has vanished at the source, if the migration has made it, and looks whether the source was still.

Proves that source and library are equal: all contents read again, and the source still meanwhile.

Further names of files that have several, made when the first ones are there.

Directories of the library, each held against the one of the source that the walk has met.

Until a directory is dressed, at the end of a pass, nobody else may enter it who could not enter it before.

Decides what becomes of a name of the source: from its status, its row, and what is in the library.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

from gridwright.beneath import Beneath, change_mode, change_owner, make_private, pinned
from gridwright.errors import environment_error
from gridwright.repository.below import is_part, kind_of
from gridwright.repository.content import Torn
from gridwright.repository.deletion_limit import Deletions
from gridwright.repository.file_clock import bounded_ns
from gridwright.repository.keys import shown
from gridwright.repository.making import part_name
from gridwright.repository.migration.attributes import why_not
from gridwright.repository.migration.copying import ATTEMPTS, Copier, MigrationStopped, SourceGone
from gridwright.repository.migration.journal import MigratedFile, MigrationJournal, begun, ended
from gridwright.repository.migration.workers import CopyTask, CopyWorkers
from gridwright.repository.placing import Placer, place_new
from gridwright.repository.settings import RepositoryReport, is_chosen
from gridwright.repository.walking import FileStatus, UnreadDirectory, WalkedFile, walk_below


class MigrationDecision(Enum):
    """What to do, or why nothing is done."""

    SAME = "nothing has changed"
    COPY = "the source is new or has changed"
    COMPARE = "the contents tell"
    DIRECTORY = "it is a directory"
    LINK = "it is another name of a file"
    CHANGED_HERE = "it was changed here, and the source was not"
    CHANGED_ON_BOTH_SIDES = (
        "it was changed at the source and here, and not overwritten (removed, it is copied)"
    )
    STRANGER = "something else is here already; it was not overwritten (move it away, and it is copied)"
    AGAIN = "a directory is here, and the source has none; --cut-over removes what the source no longer has"
    EXCHANGED = "another directory is here than the migration made or met; it was left as it is"
    OF_ANOTHER = (
        "another directory is at the source than before; this one stays closed while it holds files of that"
        " one (--cut-over removes what the migration has made of them)"
    )
    SOCKET = "nobody listens to a copy of it"


def decide(source: FileStatus, row: MigratedFile | None, here: os.stat_result | None) -> MigrationDecision:
    """What to do about a name; `here` is None where the library has none. Hard links are not looked at."""
    if stat.S_ISSOCK(source.st_mode):
        return MigrationDecision.SOCKET
    if stat.S_ISDIR(source.st_mode):
        is_free = here is None or stat.S_ISDIR(here.st_mode)
        is_ours = row is not None and here is not None and row.is_of_migration(here, source)
        return MigrationDecision.DIRECTORY if is_free or is_ours else MigrationDecision.STRANGER
    if here is None:
        return MigrationDecision.COPY
    return _beside_stranger(source, here) if row is None else _beside(source, row, here)


def may_dress(
    source: FileStatus, row: MigratedFile | None, here: os.stat_result, writers: set[int | None]
) -> bool:
    """Whether a directory that is here may get the attributes of its source, and copies.

    It is that of an earlier pass, or nobody else can have put it there: `writers` are who may rename what
    others have on the way to it.
    """
    if row is not None and row.inode == here.st_ino:
        return True
    trusted = {0, os.geteuid()}
    if row is not None and not row.inode:
        # A pass that was killed has made it, and nobody else could enter it since.
        return here.st_uid in trusted and not here.st_mode & 0o077
    if here.st_uid == source.st_uid:
        # Whoever exchanges directories of his own gives nobody anything.
        trusted.add(here.st_uid)
    return here.st_uid in trusted and writers <= trusted


def is_replaced(source: FileStatus, row: MigratedFile | None) -> bool:
    """Whether a directory that is here may hold what came from another one of the source.

    Who may rename directories there gives another owner to what the library has, otherwise.
    """
    if row is None:
        return False
    return row.source_inode != source.st_ino or (row.is_begun and row.inode != 0)


def _beside_stranger(source: FileStatus, here: os.stat_result) -> MigrationDecision:
    is_alike = (stat.S_IFMT(here.st_mode), here.st_size) == (stat.S_IFMT(source.st_mode), source.st_size)
    return (
        MigrationDecision.COMPARE
        if is_alike and not stat.S_ISDIR(here.st_mode)
        else MigrationDecision.STRANGER
    )


def _beside(source: FileStatus, row: MigratedFile, here: os.stat_result) -> MigrationDecision:
    if stat.S_ISDIR(here.st_mode) and stat.S_ISDIR(row.mode):
        return MigrationDecision.AGAIN
    if not row.is_of_migration(here, source):
        return (
            MigrationDecision.CHANGED_HERE
            if row.is_same_source(source)
            else MigrationDecision.CHANGED_ON_BOTH_SIDES
        )
    if row.is_same_source(source):
        return MigrationDecision.SAME
    same = (row.source_size, row.source_mtime_ns) == (source.st_size, bounded_ns(source.st_mtime_ns))
    same = same and stat.S_IFMT(row.mode) == stat.S_IFMT(source.st_mode)
    return MigrationDecision.COMPARE if same else MigrationDecision.COPY


_MOST_KNOWN = 1000


class MigrationDirectories:
    """Makes and closes directories, and knows which ones lead to a path. One thread uses it."""

    def __init__(self, below: Beneath, journal: MigrationJournal, placer: Placer) -> None:
        self._below = below
        self._placer = placer
        self._journal = journal
        self._inodes: dict[bytes, tuple[int, ...]] = {b"": ()}

    def make(self, each: WalkedFile, row: MigratedFile | None) -> MigrationDecision | None:
        """Make a directory, or take the one that is there; why it is left, or None. Raises OSError."""
        path = each.path
        here = self._below.status(path)
        directory, name = self._below.parent(path)
        if here is not None and not stat.S_ISDIR(here.st_mode):
            self._placer.remove(path, directory, name, here)
            here = None
        if here is None:
            made = make_private(directory, name)
            here = os.fstat(made)
            os.close(made)
            self._journal.end(ended(path, each, here, is_made=row is None or row.is_made))
            return MigrationDecision.COPY
        if not may_dress(each, row, here, self._below.writers(path)):
            return MigrationDecision.EXCHANGED
        new = ended(path, each, here, is_made=row is not None and row.is_made)
        closes = is_replaced(each, row)
        if closes:
            # What lies in it is of another directory of the source until the contrary is known.
            new.is_begun = True
            self._journal.begin([new])
        else:
            self._journal.end(new)
        if closes or _is_closer(each, here):
            directory, name = self._below.parent(path)
            with pinned(directory, name, here) as pin:
                if os.geteuid() == 0:
                    change_owner(pin, 0, 0)
                change_mode(pin, 0o700)
        return None

    def may_open(self, row: MigratedFile) -> bool:
        """Whether a directory holds nothing that came from another one than its source. Raises OSError."""
        if not row.is_begun:
            return True
        with os.scandir(self._below.parent(row.path + b"/.")[0]) as names:
            return all(
                is_part(os.fsencode(each.name)) or self._is_of_this_pass(row.path, each) for each in names
            )

    def _is_of_this_pass(self, directory: bytes, each: os.DirEntry[str]) -> bool:
        path = directory + b"/" + os.fsencode(each.name)
        found = self._journal.get(path)
        if found is None or not self._journal.is_seen(path):
            return False
        status = each.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return found.inode == status.st_ino
        return not found.is_begun and found.is_of_migration(status)

    def opened(self, row: MigratedFile) -> None:
        """Note that a directory has the attributes of its source."""
        if row.is_begun:
            self._journal.end(row)

    def within(self, path: bytes) -> int:
        """The inode of the library's directory that a path lies in, as it was met; 0 where it was not."""
        return row.inode if (row := self._journal.get(path.rpartition(b"/")[0])) is not None else 0

    def source_inodes(self, path: bytes) -> tuple[int, ...]:
        """Inodes of the source's directories that a path lies in, the outermost first; 0 for one not met."""
        head = path.rpartition(b"/")[0]
        unknown: list[bytes] = []
        while head not in self._inodes:
            unknown.append(head)
            head = head.rpartition(b"/")[0]
        inodes = self._inodes[head]
        if len(self._inodes) > _MOST_KNOWN:
            self._inodes = {b"": ()}
        for each in reversed(unknown):
            row = self._journal.get(each)
            inodes = (*inodes, row.source_inode if row is not None else 0)
            self._inodes[each] = inodes
        return inodes


def _is_closer(source: WalkedFile, here: os.stat_result) -> bool:
    """Whether those of the source may be fewer than those who may enter what is here."""
    is_given = os.geteuid() == 0 and (here.st_uid, here.st_gid) != (source.st_uid, source.st_gid)
    return is_given or bool(here.st_mode & ~source.st_mode & 0o777)


LINKED, SAME = "linked", "unchanged"


class MigrationLinks:
    """Names of one run that were postponed. One thread uses it."""

    def __init__(
        self,
        journal: MigrationJournal,
        below: Beneath,
        directories: MigrationDirectories,
        placer: Placer,
        report: RepositoryReport,
        refused: Callable[[bytes, OSError], None],
        look: Callable[[bytes, Callable[[os.stat_result], None]], None],
    ) -> None:
        """`refused` is told of a name that cannot be made, and why.

        `look` has the status of a path at the source given to a function, until the workers were waited for.
        """
        self._journal = journal
        self._below = below
        self._directories = directories
        self._placer = placer
        self._report = report
        self._refused = refused
        self._look = look

    def make(self, wait: Callable[[], None]) -> None:
        """Make further names of files with several, now that the first ones are there.

        `wait` waits for the workers.
        """
        for some in self._journal.links():
            todo: list[tuple[MigratedFile, os.stat_result | None]] = []
            sources: dict[bytes, os.stat_result] = {}
            for path, _ in some:
                self._look(path, partial(sources.__setitem__, path))
            wait()
            for path, first in some:
                of = self._journal.get(first)
                if path not in sources:
                    continue
                if of is not None and not of.is_begun and sources[path].st_ino != of.source_inode:
                    self._report.problem(path, "the source was changed while it was copied")
                    continue
                try:
                    here = self._below.status(path)
                    row = self._row(path, first, here)
                except OSError as error:
                    self._refused(path, error)
                    continue
                if row is not None:
                    todo.append((row, here))
            self._journal.begin([row for row, _ in todo])
            names = dict(some)
            for row, here in todo:
                try:
                    of = self._journal.get(names[row.path])
                    if of is not None:
                        self._place(of, row.path, here)
                except OSError as error:
                    self._refused(row.path, error)
                    continue
                if of is not None:
                    self._journal.end(replace(of, path=row.path, is_made=True))
                    self._report.add(LINKED)

    def _row(self, path: bytes, first: bytes, here: os.stat_result | None) -> MigratedFile | None:
        """The row of a name that is to be made another name of a file; None where there is nothing to do."""
        of, row = self._journal.get(first), self._journal.get(path)
        old = self._below.status(first)
        if of is None or old is None or of.is_begun or not of.is_of_migration(old):
            self._report.problem(path, f"it is another name of {shown(first)}, which was not copied")
            return None
        if here is not None and here.st_ino == old.st_ino:
            self._report.add(SAME)
            self._journal.end(replace(of, path=path, is_made=True))
            return None
        if here is not None and (row is None or not row.is_of_migration(here, old)):
            self._report.problem(path, MigrationDecision.STRANGER.value)
            return None
        before = row or replace(of, inode=0, size=0, mtime_ns=0)
        return replace(
            of, path=path, inode=before.inode, size=before.size, mtime_ns=before.mtime_ns, is_begun=True,
            is_made=True,
        )  # fmt: skip

    def _place(self, first: MigratedFile, path: bytes, here: os.stat_result | None) -> None:
        directory, name = self._below.parent(first.path)
        directory = os.dup(directory)
        try:
            target, new = self._below.parent(path)
            part = part_name()
            os.link(name, part, src_dir_fd=directory, dst_dir_fd=target, follow_symlinks=False)
            try:
                made = os.stat(part, dir_fd=target, follow_symlinks=False).st_ino
                if made != first.inode or self._directories.within(path) not in (0, os.fstat(target).st_ino):
                    raise OSError(errno.ESTALE, "another file has come in its place")
                if here is None:
                    place_new(target, part, new)
                else:
                    self._placer.replace(path, target, part, new, here)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=target)
        finally:
            os.close(directory)


VERIFIED = "verified"
_TOLD = 10
"""Names that are told one by one."""


class MigrationProof:
    """What is looked at once more in the end."""

    def __init__(
        self, journal: MigrationJournal, below: Beneath, workers: CopyWorkers, report: RepositoryReport
    ) -> None:
        self._journal = journal
        self._below = below
        self._workers = workers
        self._report = report

    def compare_contents(self) -> None:
        """Read every file on both sides again. What was changed here since it was copied is left out."""
        for row in self._journal.seen():
            try:
                here = self._below.status(row.path)
            except OSError as error:
                self._failed(row.path, error)
                continue
            if stat.S_ISDIR(row.mode) or here is None or not row.is_of_migration(here):
                continue
            task = CopyTask(
                row.path,
                partial(_is_same, row.path),
                partial(self._compared, row),
                partial(self._failed, row.path),
            )
            self._workers.do(task)
        self._workers.wait()

    def _compared(self, row: MigratedFile, is_same: bool) -> None:
        if is_same:
            self._report.add(VERIFIED, row.size)
        else:
            self._report.problem(row.path, "its content is not that of the source")

    def _failed(self, path: bytes, error: Exception) -> None:
        if isinstance(error, Torn | SourceGone):
            self._report.problem(path, "the source was changed while it was compared")
        elif isinstance(error, OSError):
            self._report.problem(path, f"it cannot be compared: {why_not(error)}")
        elif not isinstance(error, MigrationStopped):
            raise error

    def look_whether_still(self, source: int, chosen: Sequence[bytes]) -> None:
        """Name what was written to at the source while the pass ran. Raises GridwrightError, OSError."""
        told = {name for name, _ in self._report.problems}
        count = 0
        for walked, _ in walk_below(source, chosen, waiting=self._workers.watch):
            for each in walked:
                row = self._journal.get(each.path)
                is_still = row is not None and row.is_same_source(each)
                if is_still or stat.S_ISSOCK(each.st_mode) or shown(each.path) in told:
                    continue
                count += 1
                if count <= _TOLD:
                    self._report.problem(each.path, "the source was written to during the last pass")
        if count > _TOLD:
            more = f"{count - _TOLD} more names of the source were written to during the last pass"
            self._report.problem(os.fsencode("."), more)


def _is_same(path: bytes, copier: Copier) -> bool:
    return copier.same(path) is not None


COPIED, DRESSED, REMOVED = "copied", "given new attributes", "removed"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_LINK, _AGAIN, _DIRECTORY, _NEW_DIRECTORY = "link", "again", "directory", "new directory"
_SAMPLE = 200
Statuses = tuple[os.stat_result, os.stat_result]


@dataclass(frozen=True, slots=True)
class MigrationOptions:
    """What a migration is told."""

    paths: Sequence[bytes] = ()
    verify: bool = False
    cut_over: bool = False
    delete_up_to: int | None = None
    """So many files may go to the trash; None for as many as are usual (`deletion_limit.py`)."""
    dry_run: bool = False


class Migration:
    """One run. One thread uses it."""

    def __init__(
        self,
        source: int,
        below: Beneath,
        journal: MigrationJournal,
        workers: CopyWorkers,
        options: MigrationOptions,
        report: RepositoryReport,
    ) -> None:
        self._source = source
        self._below = below
        self._journal = journal
        self._workers = workers
        self._options = options
        self._report = report
        self._unread: list[UnreadDirectory] = []
        self._changed_here = 0
        self._placer = Placer(below.root, report, workers.moment)
        self._directories = MigrationDirectories(below, journal, self._placer)
        # Directories of others, and with them all that lies in them.
        self._left: list[bytes] = []
        self.sample: list[bytes] = []
        """Some files that a dry run would copy."""

    def run(self) -> None:
        """Do it. Raises GridwrightError where the source hangs or the disk is full, and OSError."""
        self._walk()
        self._workers.wait()
        if not self._options.dry_run:
            links = MigrationLinks(
                self._journal,
                self._below,
                self._directories,
                self._placer,
                self._report,
                self._refused,
                self._look,
            )
            links.make(self._workers.wait)
        if self._options.cut_over:
            self._remove()
            self._try_again()
        if not self._options.dry_run:
            self._dress_directories()
            self._workers.wait()
            self._journal.flush()
            self._prove()
        self._placer.settle()
        self._tell()

    def _prove(self) -> None:
        proof = MigrationProof(self._journal, self._below, self._workers, self._report)
        if self._options.verify:
            proof.compare_contents()
        if self._options.cut_over:
            proof.look_whether_still(self._source, self._options.paths)

    def _walk(self) -> None:
        for walked, unread in walk_below(self._source, self._options.paths, waiting=self._workers.watch):
            for each in unread:
                self._report.problem(each.path, each.why)
                self._unread.append(each)
            self._journal.see(each.path for each in walked)
            self._consider_all(walked)
            self._workers.wait(len(walked))

    def _consider_all(self, walked: Sequence[WalkedFile]) -> None:
        """Decide about a batch; what is to be made is begun in the journal before anything is."""
        decided: list[tuple[WalkedFile, MigrationDecision, MigratedFile | None, os.stat_result | None]] = []
        for each in walked:
            if self._left and is_chosen(each.path, self._left):
                continue
            try:
                here = self._below.status(each.path)
            except OSError as error:
                self._refused(each.path, error)
                if error.errno == errno.EXDEV and stat.S_ISDIR(each.st_mode):
                    self._left.append(each.path)
                continue
            row = self._journal.get(each.path)
            decided.append((each, self._decide(each, row, here), row, here))
        if self._options.dry_run:
            for each, decision, row, _ in decided:
                self._count(each, decision, row)
            return
        making = [
            (each, row)
            for each, decision, row, here in decided
            if decision is MigrationDecision.COPY
            or (decision is MigrationDecision.DIRECTORY and here is None)
        ]
        self._journal.begin([begun(each.path, each, row) for each, row in making])
        for each, decision, row, here in decided:
            self._act(each, decision, row, here)

    def _decide(
        self, each: WalkedFile, row: MigratedFile | None, here: os.stat_result | None
    ) -> MigrationDecision:
        if stat.S_ISREG(each.st_mode) and each.st_nlink > 1:
            first = self._journal.first_name(each.st_ino, each.path)
            if first != each.path:
                return MigrationDecision.LINK
        return decide(each, row, here)

    def _act(
        self,
        each: WalkedFile,
        decision: MigrationDecision,
        row: MigratedFile | None,
        here: os.stat_result | None,
    ) -> None:
        path = each.path
        if decision is MigrationDecision.SAME:
            self._report.add(SAME, each.st_size)
        elif decision is MigrationDecision.DIRECTORY:
            self._make_directory(each, row)
        elif decision is MigrationDecision.COPY:
            self._copy(path, here)
        elif decision is MigrationDecision.COMPARE:
            self._do(path, partial(Copier.compare, path=path), partial(self._compared, each, row, here))
        elif decision is MigrationDecision.LINK:
            self._journal.postpone(path, _LINK, self._journal.first_name(each.st_ino, path))
        elif decision is MigrationDecision.AGAIN and self._options.cut_over:
            self._journal.postpone(path, _AGAIN)
        else:
            self._leave(each, decision)

    def _count(self, each: WalkedFile, decision: MigrationDecision, row: MigratedFile | None) -> None:
        """What would be done."""
        if decision in (MigrationDecision.COPY, MigrationDecision.COMPARE):
            self._report.add(COPIED, each.st_size)
            if stat.S_ISREG(each.st_mode) and len(self.sample) < _SAMPLE:
                self.sample.append(each.path)
        elif decision is MigrationDecision.LINK:
            self._report.add(SAME if row is not None and row.is_same_source(each) else LINKED)
        elif decision is MigrationDecision.DIRECTORY:
            self._report.add(SAME if row is not None else COPIED)
        elif decision is MigrationDecision.SAME:
            self._report.add(SAME, each.st_size)
        else:
            self._leave(each, decision)

    def _leave(self, each: WalkedFile, decision: MigrationDecision) -> None:
        if decision is MigrationDecision.CHANGED_HERE:
            self._changed_here += 1
        elif decision is MigrationDecision.SOCKET:
            self._report.note_of(f"are not copied, since each is {kind_of(each.st_mode)}", each.path)
        else:
            self._report.problem(each.path, decision.value)

    def _do(self, path: bytes, act: Callable[[Copier], object], done: Callable[..., None]) -> None:
        inodes = self._directories.source_inodes(path)
        self._workers.do(CopyTask(path, act, done, partial(self._failed, path), inodes))

    def _look(self, path: bytes, done: Callable[[os.stat_result], None]) -> None:
        self._do(path, partial(Copier.status, path=path), done)

    def _copy(self, path: bytes, there: os.stat_result | None) -> None:
        act = partial(Copier.copy, path=path, there=there, within=self._directories.within(path))
        self._do(path, act, partial(self._copied, path))

    def _copied(self, path: bytes, statuses: Statuses) -> None:
        source, here = statuses
        self._journal.end(ended(path, source, here))
        self._report.add(COPIED, source.st_size)

    def _compared(
        self,
        each: WalkedFile,
        row: MigratedFile | None,
        there: os.stat_result | None,
        outcome: Statuses | bool,
    ) -> None:
        """The content was the same, and is dressed; or it is copied, if what is here may be replaced."""
        path = each.path
        if not isinstance(outcome, bool):
            source, here = outcome
            self._journal.end(ended(path, source, here, is_made=row is not None and row.is_made))
            self._report.add(DRESSED)
        elif row is None and not outcome:
            self._report.problem(path, MigrationDecision.STRANGER.value)
        else:
            self._journal.begin([begun(path, each, row)])
            self._copy(path, there)

    def _make_directory(self, each: WalkedFile, row: MigratedFile | None) -> None:
        path = each.path
        try:
            outcome = self._directories.make(each, row)
        except OSError as error:
            self._refused(path, error)
            return
        is_new = outcome is MigrationDecision.COPY
        if is_new:
            self._report.add(COPIED)
        elif outcome is not None:
            self._report.problem(path, outcome.value)
            self._left.append(path)
            return
        self._journal.postpone(path, _NEW_DIRECTORY if is_new else _DIRECTORY)

    def _remove(self) -> None:
        """Remove what the migration has made and the source no longer has."""
        if self._unread:
            self._report.notes.append("nothing was removed: not all of the source could be read")
            return
        vanished = list(self._vanished())
        count = sum(not stat.S_ISDIR(row.mode) for row, _ in vanished)
        gone = Deletions(count, self._journal.count(), is_all=not self._journal.has_seen())
        if (why := gone.refusal(self._options.delete_up_to)) is not None:
            self._report.problem("--cut-over", why)
            return
        for row, here in vanished:
            if self._options.dry_run or self._removed(row, here):
                self._report.add(REMOVED, 0 if stat.S_ISDIR(row.mode) else row.size)

    def _vanished(self) -> Iterator[tuple[MigratedFile, os.stat_result]]:
        """What the migration has made, nobody has changed, and the source no longer has."""
        for row in self._journal.vanished():
            if not is_chosen(row.path, self._options.paths):
                continue
            try:
                here = self._below.status(row.path)
            except OSError as error:
                self._refused(row.path, error)
                continue
            if here is None:
                if not self._options.dry_run:
                    self._journal.forget(row.path)
            elif row.is_made and row.is_of_migration(here):
                yield row, here
            else:
                self._changed_here += row.is_made

    def _removed(self, row: MigratedFile, here: os.stat_result) -> bool:
        try:
            directory, name = self._below.parent(row.path)
            if stat.S_ISDIR(row.mode):
                os.rmdir(name, dir_fd=directory)
                self._below.refresh()
            else:
                self._placer.remove(row.path, directory, name, here)
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                self._report.note_of("were left, since files of others lie there", row.path)
            else:
                self._refused(row.path, error)
            return False
        self._journal.forget(row.path)
        return True

    def _try_again(self) -> None:
        """Copy what a directory was in the way of."""
        for path in self._journal.postponed(_AGAIN):
            try:
                if self._options.dry_run or not self._made_way(path):
                    self._report.problem(path, MigrationDecision.AGAIN.value)
                    continue
                self._copy(path, None)
            except OSError as error:
                self._refused(path, error)
        self._workers.wait()

    def _made_way(self, path: bytes) -> bool:
        """Remove the directory that the migration has made there and that holds nothing any more."""
        here, row = self._below.status(path), self._journal.get(path)
        if here is None or not stat.S_ISDIR(here.st_mode):
            return True
        return row is not None and row.is_made and self._removed(row, here)

    def _dress_directories(self) -> None:
        """Give directories their attributes: names are made in them no more."""
        for why in (_NEW_DIRECTORY, _DIRECTORY):
            for path in self._journal.postponed(why):
                row = self._journal.get(path)
                try:
                    if row is None or not self._directories.may_open(row):
                        self._report.problem(path, MigrationDecision.OF_ANOTHER.value)
                        continue
                except OSError as error:
                    self._refused(path, error)
                    continue
                act = partial(Copier.dress_directory, path=path, met=(row.inode, row.source_inode))
                self._do(path, act, partial(self._dressed, why, row))
        if not self._options.paths:
            self._do(b"", partial(Copier.dress_again, path=b""), partial(self._dressed, _NEW_DIRECTORY, None))

    def _dressed(self, why: str, row: MigratedFile | None, was_changed: object) -> None:
        if row is not None:
            self._directories.opened(row)
        if why == _DIRECTORY:
            self._report.add(DRESSED if was_changed else SAME)

    def _tell(self) -> None:
        if self._changed_here:
            self._report.notes.append(
                f"{self._changed_here} were changed here since they were copied, and left as they are"
            )
        if self._workers.left_owners:
            self._report.notes.append("owners and groups were left: only root may give files away")
        if self._workers.left_privileges:
            self._report.notes.append(
                "set-user-ID and set-group-ID bits were left: the source is mounted nosuid"
            )

    def _failed(self, path: bytes, error: Exception) -> None:
        if isinstance(error, MigrationStopped):
            return
        if isinstance(error, SourceGone):
            self._report.note_of("went before a copy was made", path)
        elif isinstance(error, Torn):
            self._report.problem(
                path, f"it changed each of the {ATTEMPTS} times that it was read; it was not copied"
            )
        elif isinstance(error, OSError):
            self._refused(path, error)
        else:
            raise error

    def _refused(self, path: bytes, error: OSError) -> None:
        if error.errno in _FULL:
            raise environment_error(
                f"the disk is full ({error.strerror}); nothing is half-written",
                where=str(self._below.directory),
                remedy="make room, and run the command again: it goes on",
            ) from error
        if isinstance(error, FileExistsError) and error.strerror == os.strerror(errno.EEXIST):
            self._report.problem(path, MigrationDecision.STRANGER.value)
        else:
            self._report.problem(path, f"it cannot be copied: {why_not(error)}")
