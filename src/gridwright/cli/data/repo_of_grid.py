"""Repositories of a grid spec, as verbs work on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.errors import GridwrightError, Problem, input_error, nearest

if TYPE_CHECKING:
    from gridwright.repository.settings import RepositorySettings
    from gridwright.spec import GridSpec


def all_of_grid(spec: GridSpec) -> list[RepositorySettings]:
    """Every repository that Gridwright carries itself. Raises GridwrightError where there is none."""
    own = [name for name in spec.repositories if not spec.is_linked(name)]
    if not own and spec.repositories:
        raise _linked(spec, next(iter(spec.repositories)))
    if not own:
        raise _none(spec)
    return [_settings(spec, name) for name in own]


def one_of_grid(spec: GridSpec, name: str | None) -> RepositorySettings:
    """The repository of that name, or the only one. Raises GridwrightError."""
    known = list(spec.repositories)
    if not known:
        raise _none(spec)
    if name is None and len(known) > 1:
        raise input_error(
            f"grid {spec.name} has {len(known)} repositories",
            where="NAME",
            remedy=f"name {' or '.join(known)}",
        )
    name = known[0] if name is None else name
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near}? " if near and len(known) > 1 else ""
        raise input_error(
            f"grid {spec.name} has no repository {name}",
            where="NAME",
            remedy=f"{hint}name {' or '.join(known)}",
        )
    if spec.is_linked(name):
        raise _linked(spec, name)
    return _settings(spec, name)


def duplicate_of_grid(spec: GridSpec, source: RepositorySettings) -> RepositorySettings:
    """The repository of another grid that has the same bucket. Raises GridwrightError where there is none."""
    same = [name for name, each in spec.repositories.items() if _same_bucket(each.bucket, source.bucket_url)]
    if source.name in same:
        same = [source.name]
    if len(same) == 1:
        return one_of_grid(spec, same[0])
    raise input_error(
        f"grid {spec.name} has {'several repositories' if same else 'no repository'} of {source.bucket_url}",
        where=str(spec.file),
        remedy=f"give one of them the name {source.name}"
        if same
        else f"add repositories: {{{source.name}: {{library: NAME, bucket: {source.bucket_url}}}}} to it",
    )


def _same_bucket(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


def _settings(spec: GridSpec, name: str) -> RepositorySettings:
    from gridwright.repository.settings import RepositorySettings
    from gridwright.repository.status import RECOVERY_POINT_MISSED

    found = spec.repositories[name]
    rpo_s = None if RECOVERY_POINT_MISSED in spec.silence else found.rpo
    return RepositorySettings(
        name,
        spec.repository_directory(name),
        found.bucket,
        endpoint=found.endpoint,
        archive_id=spec.hsm_archive(name),
        rpo_s=rpo_s,
    )


def _none(spec: GridSpec) -> GridwrightError:
    return input_error(
        f"grid {spec.name} has no repositories",
        where=str(spec.file),
        remedy="add repositories: to it, or write --directory DIR --bucket s3://bucket/prefix",
    )


def _linked(spec: GridSpec, name: str) -> GridwrightError:
    filesystem = spec.libraries[spec.repositories[name].library].filesystem
    return GridwrightError(
        Problem(
            f"file system {filesystem} carries repository {name} itself, by an association: what Gridwright "
            "wrote to the bucket would come back as a change",
            where=str(spec.file),
            remedy="have its service do it, such as aws fsx create-data-repository-task",
        )
    )
