"""Which input of a prediction moves its answer most, and how far the present bottleneck may grow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gridwright.filesystems.resources import OPERATIONS, Operation, Resource, Route
from gridwright.model.chains import group_chain, library_chain
from gridwright.model.grid import GridModel
from gridwright.model.predict import all_together, predict
from gridwright.model.prediction import Together

Factor = Callable[[Resource], float]
InputUnit = Literal["bytes/s", "nodes", "cores"]
_MOST_GROWTH = 1e4
"""What grows by more than this is taken to bind nowhere any more."""
_STEPS = 30


@dataclass(frozen=True, slots=True)
class LibraryEffect:
    """What an input does to a library's rate per core in one direction.

    `less` and `more` are the changes as parts of the rate, with the input that much smaller and larger;
    elasticities are logarithms of the rate's factor over that of the input: 1 is in proportion, 0 is nothing.
    """

    library: str
    operation: Operation
    less: float
    more: float
    elasticity_less: float
    elasticity_more: float


@dataclass(frozen=True, slots=True)
class InputEffect:
    """An input of the prediction, and what it moves.

    `headroom_less` and `headroom_more` are the grid's headroom with it smaller and larger: the least ratio of
    what is predicted to what is required; None where nothing is.
    """

    input: str
    what: str
    value: float
    unit: InputUnit
    source: str
    effects: tuple[LibraryEffect, ...]
    headroom_less: float | None
    headroom_more: float | None

    @property
    def strongest(self) -> float:
        """The largest change of any library's rate."""
        return max((max(abs(effect.less), abs(effect.more)) for effect in self.effects), default=0.0)


