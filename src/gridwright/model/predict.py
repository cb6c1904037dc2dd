"""Predicted rates of a grid: each library alone, and all together, with what binds.

What the layout of each library is worth: rates of its streams by how their files happen to lie on OSTs.

Finds what a grid misses beside rates: room, cores, memory, budget, kind of nodes, and what may be lost.

Managed file systems of a grid as a whole: each direction alone, both at once, one client, cost.

Libraries are predicted in one direction at a time, as iotest measures them. Jobs read and write at once, and
services publish less for that than for either alone: a mix is what the resources on both routes let through
when of each byte moved the part `reads` is read and the rest written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.catalog import InstanceType
from gridwright.catalog.facts import Doubt
from gridwright.errors import Finding, GridwrightError, Problem
from gridwright.filesystems.allocation import fullest_and_emptiest, met_in_half, spread
from gridwright.filesystems.layout import ALL, LayoutChoice
from gridwright.filesystems.resources import (
    OPERATIONS,
    Contribution,
    Operation,
    Resource,
    Route,
    ServiceTerms,
    Use,
)
from gridwright.model.chains import Flow, capacity, group_chain, library_chain, solve
from gridwright.model.costs import powered_findings
from gridwright.model.grid import GridModel, price_findings
from gridwright.model.grid_layouts import AlikeNodes, SharedTargets, shared_targets
from gridwright.model.prediction import (
    Answer,
    AtOnce,
    Bound,
    Burst,
    GroupSize,
    LibraryLayout,
    LibraryPrediction,
    Margin,
    MetadataRates,
    MixedRates,
    PlacedRates,
    Prediction,
    PublishedDeviation,
    Rates,
    ServicePrediction,
    ServiceRates,
    Together,
    UnevenSpace,
    highest,
    lowest,
    margin_of,
    reaches,
    worst,
)
from gridwright.spec.findings import unsilenced
from gridwright.spec.load import problem_at
from gridwright.spec.requirements import Availability, Requirements
from gridwright.spec.warnings import peak_factor_of
from gridwright.units import Bytes, format_bytes


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a resource lets through, and what a byte of each direction takes of it."""

    resource: Resource
    bytes_per_s: float
    taken: Mapping[Operation, float]


def services(model: GridModel, streams_per_node: int | None) -> Iterator[ServicePrediction]:
    """What each managed file system of the grid gives, that is known at all."""
    for name, contribution in model.contributions.items():
        if contribution.service is not None and all(
            operation in contribution.routes for operation in OPERATIONS
        ):
            yield _service(model, name, contribution, contribution.service, streams_per_node)


def _service(
    model: GridModel, name: str, contribution: Contribution, terms: ServiceTerms, streams_per_node: int | None
) -> ServicePrediction:
    prices = [cost.usd_per_hour for cost in contribution.costs]
    alone = _of_service(contribution.routes)
    clients = [Clients(group.contributions[name].routes, group.nodes) for group in model.groups]
    each_alone = [_services_rates([replace(client, nodes=1)], terms.reads) for client in clients]
    streams = sum(group.streams(streams_per_node) * group.nodes for group in model.groups)
    return ServicePrediction(
        filesystem=name,
        what=terms.what,
        service=_services_rates([Clients(alone, model.nodes)], terms.reads),
        all_nodes=_services_rates(clients, terms.reads),
        one_client=min(each_alone, key=lambda rates: rates.mixed.bytes_per_s),
        published=_deviation(alone, terms),
        metadata=_metadata(terms, streams),
        usd_per_hour=None if None in prices else sum(usd for usd in prices if usd is not None),
    )


@dataclass(frozen=True, slots=True)
class Clients:
    """So many alike nodes, and their way to a service in each direction."""

    routes: Mapping[Operation, Route]
    nodes: int


def _of_service(routes: Mapping[Operation, Route]) -> dict[Operation, Route]:
    """The same without limits that each node has of its own."""
    return {
        operation: Route(tuple(use for use in route.uses if use.resource.scope == "grid"))
        for operation, route in routes.items()
    }


