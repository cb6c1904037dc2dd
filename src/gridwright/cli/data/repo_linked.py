"""Verbs of repositories that a service of the cloud carries, as their flags have them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gridwright.cli.data.repo_flags import (
    ImportFlags,
    PathFlags,
    ReleaseFlags,
    RepositoryFlags,
    StoreFlags,
    SyncFlags,
    below,
    opened_store,
)
from gridwright.cli.spec_file import load_placed
from gridwright.errors import GridwrightError, Problem

if TYPE_CHECKING:
    from gridwright.filesystems.resources import Operation
    from gridwright.providers.linked import LinkedRepository
    from gridwright.repository.forecast import TransferLimit
    from gridwright.repository.settings import RepositoryReport
    from gridwright.spec import GridSpec
    from gridwright.spec.linked import LinkedDirectory


def linked_of(flags: RepositoryFlags) -> tuple[GridSpec, LinkedDirectory] | None:
    """What the flags name, where a service carries it; None for all else. Raises GridwrightError."""
    from gridwright.spec.linked import linked_directories

    if flags.directory is not None or flags.bucket is not None:
        return None
    spec = load_placed(flags.grid)
    found = linked_directories(spec)
    name = flags.name
    if name is None and len({*spec.repositories, *found}) == 1:
        name = next(iter(found), None)
    return (spec, found[name]) if name in found else None


@contextlib.contextmanager
def opened_linked(
    flags: StoreFlags, spec: GridSpec, directory: LinkedDirectory
) -> Iterator[LinkedRepository]:
    """The repository with its bucket. Raises GridwrightError."""
    from gridwright.cli.verbosity import say
    from gridwright.providers import provider_of
    from gridwright.providers.caller import Caller

    repository = spec.repositories.get(directory.name)
    endpoint = None if repository is None else repository.endpoint
    store = opened_store(flags, directory.link.bucket, endpoint)
    try:
        yield provider_of(spec).linked_repository(spec, directory, store, Caller(say))
    finally:
        store.close()


def linked_report(
    verb: str, flags: PathFlags, spec: GridSpec, directory: LinkedDirectory, unread_for_s: float = 0.0
) -> RepositoryReport:
    """What a verb did or would do. Raises GridwrightError, also for flags that the service does not know."""
    if problems := [*_unknown(flags)]:
        raise GridwrightError(*problems)
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
    return [TransferLimit(each.what, each.bytes_per_s) for each in limits]


def _task(
    verb: str, linked: LinkedRepository, paths: Sequence[bytes], unread_for_s: float, *, dry_run: bool
) -> RepositoryReport:
    if verb == "export":
        return linked.export(paths, dry_run=dry_run)
    if verb == "import":
        return linked.import_names(paths, dry_run=dry_run)
    return linked.release(paths, unread_for_s, dry_run=dry_run)


def _unknown(flags: PathFlags) -> Iterator[Problem]:
    """Flags that a service has nothing for, each with what to do instead."""
    if isinstance(flags, SyncFlags) and flags.deletions:
        yield Problem(
            "tasks of the file system take no deletions along",
            where="--deletions",
            remedy="write changed: at-once and deletions: true in the grid spec, then gridwright up",
        )
    if isinstance(flags, SyncFlags) and flags.prefer is not None:
        yield Problem(
            "tasks of the file system do not ask which side wins",
            where="--prefer",
            remedy="leave it out; a bucket with versions keeps what is replaced",
        )
    if isinstance(flags, ImportFlags) and flags.contents:
        yield Problem(
            "tasks of the file system bring names; contents come when a file is read",
            where="--contents",
            remedy="leave it out, and read the files, or run lfs hsm_restore on a node",
        )
    if isinstance(flags, ImportFlags) and flags.restore is not None:
        yield Problem(
            "tasks of the file system restore nothing from archives",
            where="--restore",
            remedy="leave it out, and restore the objects first: aws s3api restore-object",
        )
    if isinstance(flags, ReleaseFlags) and flags.until_free is not None:
        yield Problem(
            "tasks of the file system release by age, and not until so much is free",
            where="--until-free",
            remedy="write --unread-for 30d",
        )
