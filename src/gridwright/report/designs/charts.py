"""Charts of predictions and plans: cost against rate, where the money goes, and the bottleneck chain.

The chain is a picture: bands of libraries that run through every resource on their route, from top to bottom,
as the bytes of a write go. The width of a band is what its library needs, the width of a bar is what the
resource lets through, and where a bar is narrower than the bands, they narrow with it. Widths are in percent
of the picture and heights in percent of a row, so that a page of any width stretches it; all that is drawn is
also said in words beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from gridwright.model.chains import ALL_GROUPS
from gridwright.model.prediction import Answer, Bound, LibraryPrediction, Prediction, Rates, reaches
from gridwright.plan.design import Design
from gridwright.report.bars import required_chart
from gridwright.report.designs.words import (
    MOST_RESILIENT,
    binding,
    dollars,
    monthly,
    resilience_text,
)
from gridwright.report.figures import MB, against, listed, megabytes, part_of, plain
from gridwright.report.figures import required as required_text
from gridwright.report.plot import Chart, axis_title, bars_axis, figure_of, layout_of, rate_axis, safe
from gridwright.report.table import Mark
from gridwright.report.verdict import LibraryVerdict, Score
from gridwright.runs.verdict import VerdictKind

COSTS_SHOWN = 10
_NUMBERED = 20
"""A front of more designs than this is drawn without their ranks, which would cover each other."""
_LEGEND = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
MARK_OF: dict[Answer | None, Mark] = {
    "yes": "met",
    "within the margin": "unjudged",
    "no": "missed",
    None: "unjudged",
}
"""The sign beside a word, by whether a requirement is met; None where there is none."""
_LEVELS = (
    ("--class-command", "x"),
    ("--class-memory", "triangle-down"),
    ("--class-computation", "diamond"),
    ("--class-io", "square"),
    ("--write", "circle"),
)
"""Colour and shape of a design's mark, by its resilience: neither is needed without the other."""
_PARTS = (
    ("compute nodes", r"^\d+ nodes? ", "--write", ""),
    ("managed file system", r"^FSx ", "--class-io", "\\"),
    ("servers", r"^\d+ (OSS|MDS|MGS|NSD) ", "--mixed", "x"),
    ("volumes of servers", r" at each (OSS|MDS|MGS|NSD)$", "--class-memory", "/"),
    ("volumes of nodes", r" at each node$", "--class-computation", "."),
    ("other", r"", "--class-command", "-"),
)
"""Parts of a bill: name, what its lines look like, colour and hatching."""


def pareto_chart(designs: Sequence[Design]) -> Chart | None:
    """Cost against the smallest rate of any library, by resilience, with the Pareto front marked."""
    if not designs:
        return None
    traces = [
        _designs_trace(level, [(i, d) for i, d in enumerate(designs, 1) if d.resilience == level])
        for level in range(MOST_RESILIENT + 1)
        if any(design.resilience == level for design in designs)
    ]
    front = [(rank, design) for rank, design in enumerate(designs, 1) if design.front]
    if front:
        traces.append(_front_trace(front))
    costs = [design.usd_per_hour for design in designs]
    rates = [design.bytes_per_s_per_core / MB for design in designs]
    layout = layout_of(
        xaxis={
            "title": axis_title("USD per hour"),
            "range": _range(costs),
            "fixedrange": True,
            **rate_axis(),
        },
        yaxis={
            "title": axis_title("MB/s per core"),
            "range": _range(rates),
            "fixedrange": True,
            "automargin": True,
            **rate_axis(),
        },
        margin={"l": 16, "r": 16, "t": 8, "b": 16},
        hovermode="closest",
        # Drawn last lies on top: the front and the most resilient, which the legend names first.
        legend={**_LEGEND, "traceorder": "reversed"},
    )
    title = "Cost against MB/s per core"
    spoken = "; ".join(
        f"{design.title}: {dollars(design.usd_per_hour)} USD per hour, "
        f"{megabytes(design.bytes_per_s_per_core)} MB/s per core, resilience {resilience_text(design)}"
        for _, design in front or [*enumerate(designs, 1)]
    )
    note = (
        "Up and to the left is better. MB/s per core is the smallest lasting rate of any library in either "
        "direction. A ring marks the Pareto front: no other design is at least as good in cost, rate and "
        "resilience and better in one. Numbers are ranks by cost."
    )
    return Chart(
        "pareto", title, f"{title}, the Pareto front: {spoken}.", 460, figure_of(traces, layout), note
    )


