"""The bottleneck chain as a picture: bands of libraries that run through every resource on their route.

From top to bottom, as the bytes of a write go. The width of a band is what its library needs, the
width of a bar is what the resource lets through, and where a bar is narrower than the bands, they
narrow with it. Widths are in percent of the picture and heights in percent of a row, so that a page of
any width stretches it; all that is drawn is also said in words beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gridwright.model.chains import ALL_GROUPS
from gridwright.model.prediction import Bound, LibraryPrediction, Prediction, Rates, reaches
from gridwright.report.figures import listed, megabytes, plain

Role = Literal["short", "binds", "next", ""]

_WIDEST = 94.0
_TIMES_NEEDED = 2.5
"""A bar that lets through more than this many times what is needed is drawn open at both ends."""
_BAR_TOP, _BAR_BOTTOM = 30.0, 70.0
_COLOURS = {"data": 0, "work": 1, "util": 2}
_ORDER = (
    "streams",
    ALL_GROUPS,
    "node.network",
    "node.volume-bandwidth",
    "server.network",
    "server.volume-bandwidth",
)
"""The order of a route; what is none of these is the disks, or a managed file system, at its end."""


@dataclass(frozen=True, slots=True)
class Band:
    """What one library moves: its outline in a row, as the path of an SVG drawing."""

    library: str
    path: str

    @property
    def colour(self) -> int:
        """Which of the colours of the style sheet it has: a library has the same in every picture."""
        return _COLOURS.get(self.library, 0)


@dataclass(frozen=True, slots=True)
class Stage:
    """One row: a library where its band begins, or a resource with its bar."""

    name: str
    figure: str
    what: str
    role: Role
    bands: tuple[Band, ...]
    left: float = 0.0
    width: float = 0.0
    """Of the bar, in percent; nothing for a library."""
    open: bool = False
    """Whether the bar is wider than the picture."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One file system in one direction."""

    title: str
    spoken: str
    heads: tuple[Stage, ...]
    stages: tuple[Stage, ...]
    end: Stage
    note: str


def chain_pictures(prediction: Prediction) -> list[Picture]:
    """A picture for every file system and direction."""
    homes: dict[str, list[LibraryPrediction]] = {}
    for library in prediction.libraries:
        homes.setdefault(library.filesystem, []).append(library)
    return [
        _picture(prediction, name, libraries, operation)
        for name, libraries in homes.items()
        for operation in libraries[0].rates
    ]


def place_on_route(resource: str) -> int:
    """Where on its route a resource lies, counted from the core that reads or writes.

    Resources are named `node.network-out`, `lake.oss.volumes`, `fsx.throughput`, and of a grid with several
    groups of nodes `big.node.network-out`; the word before the last tells nodes and servers apart.
    """
    owner, _, part = resource.rpartition(".")
    kind = "node" if owner.rpartition(".")[2] == "node" else "server"
    name = f"{kind}.{part}" if owner else resource
    for place, start in enumerate(_ORDER):
        if name.startswith(start):
            return place
    return len(_ORDER)


def _picture(
    prediction: Prediction, filesystem: str, libraries: Sequence[LibraryPrediction], operation: str
) -> Picture:
    rates = next(rates for name, rates in libraries[0].rates.items() if name == operation)
    needs = _needs(libraries, prediction.cores)
    needed = _needed_at_once(prediction, needs) or rates.bytes_per_s
    parts = needs or dict.fromkeys((library.library for library in libraries), 1.0)
    whole = sum(parts.values())
    shares = {name: part / whole for name, part in parts.items()}
    top = max(needed, min(max(bound.bytes_per_s for bound in rates.chain), _TIMES_NEEDED * needed)) or 1.0
    scale = _WIDEST / top
    through = min(needed, rates.bytes_per_s)
    heads = _heads(libraries, needs, shares, needed * scale)
    names = listed([library.library for library in libraries])
    return Picture(
        f"{filesystem}, {operation}: {names}",
        _spoken(filesystem, operation, rates, needed, bool(needs)),
        heads,
        tuple(_stages(rates, shares, needed, scale, bool(needs))),
        _end(needed, through, bool(needs), _spread(shares, through * scale)),
        _note(prediction, needs),
    )


def _needs(libraries: Sequence[LibraryPrediction], cores: int) -> dict[str, float]:
    """What libraries require of all cores, in bytes per second; those that require nothing are left out."""
    return {
        library.library: library.requires_bytes_per_s_per_core * cores
        for library in libraries
        if library.requires_bytes_per_s_per_core
    }


def _needed_at_once(prediction: Prediction, needs: dict[str, float]) -> float:
    """What must get through: every library alone, and the part of all that peaks at the same time."""
    if prediction.together is None:
        return sum(needs.values())
    return prediction.together.peak_factor.required(needs.values())