def _services_rates(clients: Sequence[Clients], reads: float) -> ServiceRates:
    read, write = (mix(clients, part).bytes_per_s for part in (1.0, 0.0))
    return ServiceRates(read, write, mix(clients, reads))


def mix(clients: Sequence[Clients], reads: float) -> MixedRates:
    """The most that these nodes move in both directions when the part `reads` of all bytes is read.

    A resource that a byte read takes `a` of, and a byte written `b`, lets capacity/(reads*a + (1-reads)*b)
    bytes through. The least of what all nodes share binds, or the sum of what each group's own let through.
    """
    parts: dict[Operation, float] = {"read": reads, "write": 1 - reads}

    def passes(cost: _Cost) -> float:
        taken = sum(parts[operation] * cost.taken.get(operation, 0.0) for operation in OPERATIONS)
        return cost.bytes_per_s / taken if taken else float("inf")

    found = [_costs(client) for client in clients]
    limits = [(passes(cost), cost.resource.name) for cost in found[0] if cost.resource.scope == "grid"]
    own = [
        min(
            ((passes(cost), cost.resource.name) for cost in costs if cost.resource.scope == "node"),
            default=None,
        )
        for costs in found
    ]
    known = [each for each in own if each is not None]
    if known and len(known) == len(own):
        limits.append((sum(most for most, _ in known), min(known)[1]))
    total, name = min(limits)
    return MixedRates(reads, total, total * reads, total * (1 - reads), name)


def _costs(clients: Clients) -> list[_Cost]:
    """Every resource on either route, of all nodes together."""
    resources: dict[str, Resource] = {}
    taken: dict[str, dict[Operation, float]] = {}
    for operation, route in clients.routes.items():
        for use in route.uses:
            resource = use.resource
            resources[resource.name] = resource
            of_resource = taken.setdefault(resource.name, {})
            of_resource[operation] = of_resource.get(operation, 0.0) + use.coefficient
    return [
        _Cost(each, each.bytes_per_s * (clients.nodes if each.scope == "node" else 1), taken[name])
        for name, each in resources.items()
    ]


def _deviation(routes: Mapping[Operation, Route], terms: ServiceTerms) -> PublishedDeviation | None:
    """How far the limits of a service, without those of nodes, are from the mix that was published."""
    if (published := terms.published) is None:
        return None
    total = published.read_bytes_per_s + published.write_bytes_per_s
    modelled = mix([Clients(routes, 1)], published.read_bytes_per_s / total)
    return PublishedDeviation(
        published.read_bytes_per_s,
        published.write_bytes_per_s,
        modelled.bytes_per_s / total - 1,
        published.source,
    )


def _metadata(terms: ServiceTerms, streams: int) -> MetadataRates | None:
    """Operations per second: a stream waits for each of its own, and all share what the service takes."""
    latency, most = terms.metadata_latency_s, terms.metadata_per_s
    if latency is None and most is None:
        return None
    of_streams = None if latency is None else streams / latency
    rates = [rate for rate in (of_streams, most) if rate is not None]
    return MetadataRates(latency, None if latency is None else 1 / latency, min(rates))


def missed(model: GridModel) -> Iterator[Finding]:
    """Findings that make a grid miss its requirements, whatever its rates."""
    yield from _capacity_short(model)
    if model.spec.requirements is not None:
        yield from _size(model, model.spec.requirements)
        for instance in {
            group.instance.name: group.instance for group in model.groups if group.instance
        }.values():
            yield from _kind_of_nodes(instance, model.spec.requirements)
        yield from _losses(model, model.spec.requirements.availability)