def _range(values: Sequence[float]) -> list[float]:
    """An axis around all values, with room for marks; differences matter, so it does not start at zero."""
    low, high = min(values), max(values)
    room = (high - low) * 0.1 or high * 0.1 or 1.0
    return [max(low - room, 0.0), high + room]


def _designs_trace(level: int, ranked: Sequence[tuple[int, Design]]) -> dict[str, Any]:
    colour, symbol = _LEVELS[min(level, len(_LEVELS) - 1)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"resilience {level} of {MOST_RESILIENT}",
        "x": [design.usd_per_hour for _, design in ranked],
        "y": [design.bytes_per_s_per_core / MB for _, design in ranked],
        "hovertext": [_hover(rank, design) for rank, design in ranked],
        "hoverinfo": "text",
        "marker": {"color": colour, "symbol": symbol, "size": 10, "line": {"color": "--card", "width": 1}},
    }


def _front_trace(front: Sequence[tuple[int, Design]]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": "Pareto front",
        "x": [design.usd_per_hour for _, design in front],
        "y": [design.bytes_per_s_per_core / MB for _, design in front],
        "text": [str(rank) if len(front) <= _NUMBERED else "" for rank, _ in front],
        # In turns, since neighbours on the front would cover each other's rank.
        "textposition": [("bottom center", "top center")[i % 2] for i in range(len(front))],
        "textfont": {"color": "--ink", "size": 12},
        "hoverinfo": "skip",
        "marker": {"color": "--ink", "symbol": "circle-open", "size": 19, "line": {"width": 1.5}},
    }


def _hover(rank: int, design: Design) -> str:
    lines = [
        f"<b>{rank}. {safe(design.title)}</b>",
        f"{dollars(design.usd_per_hour)} USD per hour, {monthly(design.usd_per_hour)} per month",
        f"{megabytes(design.bytes_per_s_per_core)} MB/s per core, bound by {safe(binding(design))}",
        f"resilience {resilience_text(design)}: {safe(design.survives)}",
    ]
    return "<br>".join(lines)


def plan_costs_chart(designs: Sequence[Design]) -> Chart | None:
    """Where the money of the cheapest designs goes."""
    shown = designs[:COSTS_SHOWN]
    bills = [(f"{rank}", design.title, design.prediction) for rank, design in enumerate(shown, 1)]
    return _costs_chart(bills, "Where the money goes, cheapest designs first")


def costs_chart(prediction: Prediction) -> Chart | None:
    """Where the money of one grid goes."""
    return _costs_chart([("", prediction.grid, prediction)], "Where the money goes")


