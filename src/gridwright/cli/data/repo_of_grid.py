"""Repositories of a grid spec, as verbs work on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.errors import GridwrightError, Problem, environment_error, input_error, nearest

if TYPE_CHECKING:
    from gridwright.repository.settings import RepositorySettings
    from gridwright.setup.services import ServedDirectory
    from gridwright.spec import GridSpec


def all_of_grid(spec: GridSpec, only: str | None = None) -> list[RepositorySettings]:
    """Every repository that Gridwright carries itself, or the one of that name, if it is such a one.

    Raises GridwrightError where the grid has none, or none of that name.
    """
    known = _known(spec)
    names = known if only is None else [_chosen(spec, known, only)]
    return [_settings(spec, name) for name in names if name in spec.repositories and not spec.is_linked(name)]


def refused_deletions(spec: GridSpec) -> dict[str, list[tuple[str, str]]]:
    """Of each repository whose state this machine has: commands that refused a mass deletion, and why."""
    from gridwright.repository.deletions import refusals
    from gridwright.repository.state_directory import facts_of

    facts = {
        name: facts_of(spec.repository_directory(name), spec.repositories[name].bucket)
        for name in spec.repositories
        if not spec.is_linked(name)
    }
    return {name: refusals(fact.get) for name, fact in facts.items() if fact is not None}


def one_of_grid(spec: GridSpec, name: str | None) -> RepositorySettings:
    """The repository of that name, or the only one. Raises GridwrightError."""
    from gridwright.spec.linked import linked_directories

    linked, name = linked_directories(spec), _chosen(spec, _known(spec), name)
    if name in linked:
        raise _linked(spec, name, linked[name].filesystem)
    return _settings(spec, name)


def _known(spec: GridSpec) -> list[str]:
    """The names of all repositories of a grid. Raises GridwrightError where it has none."""
    from gridwright.spec.linked import linked_directories

    if known := list(dict.fromkeys([*spec.repositories, *linked_directories(spec)])):
        return known
    raise input_error(
        f"grid {spec.name} has no repositories",
        where=str(spec.file),
        remedy="add repositories: to it, or write --directory DIR --bucket s3://bucket/prefix",
    )


def _chosen(spec: GridSpec, known: Sequence[str], name: str | None) -> str:
    """The name out of those known, or the only one. Raises GridwrightError."""
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
    return name


def served_with(spec: GridSpec, name: str | None) -> tuple[str, list[ServedDirectory]]:
    """The Lustre of a repository, or the only one, and all repositories of it, since one agent has them all.

    Raises GridwrightError.
    """
    from gridwright.setup.services import served_directories

    by_lustre = served_directories(spec)
    if name is not None or len(by_lustre) != 1:
        settings = one_of_grid(spec, name)
        by_lustre = {each: served for each, served in by_lustre.items() if settings.name in served}
        if not by_lustre:
            raise nothing_holds_back(settings.directory)
    ((filesystem, served),) = by_lustre.items()
    return filesystem, [*served.values()]


def nothing_holds_back(directory: Path) -> GridwrightError:
    """The error of who would serve what is no Lustre with an HSM archive."""
    return environment_error(
        "nothing there holds back who reads a file whose content is not here: only Lustre's HSM does",
        where=str(directory),
        remedy="bring contents beforehand: gridwright repo import",
    )


def duplicate_of_grid(spec: GridSpec, source: RepositorySettings) -> RepositorySettings:
    """The repository of another grid that has the same bucket. Raises GridwrightError where there is none."""
    same = [
        name
        for name, repository in spec.repositories.items()
        if _same_bucket(repository.bucket, source.bucket_url)
    ]
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
    from gridwright.spec.linked import changelog_user, users_file

    found = spec.repositories[name]
    rpo_s = None if RECOVERY_POINT_MISSED in spec.silence else found.rpo
    return RepositorySettings(
        name,
        spec.repository_directory(name),
        found.bucket,
        endpoint=found.endpoint,
        archive_id=spec.hsm_archive(name),
        changelog=Path(users_file(name)) if changelog_user(spec, name) else None,
        rpo_s=rpo_s,
        has_timer=found.export.changed.is_timed,
        ids=found.ids,
        silence=tuple(spec.silence),
    )


def _linked(spec: GridSpec, name: str, filesystem: str) -> GridwrightError:
    return GridwrightError(
        Problem(
            f"file system {filesystem} carries repository {name} itself, and knows nothing of this verb",
            where=str(spec.file),
            remedy="another file system of the same bucket is a grid spec with the same bucket, made with "
            "gridwright up; gridwright repo import brings what is in the bucket",
        )
    )
