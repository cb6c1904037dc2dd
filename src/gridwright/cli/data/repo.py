"""`gridwright repo`: what moves a library's files to object storage and back, and compares both.

A repository and its store are opened for a command, with what a killed command or an older release left. One
that a service of the cloud carries is not opened: its verbs, as flags have them, are here, too.
"""

from __future__ import annotations

import contextlib
import gc
import shlex
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from gridwright.beneath import Beneath
from gridwright.cli.arguments import Reader, Reads, options_of, read_flags, verb
from gridwright.cli.data.repo_flags import (
    DuplicateFlags,
    ExportFlags,
    ImportFlags,
    PathFlags,
    ReleaseFlags,
    RepositoryFlags,
    StatusFlags,
    VerifyFlags,
    below,
    named,
    refuse_ambiguous,
    settings_of,
    show,
    status_settings,
)
from gridwright.cli.data.repo_of_grid import duplicate_of_grid
from gridwright.cli.data.serve import run_serve
from gridwright.cli.named_spec import naming_spec
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import load_placed
from gridwright.cli.verbosity import say
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error, input_error
from gridwright.refusals import reason_of, refusal
from gridwright.units import counted

if TYPE_CHECKING:
    from gridwright.filesystems.resources import Operation
    from gridwright.providers.provider import LinkedRepository
    from gridwright.repository.forecast import TransferLimit
    from gridwright.repository.s3.s3_store import S3Store
    from gridwright.repository.settings import OpenRepository, RepositoryReport, RepositorySettings
    from gridwright.spec import GridSpec
    from gridwright.spec.linked import LinkedDirectory


def _opened_store(flags: RepositoryFlags, bucket_url: str, endpoint: str | None) -> S3Store:
    """The store of a bucket, as the flags have it reached. Raises GridwrightError."""
    from gridwright.repository.s3.connection import BucketLocation, connect
    from gridwright.repository.s3.request_threads import Pace
    from gridwright.repository.s3.s3_store import S3Store

    rate = flags.requests_per_second
    if rate is not None and rate <= 0:
        raise input_error("no requests at all do nothing", where="--requests-per-second", remedy="write 100")
    connection = connect(
        BucketLocation.parse(bucket_url).bucket,
        endpoint_url=flags.endpoint or endpoint,
        requester_pays=flags.requester_pays,
    )
    return S3Store(connection, pace=Pace(rate))


def unopened(directory: Path, what: str, error: OSError) -> GridwrightError:
    """The error of a repository's directory that cannot be looked into: whose it is, and the next step."""
    helps = f"mount its file system, or make it: mkdir -p {shlex.quote(str(directory))}"
    why = refusal(directory, error, helps if isinstance(error, FileNotFoundError) else "run as its owner")
    return environment_error(f"{what}: {why.reason}", where=str(directory), remedy=why.remedy)


_COLLECTION = (20_000, 20, 20)
"""Objects that are made before a collection: rows have no cycles, and those of exceptions are few."""


@contextlib.contextmanager
def _of_bucket(url: str) -> Iterator[None]:
    """Have a bucket that is not there named as the user did, whatever key the store was asked for."""
    from gridwright.repository.store import StoreError, StoreFault

    try:
        yield
    except StoreError as error:
        if error.fault is not StoreFault.NO_BUCKET:
            raise
        raise GridwrightError(replace(error.problems[0], where=url), status=error.status) from error


@contextlib.contextmanager
def _open_repository(
    flags: RepositoryFlags, settings: RepositorySettings, *, looks: bool = False
) -> Iterator[OpenRepository]:
    """The repository that the flags name, opened; see `OpenRepository.open`. Raises GridwrightError."""
    with _of_bucket(settings.bucket_url), _opened(flags, settings, looks=looks) as opened:
        yield opened