def _costs_chart(bills: Sequence[tuple[str, str, Prediction]], title: str) -> Chart | None:
    traces = []
    for name, _, colour, hatch in _PARTS:
        amounts = [_amount(prediction, name) for _, _, prediction in bills]
        if any(usd for usd, _ in amounts):
            traces.append(_costs_trace(name, colour, hatch, bills, amounts))
    if not traces:
        return None
    places = [place for place, _, _ in bills]
    totals = [sum(_amount(prediction, part[0])[0] for part in _PARTS) for _, _, prediction in bills]
    layout = layout_of(
        xaxis={
            "title": axis_title("USD per hour"),
            "range": [0, max(totals) * 1.02],
            "fixedrange": True,
            "nticks": 6,
            "tickangle": 0,
            **rate_axis(),
        },
        yaxis=bars_axis(places),
        annotations=[_total(row, usd) for row, usd in enumerate(totals)],
        margin={"l": 16, "r": 64, "t": 8, "b": 16},
        barmode="stack",
        legend={**_LEGEND, "traceorder": "normal"},
        bargap=0.3,
        hovermode="closest",
    )
    spoken = "; ".join(
        f"{f'{place}. ' if place else ''}{each}: "
        + listed([f"{cost.what} {dollars(cost.usd_per_hour)}" for cost in prediction.costs])
        for place, each, prediction in bills
    )
    height = 130 + 30 * len(bills)
    unknown = any(cost.usd_per_hour is None for _, _, prediction in bills for cost in prediction.costs)
    note = "What has no known price is missing in the bars." if unknown else ""
    return Chart(
        "costs", title, f"{title}, in USD per hour: {spoken}.", height, figure_of(traces, layout), note
    )


def _costs_trace(
    name: str,
    colour: str,
    hatch: str,
    bills: Sequence[tuple[str, str, Prediction]],
    amounts: Sequence[tuple[float, list[str]]],
) -> dict[str, Any]:
    pattern = {"shape": hatch, "fillmode": "overlay", "fgcolor": "--card", "size": 7, "solidity": 0.18}
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [place for place, _, _ in bills],
        "x": [usd for usd, _ in amounts],
        "hovertext": [
            f"<b>{safe(name)}: {dollars(usd)} USD per hour</b><br>{'<br>'.join(map(safe, lines))}"
            for usd, lines in amounts
        ],
        "hoverinfo": "text",
        "marker": {"color": colour, "line": {"color": "--card", "width": 1}, "pattern": pattern},
    }


def _part(what: str) -> str:
    return next(name for name, pattern, _, _ in _PARTS if re.search(pattern, what))


def _amount(prediction: Prediction, part: str) -> tuple[float, list[str]]:
    """USD per hour of one part of the bill, and its lines."""
    lines = [cost for cost in prediction.costs if _part(cost.what) == part]
    return sum(cost.usd_per_hour or 0.0 for cost in lines), [cost.what for cost in lines]


def _total(row: int, usd: float) -> dict[str, Any]:
    """What a bar comes to; on a category axis a row is a number."""
    return {
        "text": dollars(usd),
        "x": 1,
        "xref": "paper",
        "xanchor": "left",
        "xshift": 8,
        "y": row,
        "yref": "y",
        "showarrow": False,
        "font": {"color": "--ink", "size": 13},
    }


def predicted_chart(prediction: Prediction) -> Chart | None:
    """Predicted rates against required ones, as the report of a run draws measured ones."""
    chart = required_chart([_verdict(prediction, i) for i in range(len(prediction.libraries))])
    if chart is None:
        return None
    judged = any(library.requires_bytes_per_s_per_core for library in prediction.libraries)
    title = "Predicted against required, MB/s per core" if judged else "Predicted, MB/s per core"
    return replace(chart, title=title, spoken=chart.spoken.replace(chart.title, title, 1))


def _verdict(prediction: Prediction, index: int) -> LibraryVerdict:
    library = prediction.libraries[index]
    required = library.requires_bytes_per_s_per_core
    scores = []
    for operation, rates in library.rates.items():
        # Of several groups of nodes the cores that get least are judged.
        rate = min(
            each.bytes_per_s_per_core
            for each in [group[operation] for group in library.groups.values()] or [rates]
        )
        mark = MARK_OF[library.answer_of(operation)]
        scores.append(Score(operation, mark, rate, against(rate, required), part_of(rate, required)))
    kinds: dict[Answer | None, VerdictKind] = {"no": "missed", "within the margin": "unproven"}
    kind = kinds.get(library.answer, "met")
    word = {"yes": "met", "no": "missed", None: "no requirement"}.get(library.answer, "within the margin")
    return LibraryVerdict(
        library.library, library.filesystem, kind, word, required, required_text(required), tuple(scores)
    )


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
