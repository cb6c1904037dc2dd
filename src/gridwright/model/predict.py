"""Predicted rates of a grid: each library alone, and all together, with what binds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from gridwright.catalog.facts import Doubt
from gridwright.errors import Finding, GridwrightError, Problem
from gridwright.filesystems.resources import OPERATIONS, Operation, Resource, Route, Use
from gridwright.model.doubt import highest, lowest
from gridwright.model.grid import GridModel, price_findings
from gridwright.model.margins import Margin, margin_of
from gridwright.model.missed import missed
from gridwright.model.prediction import (
    Answer,
    Bound,
    Burst,
    LibraryPrediction,
    Prediction,
    Rates,
    Together,
    reaches,
    worst,
)
from gridwright.model.services import services
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
    streams = streams_per_node or model.cores_per_node
    libraries = tuple(_library(model, name, streams) for name in model.libraries)
    together = all_together(model)
    short = tuple(missed(model))
    findings = tuple(unsilenced(_findings(model, short, together), model.spec.silence))
    met = _met(model, libraries, short, together)
    return Prediction(
        model.name,
        model.nodes,
        model.cores,
        streams,
        libraries,
        together,
        model.costs,
        model.usd_per_hour,
        findings,
        met,
        None if met is None else _answer(libraries, short, together),
        tuple(services(model, streams)),
    )


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


def route_chain(model: GridModel, route: Route, streams_per_node: int, burst: bool = False) -> list[Bound]:
    """Every limit of a route for all nodes together, from the tightest on."""
    bounds = []
    for use in route.uses:
        resource = use.resource
        limit = _capacity(model, resource, burst) / use.coefficient
        bounds.append(Bound(resource.name, resource.what, limit, resource.source, resource.nature))
    if math.isfinite(route.stream_bytes_per_s):
        total = route.stream_bytes_per_s * streams_per_node * model.nodes
        what = f"{streams_per_node} streams on each node, each with {route.stream_limit}"
        bounds.append(Bound("streams", what, total, "", "server"))
    return sorted(bounds, key=lambda bound: bound.bytes_per_s)


def _capacity(model: GridModel, resource: Resource, burst: bool) -> float:
    rate = resource.highest_bytes_per_s if burst else resource.bytes_per_s
    return rate * model.nodes if resource.scope == "node" else rate


def _rates(model: GridModel, route: Route, streams: int) -> Rates:
    chain = tuple(route_chain(model, route, streams))
    total = chain[0].bytes_per_s
    return Rates(total, total / model.nodes, total / model.cores, chain, _burst(model, route, streams, total))


def _burst(model: GridModel, route: Route, streams: int, steady: float) -> Burst | None:
    chain = route_chain(model, route, streams, burst=True)
    rate = chain[0].bytes_per_s
    if reaches(steady, rate):
        return None
    short = [
        use
        for use in route.uses
        if not reaches(_capacity(model, use.resource, burst=False) / use.coefficient, rate)
    ]
    lengths = [_lasts(model, use, rate) for use in short]
    known = [seconds for seconds in lengths if seconds is not None]
    # It lasts as long as the first of those that could not pass it steadily.
    return Burst(rate, min(known) if known and len(known) == len(lengths) else None, chain[0])


def _lasts(model: GridModel, use: Use, rate: float) -> float | None:
    """How long a resource passes `rate` for a library: what a full burst would spend, spent more slowly."""
    if use.resource.burst_s is None:
        return None
    steady, full = (_capacity(model, use.resource, burst) for burst in (False, True))
    return use.resource.burst_s * (full - steady) / (rate * use.coefficient - steady)


def _library(model: GridModel, name: str, streams: int) -> LibraryPrediction:
    library = model.libraries[name]
    rates = {operation: _rates(model, model.routes[name][operation], streams) for operation in OPERATIONS}
    required = float(library.requires.bytes_per_s) if library.requires else None
    met = None
    if required is not None:
        met = all(reaches(each.bytes_per_s_per_core, required) for each in rates.values())
    return LibraryPrediction(name, library.filesystem, required, rates, met)


def all_together(model: GridModel) -> Together | None:
    """All libraries with a required rate at once; None where fewer than two have one.

    Each takes up to its required rate, and they share what is short in proportion to these.
    """
    demands: dict[str, float] = {
        name: float(library.requires.bytes_per_s) * model.cores
        for name, library in model.libraries.items()
        if library.requires is not None
    }
    if len(demands) < 2:
        return None
    share: dict[Operation, float] = {}
    low: dict[Operation, float] = {}
    high: dict[Operation, float] = {}
    bound_by: dict[Operation, Bound | None] = {}
    for operation in OPERATIONS:
        routes: dict[str, Route] = {name: model.routes[name][operation] for name in demands}
        share[operation], bound_by[operation] = _shared(model, routes, demands)
        low[operation], _ = _shared(model, routes, demands, lowest)
        high[operation], _ = _shared(model, routes, demands, highest)
    return Together(share, bound_by, peak_factor_of(model.spec), low, high)


def _shared(
    model: GridModel,
    routes: Mapping[str, Route],
    demands: Mapping[str, float],
    band: Callable[[float, Margin, Sequence[Doubt]], float] = lambda rate, _, __: rate,
) -> tuple[float, Bound | None]:
    """The smallest share of its demand that a library gets, and what binds it; None when all are served.

    `band` makes of the capacity of a resource what it may be.
    """
    found = {use.resource.name: use.resource for route in routes.values() for use in route.uses}
    index = {name: number for number, name in enumerate(found)}
    capacities = [
        min(
            band(_capacity(model, resource, burst=False), margin_of(resource.nature), resource.doubts),
            _ENDLESS,
        )
        for resource in found.values()
    ]
    for resource, capacity in zip(found.values(), capacities, strict=True):
        if capacity <= 0:  # What is dead passes nothing, and the solver knows no such limits.
            return 0.0, Bound(resource.name, resource.what, 0.0, resource.source, resource.nature)
    flows = [
        Flow(
            tuple((index[use.resource.name], use.coefficient) for use in routes[name].uses),
            weight=demand,
            cap=demand,
        )
        for name, demand in demands.items()
    ]
    solution = solve(capacities, flows)
    shares = [rate / demand for rate, demand in zip(solution.rates, demands.values(), strict=True)]
    worst = min(range(len(shares)), key=shares.__getitem__)
    binding = solution.bound_by[worst]
    if binding is None:
        return shares[worst], None
    resource = list(found.values())[binding]
    return shares[worst], Bound(
        resource.name, resource.what, capacities[binding], resource.source, resource.nature
    )


def _findings(model: GridModel, short: tuple[Finding, ...], together: Together | None) -> Iterator[Finding]:
    yield from price_findings(model)
    yield from model.doubts
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