def _size(model: GridModel, requirements: Requirements) -> Iterator[Finding]:
    if requirements.cores is not None and model.cores < requirements.cores:
        yield Finding(
            "warning",
            "cores-short",
            f"the nodes have {model.cores} physical cores, and {requirements.cores} are required",
            "Add nodes, or choose a larger type",
        )
    for group in model.groups:
        yield from _memory_short(group, requirements)
    if requirements.budget is not None and (model.usd_per_hour or 0) > requirements.budget:
        yield Finding(
            "warning",
            "over-budget",
            f"the grid costs {model.usd_per_hour:.2f} USD/h, the budget is {requirements.budget:.2f} USD/h",
            "Run gridwright plan for the cheapest grid that meets the requirements",
        )


def _memory_short(group: AlikeNodes, requirements: Requirements) -> Iterator[Finding]:
    required, memory = requirements.memory_per_core, group.memory_bytes_per_node
    if required is not None and memory is not None and memory / group.cores_per_node < required:
        yield Finding(
            "warning",
            "memory-short",
            f"each core has {format_bytes(memory / group.cores_per_node)} of memory, {required} is required",
            "Choose a type with more memory per core, such as one of a family r",
        )


def _kind_of_nodes(instance: InstanceType, requirements: Requirements) -> Iterator[Finding]:
    families = requirements.families
    if requirements.architecture not in (None, instance.architecture):
        yield Finding(
            "warning",
            "other-architecture",
            f"{instance.name} is {instance.architecture}, and {requirements.architecture} is required",
            f"Choose a type that is {requirements.architecture}",
        )
    if (families.allow and instance.family not in families.allow) or instance.family in families.forbid:
        yield Finding(
            "warning",
            "family-not-allowed",
            f"{instance.name} is of family {instance.family}, which the requirements do not allow",
            "Choose a type of another family, or change requirements.families",
        )


def _losses(model: GridModel, may: Availability) -> Iterator[Finding]:
    """What a library loses with a server or a node that it must not lose."""
    for name, library in model.libraries.items():
        contribution = model.contributions[library.filesystem]
        if name == "data" and not contribution.outlives_node and not may.lose_data_with_server:
            what = f"library data is on {library.filesystem}, disks of a node: it is lost with the node"
        elif name == "data" and not contribution.outlives_server and not may.lose_data_with_server:
            what = f"library data is on {library.filesystem}: it is lost with one of its servers"
        elif name != "data" and not contribution.outlives_node and not may.lose_work_with_node:
            what = f"library {name} is on {library.filesystem}, disks of a node: it is lost with the node"
        else:
            continue
        yield Finding(
            "warning",
            "not-durable",
            f"{what}, and the requirements do not allow that",
            f"Move library {name} to storage that outlives it, or change requirements.availability",
        )


def _capacity_short(model: GridModel) -> Iterator[Finding]:
    for name, contribution in model.contributions.items():
        required = [
            library.capacity
            for library in model.spec.libraries.values()
            if library.filesystem == name and library.capacity is not None
        ]
        if contribution.capacity_bytes is not None and sum(required) > contribution.capacity_bytes:
            yield Finding(
                "warning",
                "capacity-short",
                f"libraries on {name} need {Bytes(sum(required))}, and it holds "
                f"{format_bytes(contribution.capacity_bytes)}",
                f"Make {name} larger, or move a library",
            )


def placed_layouts(model: GridModel, streams_per_node: int | None) -> dict[str, LibraryLayout]:
    """The layout of every library that has one, with so many streams a node: one per core by default."""
    streams = sum(group.streams(streams_per_node) * group.nodes for group in model.groups)
    sharing = {
        library.library: shared
        for shared in shared_targets(
            model.libraries, model.layouts, model.contributions, model.groups, streams_per_node
        )
        for library in shared.libraries
        if len(shared.libraries) > 1
    }
    found = {}
    for name, choice in model.layouts.items():
        there = model.contributions[model.libraries[name].filesystem]
        placed = tuple(_placed(choice, there, streams)) if there.target_bytes_per_s else ()
        uneven = _uneven(choice, there, streams) if placed else None
        at_once = _at_once(model, name, sharing[name], placed[0]) if name in sharing else None
        found[name] = LibraryLayout(choice, streams, there.targets, placed, uneven, at_once)
    return found


