"""Verbs of repositories that a service of the cloud carries, as their flags have them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gridwright.cli.data.repo_flags import PathFlags, RepositoryFlags, below
from gridwright.cli.data.repo_opening import opened_store
from gridwright.cli.spec_file import load_placed
from gridwright.errors import GridwrightError, Problem

if TYPE_CHECKING:
    from gridwright.filesystems.resources import Operation
    from gridwright.providers.provider import LinkedRepository
    from gridwright.repository.forecast import TransferLimit
    from gridwright.repository.s3.s3_store import S3Store
    from gridwright.repository.settings import RepositoryReport
    from gridwright.spec import GridSpec
    from gridwright.spec.linked import LinkedDirectory

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
    from gridwright.cli.verbosity import say
    from gridwright.providers.provider import Caller, links_of

    repository = spec.repositories.get(directory.name)
    endpoint = None if repository is None else repository.endpoint
    with contextlib.ExitStack() as opened:

        def open_store() -> S3Store:
            return opened.enter_context(
                contextlib.closing(opened_store(flags, directory.link.bucket, endpoint))
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
