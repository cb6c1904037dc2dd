"""Failure domains of a grid: its nodes, and the servers and targets of its file systems, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gridwright.errors import GridwrightError, Problem, nearest
from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import Degradation
from gridwright.filesystems.resources import DeadPart, Sort
from gridwright.model.grid import GridModel

EACH = "each"
"""What `--without` says for one of each instead of a name."""


@dataclass(frozen=True, slots=True)
class FailureDomain:
    """One node, server or target: `name` as people call it, and `filesystem`, None for a node.

    `role` is that of a server or target, or the group of a node.
    """

    name: str
    sort: Sort
    filesystem: str | None
    role: str
    number: int

    @property
    def dead(self) -> DeadPart:
        """It, as its file system knows it."""
        return DeadPart(self.role, self.number)


def failure_domains(model: GridModel) -> Mapping[str, FailureDomain]:
    """Every failure domain by name: oss1, or shared.oss1 where two file systems have one.

    Only file systems of libraries count: nobody misses another one.
    """
    domains: dict[str, list[FailureDomain]] = {}
    for part in _all_parts(model):
        domains.setdefault(_short(part), []).append(part)
        if part.filesystem is not None:
            domains.setdefault(part.name, []).append(part)
    return {name: parts[0] for name, parts in domains.items() if len(parts) == 1}


def representative_domains(model: GridModel) -> list[FailureDomain]:
    """The first server, target and node of each role and group."""
    return [part for part in _all_parts(model) if part.number == 1]


def find_failure_domains(model: GridModel, names: Sequence[str]) -> list[FailureDomain]:
    """The failure domains of these names, each once.

    Raises GridwrightError with every name that the grid does not have.
    """
    known = failure_domains(model)
    problems = [_unknown(name, known) for name in dict.fromkeys(names) if name not in known]
    if problems:
        raise GridwrightError(*problems)
    return list(dict.fromkeys(known[name] for name in names))


def _unknown(name: str, known: Mapping[str, FailureDomain]) -> Problem:
    close = nearest(name, known)
    roles: dict[tuple[str | None, str], list[str]] = {}
    for short, part in known.items():
        if short == _short(part) or _short(part) not in known:
            roles.setdefault((part.filesystem, part.role), []).append(short)
    has = ", ".join(role[0] if len(role) == 1 else f"{role[0]} to {role[-1]}" for role in roles.values())
    return Problem(
        f"the grid has no server, target or node {name!r} of which anything is known",
        "--without",
        remedy=f"{f'the nearest is {close}; ' if close else ''}it has {has}; or say {EACH}",
    )


def _short(part: FailureDomain) -> str:
    return part.name.removeprefix(f"{part.filesystem}.") if part.filesystem else part.name


def _all_parts(model: GridModel) -> Iterator[FailureDomain]:
    used = {library.filesystem for library in model.libraries.values()}
    for name, filesystem in model.spec.filesystems.items():
        kind = kind_of(filesystem)
        if name not in used or not isinstance(kind, Degradation):
            continue
        for group in kind.parts(filesystem, model.contributions[name]):
            for number, short in enumerate(group.names, 1):
                yield FailureDomain(f"{name}.{short}", group.sort, name, group.role, number)
    for name, nodes in model.spec.nodes.items():
        for number, host in enumerate(nodes.node_names(name), 1):
            yield FailureDomain(host, "node", None, name, number)
