"""Predicts a degraded grid: rates and files while failure domains of it are dead, and if they suffice.

Failure domains are its nodes, and the servers and targets of its file systems, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.errors import GridwrightError, Problem, nearest
from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import Degradation
from gridwright.filesystems.resources import (
    OPERATIONS,
    Contribution,
    DeadPart,
    DegradedRates,
    Fate,
    Operation,
    Resource,
    Route,
    Sort,
)
from gridwright.model.grid import GridModel
from gridwright.model.predict import predict
from gridwright.model.prediction import LibraryPrediction, Prediction
from gridwright.spec.requirements import Availability

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


def _representative_domains(model: GridModel) -> list[FailureDomain]:
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


@dataclass(frozen=True, slots=True)
class DegradedRate:
    """A library's rate in one direction, in bytes/s: in all, and of each core that is left.

    `part` is what is left of the whole grid's rate per core, None where that was nothing already.
    `bound_by` is empty where nothing is left.
    """

    bytes_per_s: float
    bytes_per_s_per_core: float
    part: float | None
    bound_by: str


@dataclass(frozen=True, slots=True)
class DegradedLibrary:
    """A library without the dead parts.

    `files` is what becomes of those that a dead part holds, `files_part` how many of all its files they are
    (0 to 1). `met` is whether the rates that are left reach what is required, `holds` whether its files
    do, too, as far as the requirements ask; None where nothing is required.
    """

    library: str
    filesystem: str
    files: Fate
    files_part: float
    requires_bytes_per_s_per_core: float | None
    rates: Mapping[Operation, DegradedRate]
    met: bool | None
    holds: bool | None


@dataclass(frozen=True, slots=True)
class DegradedGrid:
    """A grid without some of its parts: `why` says in sentences what that means.

    `holds` is whether all requirements still hold, those of rates, files, cores and room; None where
    there are none.
    """

    without: tuple[str, ...]
    sort: str
    nodes: int
    cores: int
    libraries: tuple[DegradedLibrary, ...]
    holds: bool | None
    why: tuple[str, ...]


def single_failures(model: GridModel, streams_per_node: int | None = None) -> list[DegradedGrid]:
    """Predict every single failure: of one server and target of each role, and of one node of each group."""
    return [degraded_grid(model, [part], streams_per_node) for part in _representative_domains(model)]


def degraded_grid(
    model: GridModel, dead: Sequence[FailureDomain], streams_per_node: int | None = None
) -> DegradedGrid:
    """Predict the grid while these parts are dead, until something is mended.

    Rates are those of what can still be reached, shared by the nodes that are left. Raises GridwrightError
    for libraries of which nothing is known.
    """
    whole = predict(model, streams_per_node)
    remains = _degraded_file_systems(model, dead)
    nodes = {
        group.name: group.nodes - sum(part.sort == "node" and part.role == group.name for part in dead)
        for group in model.groups
    }
    lost = model.nodes - sum(nodes.values())
    names = tuple(part.name for part in dead)
    sort = "" if len({part.sort for part in dead}) > 1 else dead[0].sort
    left = predict(_reduced(model, remains, nodes), streams_per_node) if any(nodes.values()) else None
    fates = {name: _fate(model, name, remains, lost) for name in model.spec.filesystems}
    libraries = tuple(
        _library(
            model,
            library,
            left,
            fates[library.filesystem][0],
            _files_part(model, library, dead, fates[library.filesystem][1]),
            nodes_died=lost > 0,
        )
        for library in whole.libraries
    )
    return DegradedGrid(
        names,
        sort,
        model.nodes - lost,
        sum(nodes[group.name] * group.cores_per_node for group in model.groups),
        libraries,
        _holds(whole, left, libraries),
        tuple(_why(fates, left, nothing_left=any(rates.rate_part == 0 for rates in remains.values()))),
    )


def _files_part(
    model: GridModel, library: LibraryPrediction, dead: Sequence[FailureDomain], of_filesystem: float
) -> float:
    """How many of a library's files are touched: by its own layout, where it has one."""
    if library.library not in model.layouts:
        return of_filesystem
    stripes = model.layouts[library.library].layout.components[-1].stripe_count
    there = model.contributions[library.filesystem]
    own = {**model.contributions, library.filesystem: replace(there, stripes=stripes)}
    remains = _degraded_file_systems(replace(model, contributions=own), dead)
    return remains[library.filesystem].files_part if library.filesystem in remains else of_filesystem


def _degraded_file_systems(model: GridModel, dead: Sequence[FailureDomain]) -> dict[str, DegradedRates]:
    """File systems with dead parts, and what each reports of its degraded state."""
    domains: dict[str, list[FailureDomain]] = {}
    for part in dead:
        if part.filesystem is not None:
            domains.setdefault(part.filesystem, []).append(part)
    return {
        name: kind.without(filesystem, model.contributions[name], [each.dead for each in domains[name]])
        for name, filesystem in model.spec.filesystems.items()
        if name in domains and isinstance(kind := kind_of(filesystem), Degradation)
    }


