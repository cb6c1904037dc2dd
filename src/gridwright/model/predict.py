"""Predicted rates of a grid: each library alone, and all together, with what binds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gridwright.catalog.facts import Doubt
from gridwright.errors import Finding, GridwrightError, Problem
from gridwright.filesystems.resources import OPERATIONS, Operation, Route, Use
from gridwright.model.alike_nodes import AlikeNodes
from gridwright.model.chains import capacity, group_chain, library_chain
from gridwright.model.doubt import highest, lowest
from gridwright.model.grid import GridModel, price_findings
from gridwright.model.margins import Margin, margin_of
from gridwright.model.missed import missed
from gridwright.model.placed import placed_layouts
from gridwright.model.powered import powered_findings
from gridwright.model.prediction import (
    Answer,
    Bound,
    Burst,
    GroupSize,
    LibraryPrediction,
    Prediction,
    Rates,
    Together,
    reaches,
    worst,
)
from gridwright.model.services import services
from gridwright.model.shared_targets import shared_targets
from gridwright.model.solver import Flow, solve
from gridwright.spec.at_once import peak_factor_of
from gridwright.spec.findings import unsilenced
from gridwright.spec.locate import problem_at

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
                each.name, each.nodes, each.cores_per_node, each.instance.name if each.instance else None
            )
            for each in model.groups
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
    answers = [each.met for each in libraries if each.met is not None]
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
    answers = [each.answer for each in libraries if each.answer is not None]
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
    return min((margin_of("server").low(each.share(operation)) for each in sharing), default=1.0)


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
    found = {use.resource.name: (use.resource, each.group) for each in demands for use in each.route.uses}
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
            tuple((index[use.resource.name], use.coefficient) for use in each.route.uses),
            weight=each.bytes_per_s,
            cap=each.bytes_per_s,
        )
        for each in demands
    ]
    solution = solve(capacities, flows)
    shares = [rate / each.bytes_per_s for rate, each in zip(solution.rates, demands, strict=True)]
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