@dataclass(frozen=True, slots=True)
class NextBottleneck:
    """How far what binds may grow before something else does, as a factor of its capacity.

    `factor` is None where nothing else would bind. For all libraries at once `library` is None, and
    `next` is None where all of what is required is then served.
    """

    library: str | None
    operation: Operation
    bound_by: str
    factor: float | None
    next: str | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Inputs with the one first that moves the answer most, each changed by the part `change`."""

    grid: str
    change: float
    headroom: float | None
    inputs: tuple[InputEffect, ...]
    next_bottlenecks: tuple[NextBottleneck, ...]


@dataclass(frozen=True, slots=True)
class _Input:
    """An input: what a larger one, by a factor, does to each resource and to the limit of a stream."""

    name: str
    what: str
    value: float
    unit: InputUnit
    source: str
    resource_factor: Callable[[float, Resource], float]
    stream_factor: Callable[[float], float]


def sensitivity(model: GridModel, change: float, streams_per_node: int | None = None) -> Sensitivity:
    """Change every input by the part `change`, up and down, one after the other.

    Raises GridwrightError for libraries of which nothing is known.
    """
    predict(model, streams_per_node)
    streams = streams_per_node
    inputs = [
        _effect(model, each, change, streams) for each in _inputs(model, fixed_streams=bool(streams_per_node))
    ]
    headroom = _headroom(model, streams)
    inputs.sort(key=lambda each: (-_moves(each, headroom), -each.strongest, each.input))
    following = (*_next_alone(model, streams), *_next_together(model))
    return Sensitivity(model.name, change, headroom, tuple(inputs), following)


def _inputs(model: GridModel, *, fixed_streams: bool) -> Iterator[_Input]:
    """Every capacity on the way of a library, the limit of a stream, and the number of nodes and cores."""
    resources: dict[str, Resource] = {}
    for route in _all_routes(model):
        for use in route.uses:
            resources.setdefault(use.resource.name, use.resource)
    for name, resource in resources.items():
        yield _Input(
            name,
            resource.what,
            resource.bytes_per_s,
            "bytes/s",
            resource.source,
            lambda factor, each, name=name: factor if each.name == name else 1.0,  # type: ignore[misc]
            lambda factor: 1.0,
        )
    limited = [route for route in _all_routes(model) if math.isfinite(route.stream_bytes_per_s)]
    if limited:
        tightest = min(limited, key=lambda route: route.stream_bytes_per_s)
        yield _Input(
            "stream",
            f"the limit of each stream: {tightest.stream_limit}",
            tightest.stream_bytes_per_s,
            "bytes/s",
            "",
            lambda factor, each: 1.0,
            lambda factor: factor,
        )
    # More nodes share what all of them share; each core of a wider node has less of all, too.
    yield _Input(
        "nodes",
        "nodes that run jobs",
        model.nodes,
        "nodes",
        "the grid spec",
        lambda factor, each: 1 / factor if each.scope == "grid" else 1.0,
        lambda factor: 1.0,
    )
    yield _Input(
        "cores-per-node",
        "physical cores of each node",
        model.cores / model.nodes,
        "cores",
        "; ".join(dict.fromkeys(str(group.instance.source) for group in model.groups if group.instance))
        or "the grid spec",
        lambda factor, each: 1 / factor,
        # With a stream on each core, wider nodes have more streams.
        lambda factor: 1 / factor if fixed_streams else 1.0,
    )


def _all_routes(model: GridModel) -> Iterator[Route]:
    for group in model.groups:
        for routes in group.routes.values():
            yield from routes.values()


def _scaled(model: GridModel, factor: Factor, stream: float = 1.0) -> GridModel:
    """The same nodes and cores, with every resource at its own factor."""

    def scaled(route: Route) -> Route:
        uses = tuple(
            replace(
                use,
                resource=replace(use.resource, bytes_per_s=use.resource.bytes_per_s * factor(use.resource)),
            )
            for use in route.uses
        )
        return replace(route, uses=uses, stream_bytes_per_s=route.stream_bytes_per_s * stream)

    groups = [
        replace(
            group,
            routes={
                name: {operation: scaled(route) for operation, route in route.items()}
                for name, route in group.routes.items()
            },
        )
        for group in model.groups
    ]
    return replace(model, groups=tuple(groups))


def _rates(model: GridModel, streams: int | None) -> Mapping[tuple[str, Operation], float]:
    """The rate per core of each library in each direction, in bytes/s."""
    return {
        (name, operation): library_chain(model, name, operation, streams)[0].bytes_per_s / model.cores
        for name in model.libraries
        for operation in OPERATIONS
    }


def _least_rates(model: GridModel, streams: int | None) -> Mapping[tuple[str, Operation], float]:
    """The same of the group of nodes whose cores get least."""
    if len(model.groups) == 1:
        return _rates(model, streams)
    return {
        (name, operation): min(
            group_chain(model, group, name, operation, streams)[0].bytes_per_s / group.cores
            for group in model.groups
        )
        for name in model.libraries
        for operation in OPERATIONS
    }


def _headroom(model: GridModel, streams: int | None) -> float | None:
    """The least ratio of what is predicted to what is required, libraries alone and together."""
    ratios = [
        rate / float(required.bytes_per_s)
        for (name, _), rate in _least_rates(model, streams).items()
        if (required := model.libraries[name].requires) is not None
    ]
    together = all_together(model)
    if together is not None:
        ratios += [part / together.required_share for part in together.share.values()]
    return min(ratios, default=None)


def _effect(model: GridModel, of: _Input, change: float, streams: int | None) -> InputEffect:
    smaller, larger = (
        _scaled(model, lambda each, by=by: of.resource_factor(by, each), of.stream_factor(by))  # type: ignore[misc]
        for by in (1 - change, 1 + change)
    )
    before, less, more = (_rates(each, streams) for each in (model, smaller, larger))
    effects = tuple(
        LibraryEffect(
            library,
            operation,
            less[library, operation] / rate - 1,
            more[library, operation] / rate - 1,
            math.log(less[library, operation] / rate) / math.log(1 - change),
            math.log(more[library, operation] / rate) / math.log(1 + change),
        )
        for (library, operation), rate in before.items()
    )
    return InputEffect(
        of.name,
        of.what,
        of.value,
        of.unit,
        of.source,
        effects,
        _headroom(smaller, streams),
        _headroom(larger, streams),
    )


def _moves(of: InputEffect, headroom: float | None) -> float:
    """How far an input moves the headroom either way, as a part of it."""
    if headroom is None or of.headroom_less is None or of.headroom_more is None:
        return 0.0
    moved = max(abs(of.headroom_less - headroom), abs(of.headroom_more - headroom)) / headroom
    return moved if moved > 1e-9 else 0.0


def _next_alone(model: GridModel, streams: int | None) -> Iterator[NextBottleneck]:
    for name in model.libraries:
        for operation in OPERATIONS:
            chain = library_chain(model, name, operation, streams)
            following = chain[1] if len(chain) > 1 else None
            factor = following.bytes_per_s / chain[0].bytes_per_s if following else None
            yield NextBottleneck(
                name, operation, chain[0].resource, factor, following.resource if following else None
            )


def _next_together(model: GridModel) -> Iterator[NextBottleneck]:
    """The same for all libraries at once, found by growing what binds until the share grows no more."""
    now = all_together(model)
    if now is None:
        return
    for operation in OPERATIONS:
        bound = now.bound_by[operation]
        if bound is not None:
            yield _grown(model, operation, bound.resource)


def _grown(model: GridModel, operation: Operation, name: str) -> NextBottleneck:
    def with_factor(factor: float) -> Together:
        found = all_together(_scaled(model, lambda each: factor if each.name == name else 1.0))
        assert found is not None  # noqa: S101 - the same libraries are required
        return found

    most = with_factor(_MOST_GROWTH)
    following = most.bound_by[operation]
    if following is not None and following.resource == name:
        return NextBottleneck(None, operation, name, None, None)
    enough = most.share[operation] * (1 - 1e-9)
    low, high = 1.0, _MOST_GROWTH
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if with_factor(middle).share[operation] >= enough else (middle, high)
    return NextBottleneck(None, operation, name, high, following.resource if following else None)
