"""A repository and its store, opened for a command, with what a killed command or an older release left.

One that a service of the cloud carries is not opened: its verbs, as flags have them, are below.
"""

from __future__ import annotations

import contextlib
import gc
import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.data.repo_flags import PathFlags, RepositoryFlags, below
from gridwright.cli.spec_file import load_placed
from gridwright.cli.verbosity import say
from gridwright.errors import GridwrightError, Problem, environment_error, input_error
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
    from gridwright.repository.pace import Pace
    from gridwright.repository.s3.connection import BucketLocation, connect
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
def open_repository(
    flags: RepositoryFlags, settings: RepositorySettings, *, looks: bool = False
) -> Iterator[OpenRepository]:
    """The repository that the flags name, opened; see `OpenRepository.open`. Raises GridwrightError."""
    with _of_bucket(settings.bucket_url), _opened(flags, settings, looks=looks) as opened:
        yield opened


@contextlib.contextmanager
def _opened(flags: RepositoryFlags, settings: RepositorySettings, *, looks: bool) -> Iterator[OpenRepository]:
    from gridwright.repository.aside import put_back_left
    from gridwright.repository.keys import shown
    from gridwright.repository.placeholders import remove_placeholders
    from gridwright.repository.settings import OpenRepository
    from gridwright.repository.state_failures import FULL, state_failure

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


def linked_of(flags: RepositoryFlags) -> tuple[GridSpec, LinkedDirectory] | None:
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
def opened_linked(
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


def linked_report(
    verb: str, flags: PathFlags, spec: GridSpec, directory: LinkedDirectory, unread_for_s: float = 0.0
) -> RepositoryReport:
    """What a verb did or would do. Raises GridwrightError, also for flags that the service does not know."""
    paths = below(directory.mounted, flags.paths)
    with opened_linked(flags, spec, directory) as linked:
        dry_run = bool(getattr(flags, "dry_run", False))
        if verb == "verify":
            read = service_limits(spec, directory, "read") if dry_run else ()
            return linked.verify(paths, read, dry_run=dry_run)
        return _task(verb, linked, paths, unread_for_s, dry_run=dry_run)


def service_limits(spec: GridSpec, directory: LinkedDirectory, way: Operation) -> Sequence[TransferLimit]:
    """What limits the file system when it is read or written, where the model knows it."""
    from gridwright.model.grid import grid_model
    from gridwright.model.service_alone import limits_of_service
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