def _spread(shares: dict[str, float], width: float) -> dict[str, tuple[float, float]]:
    """Left and right edge of every band, side by side around the middle."""
    left, edges = 50 - width / 2, {}
    for name, share in shares.items():
        edges[name] = (left, left + share * width)
        left += share * width
    return edges


def _band(library: str, above: tuple[float, float], below: tuple[float, float], start: float = 0.0) -> Band:
    """A band through one row, from `start` on; it narrows above the bar."""
    (x0, x1), (u0, u1) = above, below
    if above == below:
        path = f"M{x0:.2f} {start:g}L{x1:.2f} {start:g}L{x1:.2f} 100L{x0:.2f} 100Z"
    else:
        path = (
            f"M{x0:.2f} {start:g}C{x0:.2f} 22 {u0:.2f} 8 {u0:.2f} {_BAR_TOP:g}L{u0:.2f} 100L{u1:.2f} 100"
            f"L{u1:.2f} {_BAR_TOP:g}C{u1:.2f} 8 {x1:.2f} 22 {x1:.2f} {start:g}Z"
        )
    return Band(library, path)


def _bands(
    shares: dict[str, float], above: dict[str, tuple[float, float]], below: dict[str, tuple[float, float]]
) -> tuple[Band, ...]:
    return tuple(_band(name, above[name], below[name]) for name in shares)


def _heads(
    libraries: Sequence[LibraryPrediction], needs: dict[str, float], shares: dict[str, float], width: float
) -> tuple[Stage, ...]:
    """A row for each library, in which its band begins beside those above."""
    edges = _spread(shares, width)
    begun: list[Band] = []
    heads = []
    for library in libraries:
        name = library.library
        need = needs.get(name)
        text = "requires nothing" if need is None else f"requires {megabytes(need)} MB/s"
        running = tuple(begun)
        if name in shares:
            running += (_band(name, edges[name], edges[name], start=50.0),)
            begun.append(_band(name, edges[name], edges[name]))
        heads.append(Stage(name, text, "", "", running))
    return tuple(heads)


def _stages(
    rates: Rates, shares: dict[str, float], needed: float, scale: float, is_required: bool
) -> list[Stage]:
    stages = []
    passing = needed
    for bound in sorted(rates.chain, key=lambda bound: place_on_route(bound.resource)):
        after = min(passing, bound.bytes_per_s)
        bands = _bands(shares, _spread(shares, passing * scale), _spread(shares, after * scale))
        width = min(bound.bytes_per_s * scale, 100.0)
        is_open = bound.bytes_per_s * scale > _WIDEST * (1 + 1e-9)
        stages.append(
            Stage(
                bound.resource,
                _figure(bound, needed, is_required),
                bound.what,
                _role(bound, rates, needed),
                bands,
                0.0 if is_open else 50 - width / 2,
                100.0 if is_open else width,
                is_open,
            )
        )
        passing = after
    return stages


def _role(bound: Bound, rates: Rates, needed: float) -> Role:
    if bound == rates.bound_by:
        return "binds" if reaches(bound.bytes_per_s, needed) else "short"
    return "next" if bound == rates.next_bound else ""


def _figure(bound: Bound, needed: float, is_required: bool) -> str:
    measure = "what is needed" if is_required else "what gets through"
    times = f", {plain(bound.bytes_per_s / needed)} x {measure}" if needed > 0 else ""
    return f"{megabytes(bound.bytes_per_s)} MB/s{times}"


def _end(needed: float, through: float, is_required: bool, edges: dict[str, tuple[float, float]]) -> Stage:
    bands = tuple(
        Band(name, f"M{x0:.2f} 0L{x1:.2f} 0L{x1:.2f} 55L{x0:.2f} 55Z") for name, (x0, x1) in edges.items()
    )
    if not is_required:
        return Stage("gets through", f"{megabytes(through)} MB/s", "", "", bands)
    text = f"{megabytes(through)} of {megabytes(needed)} MB/s needed"
    return Stage("gets through", text, "", "" if reaches(through, needed) else "short", bands)


def _note(prediction: Prediction, needs: dict[str, float]) -> str:
    if not needs:
        return "Nothing is required here: the bands are as wide as what gets through."
    if len(needs) == 1 or prediction.together is None:
        return ""
    return (
        "Needed is the larger of the highest requirement alone and "
        f"{prediction.together.required_share * 100:.3g} % of all of them (the peak factor); "
        "bands share it in proportion to what each requires."
    )


def _spoken(filesystem: str, operation: str, rates: Rates, needed: float, is_required: bool) -> str:
    parts = "; ".join(
        f"{bound.resource} {_figure(bound, needed, is_required)}"
        for bound in sorted(rates.chain, key=lambda bound: place_on_route(bound.resource))
    )
    return f"The route of a {operation} on {filesystem}: {parts}. {rates.bound_by.resource} binds."
