"""Moves a tree into a library: what is new or changed at the source is copied, and nothing of others touched.

A library may be migrated to again and again while the source is in use. The last pass, for the cut-over, also
removes what has vanished at the source, if the migration has made it, and looks whether the source was still.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gridwright.beneath import Beneath
from gridwright.errors import environment_error
from gridwright.repository.below import kind_of
from gridwright.repository.content import Torn
from gridwright.repository.deletion_limit import Deletions
from gridwright.repository.migration.attributes import why_not
from gridwright.repository.migration.copying import ATTEMPTS, Copier, MigrationStopped, SourceGone
from gridwright.repository.migration.deciding import MigrationDecision, decide
from gridwright.repository.migration.directories import MigrationDirectories
from gridwright.repository.migration.journal import MigratedFile, MigrationJournal, begun, ended
from gridwright.repository.migration.linking import LINKED, SAME, MigrationLinks
from gridwright.repository.migration.proving import MigrationProof
from gridwright.repository.migration.workers import CopyTask, CopyWorkers
from gridwright.repository.placing import Placer
from gridwright.repository.settings import RepositoryReport, is_chosen
from gridwright.repository.walking import UnreadDirectory, WalkedFile, walk_below

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