@contextlib.contextmanager
def _opened(flags: RepositoryFlags, settings: RepositorySettings, *, looks: bool) -> Iterator[OpenRepository]:
    from gridwright.repository.keys import shown
    from gridwright.repository.release import put_back_left
    from gridwright.repository.settings import OpenRepository
    from gridwright.repository.state_failures import FULL, state_failure
    from gridwright.repository.unfinished import remove_placeholders

    store = _opened_store(flags, settings.bucket_url, settings.endpoint)
    # What was imported so far stays; looking through it again and again takes a fifth of the CPU.
    gc.freeze()
    gc.set_threshold(*_COLLECTION)
    try:
        opened = OpenRepository.open(settings, store, looks=looks)
    except OSError as error:
        raise unopened(settings.directory, "the directory cannot be opened", error) from error
    if opened.known.state.note:
        say(opened.known.state.note)
    try:
        if not looks:
            removed, problems = remove_placeholders(opened)
            if removed:
                say(
                    f"{counted(removed, 'file')} without content here, which gave zeros to readers, had to "
                    "be removed; objects are in the bucket (gridwright repo ls, gridwright repo import)"
                )
            for path, why in (*problems, *put_back_left(opened)):
                say(f"{shown(path)}: {why}")
        yield opened
        opened.known.flush()
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) or error.errno in FULL:
            raise state_failure(error, opened.known.file, beside=[settings.directory]) from error
        raise environment_error(
            f"the repository's files cannot be worked on: {reason_of(error, named=True)}",
            where=str(settings.directory),
        ) from error
    finally:
        with contextlib.suppress(sqlite3.Error, OSError):
            opened.close()


_OF_STORE = ("endpoint", "requester_pays", "requests_per_second")


def _linked_of(flags: RepositoryFlags) -> tuple[GridSpec, LinkedDirectory] | None:
    """What the flags name, where a service carries it; None for all else. Raises GridwrightError."""
    if flags.directory is not None or flags.bucket is not None:
        return None
    from gridwright.spec.linked import linked_directories

    spec = load_placed(flags.grid)
    directories = linked_directories(spec)
    name = flags.name
    if name is None and len({*spec.repositories, *directories}) == 1:
        name = next(iter(directories), None)
    return (spec, directories[name]) if name in directories else None


@contextlib.contextmanager
def _opened_linked(
    flags: RepositoryFlags, spec: GridSpec, directory: LinkedDirectory
) -> Iterator[LinkedRepository]:
    """The repository, with its bucket where it asks for that.

    Raises GridwrightError, also for flags that the service has nothing for.
    """
    from gridwright.providers.provider import Caller, links_of

    repository = spec.repositories.get(directory.name)
    endpoint = None if repository is None else repository.endpoint
    with contextlib.ExitStack() as opened:

        def open_store() -> S3Store:
            return opened.enter_context(
                contextlib.closing(_opened_store(flags, directory.link.bucket, endpoint))
            )

        linked = links_of(spec, directory).linked_repository(spec, directory, open_store, Caller(say))
        if refused := [each for each in _given(flags) if each in linked.refused_flags]:
            raise GridwrightError(
                *(
                    Problem(
                        linked.refused_flags[each].what,
                        where=each,
                        remedy=linked.refused_flags[each].remedy,
                    )
                    for each in refused
                )
            )
        yield linked


def _linked_report(
    verb: str, flags: PathFlags, spec: GridSpec, directory: LinkedDirectory, unread_for_s: float = 0.0
) -> RepositoryReport:
    """What a verb did or would do. Raises GridwrightError, also for flags that the service does not know."""
    paths = below(directory.mounted, flags.paths)
    with _opened_linked(flags, spec, directory) as linked:
        dry_run = bool(getattr(flags, "dry_run", False))
        if verb == "verify":
            read = service_limits(spec, directory, "read") if dry_run else ()
            return linked.verify(paths, read, dry_run=dry_run)
        return _task(verb, linked, paths, unread_for_s, dry_run=dry_run)


def service_limits(spec: GridSpec, directory: LinkedDirectory, way: Operation) -> Sequence[TransferLimit]:
    """What limits the file system when it is read or written, where the model knows it."""
    from gridwright.model.grid import grid_model
    from gridwright.model.node_alone import limits_of_service
    from gridwright.repository.forecast import TransferLimit

    try:
        limits = limits_of_service(grid_model(spec), directory.filesystem)[way]
    except GridwrightError:
        # A grid that cannot be predicted still has a status.
        return ()
    return [TransferLimit(limit.what, limit.bytes_per_s) for limit in limits]


def _task(
    verb: str, linked: LinkedRepository, paths: Sequence[bytes], unread_for_s: float, *, dry_run: bool
) -> RepositoryReport:
    if verb == "export":
        return linked.export(paths, dry_run=dry_run)
    if verb == "import":
        return linked.import_names(paths, dry_run=dry_run)
    return linked.release(paths, unread_for_s, dry_run=dry_run)