def _reduced(model: GridModel, remains: Mapping[str, DegradedRates], nodes: Mapping[str, int]) -> GridModel:
    """The grid with fewer nodes, and with file systems that deliver and hold a part of what they did.

    What its nodes bring stays as it is for each of them; the bill stays, as what is dead is replaced.
    """
    parts = {name: rates.rate_part for name, rates in remains.items()}
    rooms = {name: rates.room for name, rates in remains.items()}
    contributions = {name: _smaller(model, name, rooms.get(name, 1.0), nodes) for name in model.contributions}
    groups = [
        replace(
            group,
            nodes=nodes[group.name],
            contributions={
                name: replace(contribution, routes=_all_narrowed(contribution.routes, parts.get(name, 1.0)))
                for name, contribution in group.contributions.items()
            },
            # Not those of its file systems: a run may have measured some of them.
            routes={
                name: _all_narrowed(route, parts.get(model.libraries[name].filesystem, 1.0))
                for name, route in group.routes.items()
            },
        )
        for group in model.groups
        if nodes[group.name]
    ]
    return replace(model, groups=tuple(groups), contributions=contributions)


def _smaller(model: GridModel, name: str, part: float, nodes: Mapping[str, int]) -> Contribution:
    """What a file system brings, with the room that is left."""
    contribution = model.contributions[name]
    if contribution.capacity_bytes is None:
        return contribution
    if contribution.outlives_node:
        return replace(contribution, capacity_bytes=int(contribution.capacity_bytes * part))
    own = sum(
        (group.contributions[name].capacity_bytes or 0) * nodes[group.name] / group.nodes
        for group in model.groups
    )
    return replace(contribution, capacity_bytes=int(own * part))


def _all_narrowed(routes: Mapping[Operation, Route], part: float) -> dict[Operation, Route]:
    return {operation: _narrowed(route, part) for operation, route in routes.items()}


def _narrowed(route: Route, part: float) -> Route:
    def narrowed(resource: Resource) -> Resource:
        burst = resource.burst_bytes_per_s
        return replace(
            resource,
            bytes_per_s=resource.bytes_per_s * part,
            burst_bytes_per_s=None if burst is None else burst * part,
        )

    if part == 1:
        return route
    uses = (
        replace(use, resource=narrowed(use.resource)) if use.resource.scope == "grid" else use
        for use in route.uses
    )
    return replace(route, uses=tuple(uses))


def _fate(
    model: GridModel, name: str, remains: Mapping[str, DegradedRates], nodes_dead: int
) -> tuple[Fate, float, str]:
    """What becomes of the files of a file system, how many of them, and why."""
    if name in remains:
        rates = remains[name]
        return rates.fate, rates.files_part, rates.words
    if nodes_dead and model.spec.filesystems[name].is_node_local:
        part = nodes_dead / model.nodes
        if model.contributions[name].outlives_node:
            return "unavailable", part, "the files on its volumes wait until a node has them again"
        return "lost", part, "the files on its own disks are lost with the node"
    return "kept", 0.0, ""


def _library(
    model: GridModel,
    whole: LibraryPrediction,
    left: Prediction | None,
    fate: Fate,
    files_part: float,
    *,
    nodes_died: bool,
) -> DegradedLibrary:
    now = (
        None
        if left is None
        else next(library for library in left.libraries if library.library == whole.library)
    )
    rates = {operation: _degraded_rate(whole, now, operation) for operation in OPERATIONS}
    met = whole.met if whole.met is None else now is not None and now.met is True
    may = model.spec.requirements.availability if model.spec.requirements else Availability()
    allowed = fate == "kept" or (fate == "lost" and _may_be_lost(whole.library, may, nodes_died=nodes_died))
    return DegradedLibrary(
        whole.library,
        whole.filesystem,
        fate,
        files_part,
        whole.requires_bytes_per_s_per_core,
        rates,
        met,
        None if met is None else met and allowed,
    )


def _may_be_lost(library: str, may: Availability, *, nodes_died: bool) -> bool:
    """Whether the requirements let a library lose files for good, by the rule that `missed` goes by."""
    if library == "data":
        return may.lose_data_with_server
    return may.lose_work_with_node or not nodes_died


def _degraded_rate(
    whole: LibraryPrediction, now: LibraryPrediction | None, operation: Operation
) -> DegradedRate:
    before = whole.rates[operation].bytes_per_s_per_core
    if now is None:
        return DegradedRate(0.0, 0.0, 0.0 if before else None, "")
    rates = now.rates[operation]
    part = rates.bytes_per_s_per_core / before if before else None
    bound = rates.bound_by.resource if rates.bytes_per_s else ""
    return DegradedRate(rates.bytes_per_s, rates.bytes_per_s_per_core, part, bound)


def _holds(whole: Prediction, left: Prediction | None, libraries: Sequence[DegradedLibrary]) -> bool | None:
    answers = [library.holds for library in libraries if library.holds is not None]
    if left is None or left.met is False:
        return None if whole.met is None and not answers else False
    return all(answers) if answers or left.met is not None else None


def _why(
    fates: Mapping[str, tuple[Fate, float, str]], left: Prediction | None, *, nothing_left: bool
) -> list[str]:
    """What happens to each file system, and what the grid then misses beside the rate of a library alone.

    Where nothing is left of a file system, its room and its share with others need no words.
    """
    reasons = [f"{name}: {words}" for name, (_, _, words) in fates.items() if words]
    if left is None:
        return [*reasons, "no node is left to run jobs"]
    told = {"cores-short"} if nothing_left else {"cores-short", "capacity-short", "short-together"}
    return reasons + [finding.text for finding in left.findings if finding.name in told]