def _at_once(model: GridModel, name: str, shared: SharedTargets, alone: PlacedRates) -> AtOnce:
    own = next(library for library in shared.libraries if library.library == name)
    share = min(shared.smallest_share, 1.0)
    return AtOnce(
        tuple(library.library for library in shared.libraries),
        sum(library.streams for library in shared.libraries),
        share,
        peak_factor_of(model.spec).value,
        min(alone.floor_bytes_per_s, share * own.streams * own.bytes_per_s),
    )


def _uneven(choice: LayoutChoice, there: Contribution, streams: int) -> UnevenSpace | None:
    """How far apart free space is; None where nobody looked, or new files go round all OSTs."""
    ends = fullest_and_emptiest(there.space or ())
    if there.space is None or ends is None:
        return None
    least, most = ends
    stripes = choice.layout.components[-1].stripe_count
    return UnevenSpace(
        least.name,
        least.free_part,
        most.name,
        most.free_part,
        met_in_half(streams, there.space, stripes),
        spread(streams, there.targets, stripes).floor * _whole(there),
    )


def _whole(there: Contribution) -> float:
    """What all targets deliver in the slower direction, in bytes/s."""
    return there.targets * min(there.target_bytes_per_s.values())


def _placed(choice: LayoutChoice, there: Contribution, streams: int) -> Iterator[PlacedRates]:
    whole = _whole(there)
    stripes = choice.layout.components[-1].stripe_count
    stripes = ALL if stripes >= there.targets else stripes
    for each in dict.fromkeys((stripes, 1)):
        shares = spread(streams, there.targets, each, there.space)
        yield PlacedRates(each, shares.floor * whole, shares.median * whole, shares.in_order * whole)


_ENDLESS = 1e18
"""Bytes per second that stand for a capacity without an end: the solver takes finite ones."""


def predict(model: GridModel, streams_per_node: int | None = None) -> Prediction:
    """Predict a grid with this many streams on each node, one per core by default.

    Raises GridwrightError for libraries of which nothing is known.
    """
    if model.unknown:
        raise GridwrightError(*_unknown(model))
    libraries = tuple(_library(model, name, streams_per_node) for name in model.libraries)
    together = all_together(model)
    short = tuple(missed(model))
    findings = tuple(unsilenced(_findings(model, short, together), model.spec.silence))
    met = _met(model, libraries, short, together)
    return Prediction(
        model.name,
        model.nodes,
        model.cores,
        _streams_per_node(model, streams_per_node),
        libraries,
        together,
        model.costs,
        model.usd_per_hour,
        findings,
        met,
        None if met is None else _answer(libraries, short, together),
        tuple(services(model, streams_per_node)),
        tuple(
            GroupSize(
                group.name, group.nodes, group.cores_per_node, group.instance.name if group.instance else None
            )
            for group in model.groups
        ),
        placed_layouts(model, streams_per_node),
    )


def _streams_per_node(model: GridModel, asked: int | None) -> int | None:
    """The number that every node has; None where groups differ."""
    found = {group.streams(asked) for group in model.groups}
    return found.pop() if len(found) == 1 else None


def _unknown(model: GridModel) -> Iterator[Problem]:
    """One problem for each file system of which nothing is known."""
    by_filesystem: dict[str, list[str]] = {}
    for name in model.unknown:
        by_filesystem.setdefault(model.libraries[name].filesystem, []).append(name)
    for filesystem, names in by_filesystem.items():
        yield problem_at(
            model.spec,
            ("filesystems", filesystem),
            f"rates on {filesystem} ({', '.join(names)}) cannot be predicted: {model.unknown[names[0]]}",
            _remedy(model, filesystem),
        )


def _remedy(model: GridModel, filesystem: str) -> str:
    if "delivers" not in type(model.spec.filesystems[filesystem]).model_fields:
        return "Measure it with gridwright iotest, and name the run with --calibrate"
    return (
        f"Add delivers: {{write: 500 MB/s, read: 500 MB/s}} to {filesystem} with what its disks deliver, "
        "or name a run of iotest with --calibrate"
    )