def _given(flags: RepositoryFlags) -> Iterator[str]:
    """Flags that say more than which files: services have nothing for some of them."""
    for flag in ("deletions", "prefer", "contents", "restore", "until_free", *_OF_STORE):
        if getattr(flags, flag, None):
            yield f"--{flag.replace('_', '-')}"


repo = plain_app(
    "Move a library's files to object storage and back, compare both, and free space.", no_args_is_help=True
)


def _values_of(flags: PathFlags) -> Mapping[str, Any]:
    """What the flags say, for options. Raises GridwrightError with all that is wrong."""
    reader = Reader()
    return reader.finish(read_flags(flags, reader))


def _values(flags: PathFlags, opened: OpenRepository) -> Mapping[str, Any]:
    """The same, with paths of an opened repository."""
    return {**_values_of(flags), "paths": below(opened.settings.directory, flags.paths)}


def run_export(flags: ExportFlags) -> ExitStatus:
    """Send to the bucket what was created or changed since the last export.

    Example: gridwright repo export archive --dry-run
    """
    flags = named(flags, of_units=True)
    if (linked := _linked_of(flags)) is not None:
        return show(_linked_report("export", flags, *linked), json=flags.json)
    from gridwright.repository.export import ExportOptions, export

    settings = settings_of(flags)
    if flags.changelog is not None:
        settings = replace(settings, changelog=flags.changelog)
    looks = flags.dry_run
    with _open_repository(flags, settings, looks=looks) as opened, _transfer_progress() as progress:
        refuse_ambiguous(flags, opened, asks_bucket=False)
        report = export(opened, options_of(ExportOptions, _values(flags, opened)), progress)
        _timed(opened, report)
    return show(report, json=flags.json)


def run_import(flags: ImportFlags) -> ExitStatus:
    """Make files of what was created or changed in the bucket; with --from, in another file system's tree.

    On a Lustre with an HSM archive names are released files, whose contents come when they are read.

    Example: gridwright repo import archive
    """
    flags = named(flags, of_units=flags.from_ is None)
    if _is_migration(flags):
        return _run_migration(flags)
    if (linked := _linked_of(flags)) is not None:
        return show(_linked_report("import", flags, *linked), json=flags.json)
    if flags.names and flags.contents:
        raise input_error("names alone have no contents", where="--names", remedy="leave out one of both")
    from gridwright.repository.importing import ImportOptions, import_objects

    looks = flags.dry_run
    with _open_repository(flags, settings_of(flags), looks=looks) as opened, _transfer_progress() as progress:
        refuse_ambiguous(flags, opened, asks_bucket=True)
        values = _values(flags, opened)
        report = import_objects(
            opened,
            options_of(ImportOptions, values),
            restore=values["restore"],
            progress=progress,
            ended=_timed,
        )
    return show(report, json=flags.json)


def _timed(opened: OpenRepository, report: RepositoryReport) -> None:
    """Keep how fast a command was; in a dry run, say how long it would take at least."""
    from gridwright.repository.status import estimate, note_rate

    (estimate if report.is_dry_run else note_rate)(opened, report)


def run_release(flags: ReleaseFlags) -> ExitStatus:
    """Free the space of exported files, oldest access first. An import brings them again.

    On a Lustre with an HSM archive names stay as released files; elsewhere repo ls shows them.

    Example: gridwright repo release archive --until-free 20%
    """
    flags = named(flags)
    if (linked := _linked_of(flags)) is not None:
        return show(
            _linked_report("release", flags, *linked, _values_of(flags)["unread_for_s"] or 0.0),
            json=flags.json,
        )
    from gridwright.repository.release import ReleaseOptions, release
    from gridwright.repository.scan import name_unknown

    with _open_repository(flags, settings_of(flags), looks=flags.dry_run) as opened:
        options = options_of(ReleaseOptions, _values(flags, opened))
        report = release(opened, options)
        name_unknown(opened, report, options.paths)
        _timed(opened, report)
    return show(report, json=flags.json)


