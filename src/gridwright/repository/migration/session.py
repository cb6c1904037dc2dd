"""A migration from its beginning to its end: both places looked at, held, and let go."""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gridwright.beneath import Beneath
from gridwright.errors import GridwrightError, environment_error, input_error
from gridwright.refusals import reason_of
from gridwright.repository.below import sync_file_system
from gridwright.repository.migration.copying import PATIENCE_S, Copier, CopyTask, CopyWorkers, silent_source
from gridwright.repository.migration.journal import COPIED, MigrationJournal
from gridwright.repository.migration.migrate import Migration, MigrationOptions
from gridwright.repository.settings import ReportedCount, RepositoryReport, hold_directory
from gridwright.repository.unfinished import sweep
from gridwright.repository.walking import LibraryFiles
from gridwright.units import counted, format_bytes

_SAMPLE_BYTES = 8 << 20
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class MigrationPlaces:
    """From where to where."""

    name: str
    """Of the repository or the directory, for the report."""
    source: Path
    library: Path
    bytes_per_s: float | None = None
    """At most so many bytes a second; None for no limit."""
    patience_s: float = PATIENCE_S
    """A source that is silent for longer hangs."""


def migrate(
    places: MigrationPlaces, options: MigrationOptions, progress: Progress = lambda _bytes: None
) -> RepositoryReport:
    """Bring the library up to the source. Raises GridwrightError where one of them as a whole fails."""
    report = RepositoryReport(places.name, "import", options.dry_run)
    begun = time.monotonic()
    source = _opened_source(places)
    try:
        with (
            _library(places, dry_run=options.dry_run) as (below, journal),
            _workers(places, report, progress) as workers,
        ):
            _check_source(places, journal, source, dry_run=options.dry_run)
            report.notes += [journal.note] if journal.note else []
            migration = Migration(source, below, journal, workers, options, report)
            migration.run()
            if options.dry_run:
                _estimate(places, report, workers, migration.plan.sample)
    except OSError as error:
        raise environment_error(
            f"the library cannot be worked on: {reason_of(error, named=True)}", where=str(places.library)
        ) from error
    finally:
        os.close(source)
    report.seconds = time.monotonic() - begun
    return report


def _opened_source(places: MigrationPlaces) -> int:
    """The source, open for reading alone, in a stated time. Raises GridwrightError."""
    answers: queue.SimpleQueue[int | OSError | GridwrightError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            _check_apart(places)
            answers.put(os.open(places.source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except (OSError, GridwrightError) as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=places.patience_s)
    except queue.Empty:
        raise silent_source(places.source, b".", places.patience_s) from None
    if isinstance(answer, GridwrightError):
        raise answer
    if isinstance(answer, OSError):
        raise input_error(
            f"the source cannot be opened: {reason_of(answer)}", where=f"--from {places.source}"
        )
    return answer


def _check_apart(places: MigrationPlaces) -> None:
    source, library = places.source.resolve(), places.library.resolve()
    if source.is_relative_to(library) or library.is_relative_to(source):
        raise input_error(
            f"{source} and {library} lie within each other",
            where="--from",
            remedy="name a tree outside of the library that does not hold it",
        )


@contextmanager
def _library(places: MigrationPlaces, *, dry_run: bool) -> Iterator[tuple[Beneath, MigrationJournal]]:
    """The library and its journal; what a killed migration has left is removed."""
    below = LibraryFiles(places.library)
    lock: int | None = None
    try:
        if not dry_run:
            lock = hold_directory(places.library)
        journal = MigrationJournal(places.library, partial(sync_file_system, below.root), dry_run=dry_run)
        try:
            if dry_run:
                yield below, journal
                return
            if journal.fact("unfinished"):
                sweep(below)
            journal.set_fact("unfinished", "1")
            yield below, journal
            journal.flush()
            journal.set_fact("unfinished", "")
        except sqlite3.Error as error:
            raise journal.failure(error) from error
        finally:
            journal.close()
    finally:
        below.close()
        if lock is not None:
            os.close(lock)


@contextmanager
def _workers(places: MigrationPlaces, report: RepositoryReport, progress: Progress) -> Iterator[CopyWorkers]:
    workers = CopyWorkers(
        places.source,
        places.library,
        report,
        bytes_per_s=places.bytes_per_s,
        progress=progress,
        patience_s=places.patience_s,
    )
    try:
        yield workers
    finally:
        workers.stop()


def _check_source(places: MigrationPlaces, journal: MigrationJournal, source: int, *, dry_run: bool) -> None:
    """Refuse a source that is another tree than that of the journal, or one that is not mounted."""
    here = f"{os.fstat(source).st_ino}"
    path, inode = journal.fact("source"), journal.fact("source inode")
    if not journal.is_empty() and path and inode != here:
        raise input_error(
            f"{places.source} is not the tree that was migrated from {path}: its root is another one",
            where="--from",
            remedy=f"mount it; for another source, first remove {journal.file}",
        )
    if not dry_run:
        journal.set_fact("source", str(places.source))
        journal.set_fact("source inode", here)


def _estimate(
    places: MigrationPlaces, report: RepositoryReport, workers: CopyWorkers, sample: list[bytes]
) -> None:
    """Say how long reading would take at least, by reading some files, and whether there is room."""
    todo = report.done.get(COPIED, ReportedCount())
    status = os.statvfs(places.library)
    room = status.f_bavail * status.f_frsize
    if todo.bytes > room:
        need = f"{format_bytes(todo.bytes)} are to be copied, and {format_bytes(room)} are free"
        report.problem(".", need)
    sizes: list[int] = []
    begun = time.monotonic()
    for path in sample:
        read = partial(Copier.read, path=path, most=_SAMPLE_BYTES)
        workers.do(CopyTask(path, read, sizes.append, lambda _error: None))
    workers.wait()
    span, size = time.monotonic() - begun, sum(sizes)
    if not sizes:
        return
    seconds = span * max(todo.count / len(sizes), todo.bytes / size if size else 0.0)
    if places.bytes_per_s:
        seconds = max(seconds, todo.bytes / places.bytes_per_s)
    read_so_far = f"{counted(len(sizes), 'file')} ({format_bytes(size)}) of the source read"
    report.at_least_s, report.at_least_by = seconds, f"with {read_so_far} to see how fast it is"