def _met(
    model: GridModel,
    libraries: tuple[LibraryPrediction, ...],
    short: tuple[Finding, ...],
    together: Together | None,
) -> bool | None:
    answers = [library.met for library in libraries if library.met is not None]
    if together is not None:
        answers.append(together.met)
    answers += [False] * len(short)
    requirements = model.spec.requirements
    if all(answers) and requirements and requirements.budget is not None and model.usd_per_hour is None:
        return None
    return all(answers) if answers else None


def _answer(
    libraries: tuple[LibraryPrediction, ...], short: tuple[Finding, ...], together: Together | None
) -> Answer:
    """The answer to all requirements; what is no rate has no margin."""
    answers = [library.answer for library in libraries if library.answer is not None]
    if together is not None:
        answers.append(together.answer)
    return "no" if short else worst(answers)


def _library(model: GridModel, name: str, streams_per_node: int | None) -> LibraryPrediction:
    library = model.libraries[name]
    rates = {operation: _rates(model, name, operation, streams_per_node) for operation in OPERATIONS}
    groups = {
        group.name: {
            operation: _group_rates(model, group, name, operation, streams_per_node)
            for operation in OPERATIONS
        }
        for group in (model.groups if len(model.groups) > 1 else ())
    }
    required = float(library.requires.bytes_per_s) if library.requires else None
    met = None
    if required is not None:
        judged = groups.values() if groups else [rates]
        met = all(reaches(each.bytes_per_s_per_core, required) for found in judged for each in found.values())
    return LibraryPrediction(name, library.filesystem, required, rates, met, groups)


def _rates(model: GridModel, library: str, operation: Operation, streams: int | None) -> Rates:
    """What all nodes get together."""
    steady, burst = (
        library_chain(model, library, operation, streams, burst=burst) for burst in (False, True)
    )
    lasting = None
    if len(model.groups) == 1:
        lasting = _lasting(model.alike, library, operation, burst[0].bytes_per_s)
    return rates_of(model.nodes, model.cores, steady, burst, lasting)


def _group_rates(
    model: GridModel, group: AlikeNodes, library: str, operation: Operation, streams: int | None
) -> Rates:
    """What the nodes of one group get while all nodes are busy."""
    steady, burst = (
        group_chain(model, group, library, operation, streams, burst=burst) for burst in (False, True)
    )
    return rates_of(group.nodes, group.cores, steady, burst, None)


def rates_of(nodes: int, cores: int, steady: list[Bound], burst: list[Bound], lasting: float | None) -> Rates:
    """The rate that these limits let through; `lasting` is how many seconds the burst lasts."""
    total, peak = steady[0].bytes_per_s, burst[0].bytes_per_s
    found = None if reaches(total, peak) else Burst(peak, lasting, burst[0])
    return Rates(total, total / nodes, total / cores, tuple(steady), found)


def _lasting(group: AlikeNodes, library: str, operation: Operation, rate: float) -> float | None:
    """How long `rate` goes through: as long as the first of those that could not pass it steadily."""
    short = [
        use
        for use in group.routes[library][operation].uses
        if not reaches(capacity(group, use.resource, burst=False) / use.coefficient, rate)
    ]
    lengths = [_lasts(group, use, rate) for use in short]
    known = [seconds for seconds in lengths if seconds is not None]
    return min(known) if known and len(known) == len(lengths) else None


def _lasts(group: AlikeNodes, use: Use, rate: float) -> float | None:
    """How long a resource passes `rate` for a library: what a full burst would spend, spent more slowly."""
    if use.resource.burst_s is None:
        return None
    steady, full = (capacity(group, use.resource, burst=burst) for burst in (False, True))
    return use.resource.burst_s * (full - steady) / (rate * use.coefficient - steady)