def run_verify(flags: VerifyFlags) -> ExitStatus:
    """Compare contents of files and objects: by checksums of the store, else by reading both.

    Example: gridwright repo verify archive
    """
    flags = named(flags)
    if (linked := _linked_of(flags)) is not None:
        return show(_linked_report("verify", flags, *linked), json=flags.json)
    from gridwright.repository.verify import plan_verify, verify

    with _open_repository(flags, settings_of(flags), looks=flags.dry_run) as opened:
        look = plan_verify if flags.dry_run else verify
        report = look(opened, below(opened.settings.directory, flags.paths))
        _timed(opened, report)
    return show(report, json=flags.json)


def run_duplicate(flags: DuplicateFlags) -> ExitStatus:
    """Make another file system of the same bucket. What is there already stays.

    Example: gridwright repo duplicate archive --to new-grid.yaml
    """
    from gridwright.repository.importing import ImportOptions, import_objects

    flags = named(flags)
    settings = settings_of(flags)
    if flags.to.is_dir():
        made = replace(settings, directory=flags.to.absolute())
    elif not flags.to.exists() and flags.to.suffix not in {".yaml", ".yml"}:
        remedy = f"mkdir -p {shlex.quote(str(flags.to))}; or name a grid spec"
        raise input_error(f"{flags.to}: no such directory", where="--to", remedy=remedy)
    else:
        made = duplicate_of_grid(load_placed(flags.to), settings)
    if made.directory.resolve() == settings.directory.resolve():
        raise input_error("a file system is no duplicate of itself", where="--to", remedy="name another one")
    with _open_repository(flags, made, looks=flags.dry_run) as opened, _transfer_progress() as progress:
        report = import_objects(opened, ImportOptions(dry_run=flags.dry_run), progress=progress, ended=_timed)
    report.verb = "duplicate"
    return show(report, json=flags.json)


@dataclass(frozen=True, slots=True, kw_only=True)
class LsFlags(PathFlags):
    """The flags of `ls`."""


def _run_ls(flags: LsFlags) -> ExitStatus:
    """List what the bucket has: size, time, and whether the content is here or in the bucket alone.

    Example: gridwright repo ls archive
    """
    flags = named(flags)
    from gridwright.repository.entries import list_entries

    if (linked := _linked_of(flags)) is not None:
        raise input_error(
            "a service carries it, which has all names as files",
            where=linked[1].name,
            remedy=f"list them: ls -l {linked[1].mounted}",
        )
    with _open_repository(flags, settings_of(flags), looks=True) as opened:
        report = opened.report("ls")
        entries = list(list_entries(opened, below(opened.settings.directory, flags.paths), report))
    Output("repo ls", json=flags.json).show(
        LazyResult(
            document=lambda: {
                "repository": report.repository,
                "entries": [entry.document() for entry in entries],
                "notes": report.all_notes,
                "problems": report.failed.document(),
            },
            text=lambda: "\n".join(
                [*(entry.text() for entry in entries), *report.all_notes, *report.failed.lines()]
            ),
        )
    )
    return ExitStatus.DONE if report.is_complete else ExitStatus.MISSED


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashFlags(RepositoryFlags):
    """The flags of `trash`."""

    empty_older_than: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Remove for ever what was moved there longer ago, such as 30d; 0s for all."
        ),
        Reads(Reader.age, "older_than_s"),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, and change nothing.")
    ] = False


def _run_trash(flags: TrashFlags) -> ExitStatus:
    """Show the files that imports have moved to the trash of a library, and remove old ones.

    Example: gridwright repo trash archive --empty-older-than 30d
    """
    from gridwright.repository.keys import shown
    from gridwright.repository.trash import TrashReport, empty_trash, trashed, why_unseen
    from gridwright.repository.walking import renamed_at_top

    reader = Reader()
    older_than_s = reader.finish(read_flags(flags, reader))["older_than_s"]
    settings = settings_of(named(flags))
    if flags.dry_run and older_than_s is None:
        raise input_error("nothing would be removed", where="--dry-run", remedy="add --empty-older-than")
    report = TrashReport(settings.name, is_dry_run=flags.dry_run)
    try:
        with Beneath(settings.directory) as below:
            if older_than_s is not None:
                for files, is_gone in empty_trash(below.root, older_than_s, looks=flags.dry_run):
                    (report.removed if is_gone else report.stayed).append(files)
            report.there = [each for each in trashed(below.root) if each not in report.removed]
            report.of_another = why_unseen(below.root)
            report.elsewhere = [shown(each) for each in renamed_at_top(below.root)]
    except OSError as error:
        raise unopened(settings.directory, "the trash cannot be looked at", error) from error
    Output("repo trash", json=flags.json).show(LazyResult(document=report.document, text=report.text))
    return ExitStatus.MISSED if report.stayed or report.elsewhere or report.of_another else ExitStatus.DONE


