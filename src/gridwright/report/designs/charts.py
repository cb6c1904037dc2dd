"""Charts of predictions and plans: cost against rate, and where the money goes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gridwright.model.prediction import Answer, Prediction
from gridwright.plan.design import Design
from gridwright.report.bars import required_chart
from gridwright.report.designs.words import (
    MOST_RESILIENT,
    binding,
    dollars,
    monthly,
    resilience_text,
)
from gridwright.report.figures import MB, against, listed, megabytes, part_of
from gridwright.report.figures import required as required_text
from gridwright.report.marks import Mark
from gridwright.report.plot import Chart, axis_title, figure_of, layout_of, plain_axis, rate_axis, safe
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
        yaxis={
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "type": "category",
            "categoryorder": "array",
            "categoryarray": places,
            **plain_axis(),
        },
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
