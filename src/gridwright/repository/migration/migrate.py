"""Moves a tree into a library: what is new or changed at the source is copied, and nothing of others touched.

A library may be migrated to again and again while the source is in use. The last pass, for the cut-over, also
removes what has vanished at the source, if the migration has made it, and looks whether the source was still.

Proves that source and library are equal: all contents read again, and the source still meanwhile.

Further names of files that have several, made when the first ones are there.

Directories of the library, each held against the one of the source that the walk has met.

Until a directory is dressed, at the end of a pass, nobody else may enter it who could not enter it before.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from gridwright.beneath import Beneath, change_mode, change_owner, make_private, pinned
from gridwright.errors import environment_error
from gridwright.refusals import reason_of
from gridwright.repository.below import is_part, kind_of, part_name
from gridwright.repository.content import Torn
from gridwright.repository.deletions import Deletions
from gridwright.repository.keys import shown
from gridwright.repository.migration.copying import (
    ATTEMPTS,
    Copier,
    CopyTask,
    CopyWorkers,
    MigrationStopped,
    SourceGone,
    why_not,
)
from gridwright.repository.migration.journal import (
    COPIED,
    LINKED,
    NO_DIRECTORY_HERE,
    SAME,
    MigratedFile,
    MigrationDecision,
    MigrationJournal,
    MigrationPlan,
    begun,
    decide,
    ended,
    is_replaced,
    may_dress,
    rank_of,
)
from gridwright.repository.placing import Placer, place_new
from gridwright.repository.settings import RepositoryReport, is_chosen
from gridwright.repository.walking import FileStatus, UnreadDirectory, walk_below
from gridwright.units import counted

_MOST_KNOWN = 1000


class MigrationDirectories:
    """Makes and closes directories, and knows which ones lead to a path. One thread uses it."""

    def __init__(self, below: Beneath, journal: MigrationJournal, placer: Placer) -> None:
        self._below = below
        self._placer = placer
        self._journal = journal
        self._inodes: dict[bytes, tuple[int, ...]] = {b"": ()}

    def make(self, path: bytes, each: FileStatus, row: MigratedFile | None) -> MigrationDecision | None:
        """Make a directory, or take the one that is there; why it is left, or None. Raises OSError."""
        here = self._below.status(path)
        if (why := self.plan(path, each, row, here)) is MigrationDecision.EXCHANGED:
            return why
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

    def plan(
        self, path: bytes, each: FileStatus, row: MigratedFile | None, here: os.stat_result | None
    ) -> MigrationDecision | None:
        """What `make` would return beside what is here. Raises OSError."""
        if here is None or not stat.S_ISDIR(here.st_mode):
            return MigrationDecision.COPY
        may = may_dress(each, row, here, self._below.writers(path))
        return None if may else MigrationDecision.EXCHANGED

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


def _is_closer(source: FileStatus, here: os.stat_result) -> bool:
    """Whether those of the source may be fewer than those who may enter what is here."""
    is_given = os.geteuid() == 0 and (here.st_uid, here.st_gid) != (source.st_uid, source.st_gid)
    return is_given or bool(here.st_mode & ~source.st_mode & 0o777)


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
        make_way: Callable[[bytes], bool],
    ) -> None:
        """`refused` is told of a name that cannot be made, and why.

        `look` has the status of a path at the source given to a function, until the workers were waited for.
        `make_way` removes a directory that the migration has made, or names it.
        """
        self._journal = journal
        self._below = below
        self._directories = directories
        self._placer = placer
        self._report = report
        self._refused = refused
        self._look = look
        self._make_way = make_way

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
                    todo.append((row, None if here is not None and stat.S_ISDIR(here.st_mode) else here))
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
                    self._report.add(LINKED, mode=of.mode)

    def _row(self, path: bytes, first: bytes, here: os.stat_result | None) -> MigratedFile | None:
        """The row of a name that is to be made another name of a file; None where there is nothing to do."""
        of, row = self._journal.get(first), self._journal.get(path)
        old = self._below.status(first)
        if of is None or old is None or of.is_begun or not of.is_of_migration(old):
            self._report.problem(path, f"it is another name of {shown(first)}, which was not copied")
            return None
        if here is not None and here.st_ino == old.st_ino:
            self._report.add(SAME, mode=of.mode)
            self._journal.end(replace(of, path=path, is_made=True))
            return None
        if here is not None and (row is None or not row.is_of_migration(here, old)):
            self._report.problem(path, MigrationDecision.STRANGER.value)
            return None
        if here is not None and stat.S_ISDIR(here.st_mode) and not self._make_way(path):
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
            self._report.add(VERIFIED, row.size, row.mode)
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
            more = f"during the last pass the source was written to at {counted(count - _TOLD, 'more name')}"
            self._report.problem(os.fsencode("."), more)


def _is_same(path: bytes, copier: Copier) -> bool:
    return copier.same(path) is not None


DRESSED, REMOVED = "given new attributes", "removed"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_AGAIN, _DIRECTORY, _NEW_DIRECTORY = "again", "directory", "new directory"
_MAKING = (MigrationDecision.COPY, MigrationDecision.DIRECTORY)
Statuses = tuple[os.stat_result, os.stat_result]


@dataclass(frozen=True, slots=True)
class MigrationOptions:
    """What a migration is told."""

    paths: Sequence[bytes] = ()
    verify: bool = False
    cut_over: bool = False
    delete_up_to: int | None = None
    """So many files may go to the trash; None for as many as are usual (`deletions.py`)."""
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
        workers.placers.append(self._placer)
        self._directories = MigrationDirectories(below, journal, self._placer)
        # Directories of others, and with them all that lies in them.
        self._left: list[bytes] = []
        self.plan = MigrationPlan(journal, below, report)

    def run(self) -> None:
        """Do it. Raises GridwrightError where the source hangs or the disk is full, and OSError."""
        count = self._journal.count() if self._options.cut_over else 0
        self._walk()
        self._consider_names()
        if self._options.cut_over:
            self._remove(count)
            self._try_again()
        if self._options.dry_run:
            self.plan.links(self._refused, self._make_way)
        else:
            MigrationLinks(
                self._journal,
                self._below,
                self._directories,
                self._placer,
                self._report,
                self._refused,
                self._look,
                self._make_way,
            ).make(self._workers.wait)
        if self._options.dry_run:
            self._plan_directories()
            self._workers.wait()
        else:
            self._dress_directories()
            self._workers.wait()
            self._journal.flush()
            self._prove()
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
            self._consider_all((each.path, each) for each in walked)
            self._workers.wait(len(walked))
        self._workers.wait()

    def _consider_names(self) -> None:
        """Decide about the first names of files with several, once all names have been met."""
        for firsts in self._journal.first_names():
            sources: dict[bytes, os.stat_result] = {}
            for path in firsts:
                self._look(path, partial(sources.__setitem__, path))
            self._workers.wait()
            self._consider_all(sources.items(), are_first=True)
        self._workers.wait()

    def _consider_all(self, walked: Iterable[tuple[bytes, FileStatus]], *, are_first: bool = False) -> None:
        """Decide about a batch; what is to be made is begun in the journal before anything is."""
        decided: list[
            tuple[bytes, FileStatus, MigrationDecision, MigratedFile | None, os.stat_result | None]
        ] = []
        for path, each in walked:
            if self._left and is_chosen(path, self._left):
                continue
            try:
                here = self._below.status(path)
            except OSError as error:
                self._refused(path, error)
                if error.errno == errno.EXDEV and stat.S_ISDIR(each.st_mode):
                    self._left.append(path)
                continue
            row = self._journal.get(path)
            decision = decide(each, row, here)
            if stat.S_ISREG(each.st_mode) and each.st_nlink > 1 and not are_first:
                self._journal.name(each.st_ino, rank_of(decision, row), path)
            else:
                decided.append((path, each, decision, row, here))
        making = [
            (path, each, row)
            for path, each, decision, row, here in decided
            if decision is MigrationDecision.COPY
            or (decision is MigrationDecision.DIRECTORY and here is None)
        ]
        if not self._options.dry_run:
            self._journal.begin([begun(path, each, row) for path, each, row in making])
        for path, each, decision, row, here in decided:
            self._act(path, each, decision, row, here)

    def _act(
        self,
        path: bytes,
        each: FileStatus,
        decision: MigrationDecision,
        row: MigratedFile | None,
        here: os.stat_result | None,
    ) -> None:
        if decision in _MAKING and self.plan.is_blocked(path):
            self._refused(path, NO_DIRECTORY_HERE)
        elif decision is MigrationDecision.SAME:
            self._report.add(SAME, each.st_size, each.st_mode)
            self.plan.first(path, each, here)
        elif decision is MigrationDecision.DIRECTORY:
            self._make_directory(path, each, row)
        elif decision is MigrationDecision.COPY:
            self._copy(path, here, each)
        elif decision is MigrationDecision.COMPARE:
            compare = partial(Copier.compare, path=path, looks=self._options.dry_run)
            self._do(path, compare, partial(self._compared, path, each, row, here))
        elif decision is MigrationDecision.AGAIN and self._options.cut_over:
            self._journal.postpone(path, _AGAIN)
        else:
            self._leave(path, each, decision)

    def _plan_directories(self) -> None:
        """Which directories that are here would get other attributes."""
        for path in self._journal.postponed(_DIRECTORY):
            try:
                may_open = self.plan.may_open(path)
            except OSError as error:
                self._refused(path, error)
                continue
            if not may_open:
                self._report.problem(path, MigrationDecision.OF_ANOTHER.value)
            elif path in self.plan.changing or path in self.plan.replaced:
                self._report.add(DRESSED, mode=stat.S_IFDIR)
            else:
                act = partial(Copier.is_dressed, path=path)
                self._do(path, act, lambda is_dressed: self._add_directory(not is_dressed))

    def _leave(self, path: bytes, each: FileStatus, decision: MigrationDecision) -> None:
        if decision is MigrationDecision.CHANGED_HERE:
            self._changed_here += 1
        elif decision is MigrationDecision.SOCKET:
            self._report.note_of(f"are not copied, since each is {kind_of(each.st_mode)}", path)
        else:
            if self._options.dry_run and stat.S_ISDIR(each.st_mode):
                self.plan.blocked.append(path)
            self._report.problem(path, decision.value)

    def _do(self, path: bytes, act: Callable[[Copier], object], done: Callable[..., None]) -> None:
        inodes = self._directories.source_inodes(path)
        self._workers.do(CopyTask(path, act, done, partial(self._failed, path), inodes))

    def _look(self, path: bytes, done: Callable[[os.stat_result], None]) -> None:
        self._do(path, partial(Copier.status, path=path), done)

    def _copy(self, path: bytes, there: os.stat_result | None, source: FileStatus | None = None) -> None:
        if self._options.dry_run:
            if source is None:
                self._look(path, partial(self.plan.copy, path))
            else:
                self.plan.copy(path, source)
            return
        act = partial(Copier.copy, path=path, there=there, within=self._directories.within(path))
        self._do(path, act, partial(self._copied, path))

    def _copied(self, path: bytes, statuses: Statuses) -> None:
        source, here = statuses
        self._journal.end(ended(path, source, here))
        self._report.add(COPIED, source.st_size, source.st_mode)

    def _compared(
        self,
        path: bytes,
        each: FileStatus,
        row: MigratedFile | None,
        there: os.stat_result | None,
        outcome: Statuses | bool,
    ) -> None:
        """The content was the same, and is dressed; or it is copied, if what is here may be replaced."""
        if not isinstance(outcome, bool):
            source, here = outcome
            if not self._options.dry_run:
                self._journal.end(ended(path, source, here, is_made=row is not None and row.is_made))
            elif row is None:
                self.plan.taken.add(path)
            self.plan.first(path, each, here)
            self._report.add(DRESSED, mode=each.st_mode)
        elif row is None and not outcome:
            self._report.problem(path, MigrationDecision.STRANGER.value)
        else:
            if not self._options.dry_run:
                self._journal.begin([begun(path, each, row)])
            self._copy(path, there, each)

    def _make_directory(self, path: bytes, each: FileStatus, row: MigratedFile | None) -> None:
        try:
            if self._options.dry_run:
                outcome = self._plan_directory(path, each, row)
            else:
                outcome = self._directories.make(path, each, row)
        except OSError as error:
            self._refused(path, error)
            return
        is_new = outcome is MigrationDecision.COPY
        if is_new:
            self._report.add(COPIED, mode=stat.S_IFDIR)
            self.plan.changes(path)
        elif outcome is not None:
            self._report.problem(path, outcome.value)
            self._left.append(path)
            return
        self._journal.postpone(path, _NEW_DIRECTORY if is_new else _DIRECTORY)

    def _plan_directory(
        self, path: bytes, each: FileStatus, row: MigratedFile | None
    ) -> MigrationDecision | None:
        here = self._below.status(path)
        outcome = self._directories.plan(path, each, row, here)
        if outcome is None and is_replaced(each, row):
            self.plan.replaced.add(path)
        if outcome is None and here is not None and (row is None or row.inode != here.st_ino):
            self.plan.taken.add(path)
        return outcome

    def _remove(self, known: int) -> None:
        """Remove what the migration has made and the source no longer has; `known` is of how many."""
        if self._unread:
            self._report.notes.append("nothing was removed: not all of the source could be read")
            return
        vanished = list(self._vanished())
        count = sum(not stat.S_ISDIR(row.mode) for row, _ in vanished)
        gone = Deletions(count, known, is_all=not self._journal.has_seen())
        if (why := gone.refusal(self._options.delete_up_to)) is not None:
            self._report.problem("--cut-over", why)
            return
        for row, here in vanished:
            if self._removed(row, here):
                self._report.add(REMOVED, 0 if stat.S_ISDIR(row.mode) else row.size, row.mode)

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
            if self._options.dry_run:
                self.plan.remove(row)
                return True
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
                if self._make_way(path):
                    self._copy(path, None)
            except OSError as error:
                self._refused(path, error)
        self._workers.wait()

    def _make_way(self, path: bytes) -> bool:
        """Remove, at a cut-over, the directory that the migration has made there; one that stays is named.

        Raises OSError.
        """
        here, row = self._below.status(path), self._journal.get(path)
        if path in self.plan.going or here is None or not stat.S_ISDIR(here.st_mode):
            return True
        if self._options.cut_over and row is not None and row.is_made and self._removed(row, here):
            return True
        self._report.problem(path, MigrationDecision.AGAIN.value)
        return False

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
            self._add_directory(bool(was_changed))

    def _add_directory(self, was_changed: bool) -> None:
        self._report.add(DRESSED if was_changed else SAME, mode=stat.S_IFDIR)

    def _tell(self) -> None:
        if self._changed_here:
            self._report.notes.append(f"changed here since copied, and left as is: {self._changed_here}")
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
                f"the disk is full ({reason_of(error)}); nothing is half-written",
                where=str(self._below.directory),
                remedy="make room, and run the command again: it goes on",
            ) from error
        if isinstance(error, FileExistsError) and error.strerror == os.strerror(errno.EEXIST):
            self._report.problem(path, MigrationDecision.STRANGER.value)
        else:
            self._report.problem(path, f"it cannot be copied: {why_not(error)}")