_OF_MIGRATIONS = {"verify": "--verify", "cut_over": "--cut-over", "bandwidth": "--bandwidth"}
_OF_BUCKETS = {
    "bucket": "--bucket",
    "endpoint": "--endpoint",
    "requester_pays": "--requester-pays",
    "requests_per_second": "--requests-per-second",
    "deletions": "--deletions",
    "prefer": "--prefer",
    "contents": "--contents",
    "restore": "--restore",
}


def _is_migration(flags: ImportFlags) -> bool:
    """Whether a tree is to be moved in. Raises GridwrightError where flags of both kinds are given."""
    reader = Reader()
    others = _OF_MIGRATIONS if flags.from_ is None else _OF_BUCKETS
    for name, flag in others.items():
        if getattr(flags, name):
            if flags.from_ is None:
                reader.problem("this is for moving a tree in", flag, "add --from DIR")
            else:
                reader.problem("a tree that is moved in with --from has no bucket", flag, "leave it out")
    return bool(reader.finish(flags.from_ is not None))


def _run_migration(flags: ImportFlags) -> ExitStatus:
    """Move it, and print what became of it. Raises GridwrightError."""
    from gridwright.repository.migration.migrate import MigrationOptions
    from gridwright.repository.migration.session import MigrationPlaces, migrate

    reader = Reader()
    values = reader.finish(read_flags(flags, reader))
    name, library = _library(flags)
    source: Path = flags.from_.absolute() if flags.from_ is not None else library
    places = MigrationPlaces(name, source, library, bytes_per_s=values["bytes_per_s"])
    options = options_of(MigrationOptions, {**values, "paths": below(library, flags.paths)})
    with _transfer_progress() as progress:
        report = migrate(places, options, progress)
    return show(report, json=flags.json)


def _library(flags: ImportFlags) -> tuple[str, Path]:
    """The name and the directory that the flags name; no bucket is needed."""
    if flags.directory is not None:
        directory = flags.directory.absolute()
        return flags.name or directory.name, directory
    settings = settings_of(flags)
    return settings.name, settings.directory


class _Part(Protocol):
    """What is shown of one repository."""

    def document(self) -> dict[str, Any]: ...

    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class _Repository:
    """One that is to be looked at."""

    name: str
    directory: str
    bucket_url: str
    look: Callable[[], tuple[_Part, bool]]
    """What is shown of it, and whether it is well. Raises GridwrightError."""


@dataclass(frozen=True, slots=True)
class _Unseen:
    """One that could not be looked at."""

    of: _Repository
    error: GridwrightError

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        names = {"repository": self.of.name, "bucket_url": self.of.bucket_url, "directory": self.of.directory}
        return names | {"errors": [asdict(each) for each in self.error.problems]}

    def text(self) -> str:
        """The result for people."""
        problems = "\n".join(f"error: {naming_spec(each)}" for each in self.error.problems)
        return "\n".join(
            [
                f"{self.of.name}: {self.of.directory} and {self.of.bucket_url}",
                *(f"  {line}" for line in problems.splitlines()),
            ]
        )


def run_status(flags: StatusFlags) -> ExitStatus:
    """Show files and objects: how many, how many differ on which side, names only, and the last export.

    Example: gridwright repo status archive
    """
    flags = named(flags)
    spec = load_placed(flags.grid) if flags.directory is None and flags.bucket is None else None
    repositories = [*_carried(flags, spec), *(() if spec is None else _linked(flags, spec))]
    found = [_looked_at(each, is_only=len(repositories) == 1) for each in repositories]
    Output("repo status", json=flags.json).show(
        LazyResult(
            document=lambda: {"repositories": [{"errors": []} | part.document() for part, _ in found]},
            text=lambda: "\n".join(part.text() for part, _ in found),
        )
    )
    return max((status for _, status in found), default=ExitStatus.DONE)