def all_together(model: GridModel) -> Together | None:
    """All libraries with a required rate at once; None where fewer than two have one.

    Each core takes up to the required rate of each, and they share what is short in proportion to these.
    """
    required: dict[str, float] = {
        name: float(library.requires.bytes_per_s)
        for name, library in model.libraries.items()
        if library.requires is not None
    }
    if len(required) < 2:
        return None
    share: dict[Operation, float] = {}
    low: dict[Operation, float] = {}
    high: dict[Operation, float] = {}
    bound_by: dict[Operation, Bound | None] = {}
    for operation in OPERATIONS:
        demands = [
            _Demand(group, group.routes[name][operation], rate * group.cores)
            for group in model.groups
            for name, rate in required.items()
        ]
        share[operation], bound_by[operation] = _shared(demands)
        least, _ = _shared(demands, lowest)
        low[operation] = min(least, _placed_share(model, operation))
        high[operation], _ = _shared(demands, highest)
    return Together(share, bound_by, peak_factor_of(model.spec), low, high)


def _placed_share(model: GridModel, operation: Operation) -> float:
    """The least part of what libraries require that targets carry in 95 % of placements of large files."""
    sharing = shared_targets(model.libraries, model.layouts, model.contributions, model.groups)
    return min((margin_of("server").low(targets.share(operation)) for targets in sharing), default=1.0)


@dataclass(frozen=True, slots=True)
class _Demand:
    """What the nodes of a group ask of a library, in bytes/s."""

    group: AlikeNodes
    route: Route
    bytes_per_s: float


def _shared(
    demands: Sequence[_Demand],
    band: Callable[[float, Margin, Sequence[Doubt]], float] = lambda rate, _, __: rate,
) -> tuple[float, Bound | None]:
    """The smallest share of its demand that a library gets, and what binds it; None when all are served.

    `band` makes of the capacity of a resource what it may be.
    """
    found = {
        use.resource.name: (use.resource, demand.group) for demand in demands for use in demand.route.uses
    }
    resources = [resource for resource, _ in found.values()]
    index = {name: number for number, name in enumerate(found)}
    capacities = [
        min(
            band(capacity(group, resource, burst=False), margin_of(resource.nature), resource.doubts),
            _ENDLESS,
        )
        for resource, group in found.values()
    ]
    for resource, most in zip(resources, capacities, strict=True):
        if most <= 0:  # What is dead passes nothing, and the solver knows no such limits.
            return 0.0, Bound(resource.name, resource.what, 0.0, resource.source, resource.nature)
    flows = [
        Flow(
            tuple((index[use.resource.name], use.coefficient) for use in demand.route.uses),
            weight=demand.bytes_per_s,
            cap=demand.bytes_per_s,
        )
        for demand in demands
    ]
    solution = solve(capacities, flows)
    shares = [rate / demand.bytes_per_s for rate, demand in zip(solution.rates, demands, strict=True)]
    worst = min(range(len(shares)), key=shares.__getitem__)
    binding = solution.bound_by[worst]
    if binding is None:
        return shares[worst], None
    resource = resources[binding]
    return shares[worst], Bound(
        resource.name, resource.what, capacities[binding], resource.source, resource.nature
    )


def _findings(model: GridModel, short: tuple[Finding, ...], together: Together | None) -> Iterator[Finding]:
    yield from price_findings(model)
    for contribution in model.contributions.values():
        yield from contribution.findings
    yield from model.doubts
    yield from powered_findings(model)
    yield from short
    if together is not None and not together.met:
        worst = min(OPERATIONS, key=lambda operation: together.share[operation])
        bound = together.bound_by[worst]
        yield Finding(
            "warning",
            "short-together",
            f"with all libraries busy at once, {worst}s get {together.share[worst]:.0%} of what they "
            f"require, and {together.required_share:.0%} must be there ({together.required_share_source}); "
            f"{bound.what if bound else 'nothing'} binds",
            "Widen what binds, or move a library to disks of its own",
        )