def _looked_at(repository: _Repository, *, is_only: bool) -> tuple[_Part, ExitStatus]:
    """What is shown of a repository, and the exit status that it asks for; one that fails hides no others."""
    try:
        part, is_well = repository.look()
    except GridwrightError as error:
        if is_only:
            raise
        return _Unseen(repository, error), error.status
    return part, ExitStatus.DONE if is_well else ExitStatus.MISSED


def _carried(flags: StatusFlags, spec: GridSpec | None) -> Iterator[_Repository]:
    """Those that Gridwright carries itself."""
    for each in status_settings(flags, spec):
        look = (
            partial(_use, each.name, each.directory, spec) if flags.hot else partial(_look, flags, spec, each)
        )
        yield _Repository(each.name, str(each.directory), each.bucket_url, look)


def _linked(flags: StatusFlags, spec: GridSpec) -> Iterator[_Repository]:
    """Those that a service carries."""
    for each in _linked_directories(flags, spec):
        look = (
            partial(_use, each.name, each.mounted, spec)
            if flags.hot
            else partial(_look_linked, flags, spec, each)
        )
        yield _Repository(each.name, str(each.mounted), each.link.bucket, look)


def _look(flags: StatusFlags, spec: GridSpec | None, settings: RepositorySettings) -> tuple[_Part, bool]:
    from gridwright.repository.status import repository_status

    with _open_repository(flags, settings, looks=True) as opened:
        status = repository_status(opened, _back(spec, settings.name))
        return status, status.is_well


def _look_linked(flags: StatusFlags, spec: GridSpec, directory: LinkedDirectory) -> tuple[_Part, bool]:
    with _opened_linked(flags, spec, directory) as repository:
        standing = repository.status(service_limits(spec, directory, "write"))
        return standing, standing.is_well


def _linked_directories(flags: StatusFlags, spec: GridSpec) -> list[LinkedDirectory]:
    """Those of the grid that a service carries, or the one that is named, if it is such a one."""
    from gridwright.spec.linked import linked_directories

    return [each for name, each in linked_directories(spec).items() if flags.name in (None, name)]


def _back(spec: GridSpec | None, name: str) -> Sequence[TransferLimit]:
    """What limits a restore by one node, where the grid tells."""
    if spec is None or name not in spec.repositories:
        return ()
    from gridwright.model.grid import grid_model
    from gridwright.model.node_alone import limits_of_one_node
    from gridwright.repository.forecast import TransferLimit

    try:
        limits = limits_of_one_node(grid_model(spec), spec.repositories[name].library)["write"]
    except GridwrightError:
        # A grid that cannot be predicted still has a status.
        return ()
    return [TransferLimit(limit.what, limit.bytes_per_s) for limit in limits]


def _use(name: str, directory: Path, spec: GridSpec | None) -> tuple[_Part, bool]:
    """How much of a repository's files is used, and whether all could be looked at."""
    from gridwright.catalog import load_catalog
    from gridwright.repository.use_report import UseReport, class_costs, use_of_files

    catalog = load_catalog(spec.file.parent if spec is not None and spec.file else None)
    region = (spec.region if spec is not None else None) or "us-east-1"
    try:
        use = use_of_files(directory)
    except OSError as error:
        raise environment_error(
            f"the directory cannot be looked at: {reason_of(error)}",
            where=str(directory),
            remedy="run it where the files are, such as on a node of the grid",
        ) from error
    costs = class_costs(use, lambda item: catalog.services.usd(item, region))
    return UseReport(name, str(directory), region, use, costs), not use.failed.count


@contextlib.contextmanager
def _transfer_progress() -> Iterator[Callable[[int], None]]:
    """A bar of bytes on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _bytes: None
        return
    from rich.progress import DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

    from gridwright.report.terminal.frame import TerminalConsole

    columns = (TextColumn("{task.description}"), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    lock = threading.Lock()
    with Progress(*columns, console=TerminalConsole(stderr=True), transient=True) as bar:
        task = bar.add_task("moved", total=None)

        def moved(count: int) -> None:
            with lock:
                bar.advance(task, count)

        yield moved


for name, run in (
    ("status", verb(run_status)),
    ("export", verb(run_export)),
    ("import", verb(run_import)),
    ("ls", verb(_run_ls)),
    ("release", verb(run_release)),
    ("verify", verb(run_verify)),
    ("duplicate", verb(run_duplicate)),
    ("serve", verb(run_serve)),
    ("trash", verb(_run_trash)),
):
    repo.command(name)(run)
