"""The chart of the verdict: measured against required, library by library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gridwright.report.figures import MB
from gridwright.report.plot import (
    COLOURS,
    Chart,
    axis_title,
    figure_of,
    layout_of,
    plain_axis,
    rate_axis,
    safe,
)
from gridwright.report.table import Mark
from gridwright.report.verdict import LibraryVerdict, Score
from gridwright.runs.verdict import JUDGED

_BEYOND = 1.04
"""The axis of the bars ends this much beyond the longest that counts."""
_TIMES_REQUIRED = 12
"""A bar this much longer than the lowest requirement is cut, or that would be lost at the axis."""
_NAME_LENGTH = 16
_FIGURES_WIDTH = 114
"""Pixels right of the bars, where their figures stand in a column and no mark crosses them."""

_BESIDE: dict[Mark, str] = {
    "missed": " · <b>missed</b>",
    "failed": " · <b>failed</b>",
    "cached": " · cached",
    "partial": " · partial",
    "untold": " · open",
    "falling": " · open",
}
"""What stands beside a figure; there is room for one word."""


def required_chart(libraries: Sequence[LibraryVerdict]) -> Chart | None:
    """Measured against required MB/s per core of every library, by write and by read."""
    shown = [library for library in libraries if any(score.rate is not None for score in library.scores)]
    if not shown:
        return None
    longest = _longest(shown)
    traces = _score_bars(shown, longest)
    if any(library.required for library in shown):
        traces.append(_required_marks(shown))
    names = [safe(library.library) for library in shown]
    xaxis = {"range": [0, longest * _BEYOND], "nticks": 6, "tickangle": 0}
    layout = layout_of(
        xaxis={**xaxis, "title": axis_title("MB/s per core"), **rate_axis()},
        yaxis={
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "categoryorder": "array",
            "categoryarray": names,
            "tickvals": names,
            "ticktext": [safe(_short(library.library)) for library in shown],
            **plain_axis(),
        },
        annotations=[_bar_figure(score, i) for i, library in enumerate(shown) for score in library.scores],
        margin={"l": 16, "r": _FIGURES_WIDTH, "t": 8, "b": 16},
        barmode="group",
        bargap=0.32,
        bargroupgap=0.08,
        hovermode="closest",
    )
    title = "Measured against required, MB/s per core"
    spoken = "; ".join(_spoken_library(library) for library in shown)
    height = 96 + 84 * len(shown)
    return Chart(
        "required", title, f"{title}: {spoken}.", height, figure_of(traces, layout), _note(shown, longest)
    )


def _longest(libraries: Sequence[LibraryVerdict]) -> float:
    """Where the scale ends, in MB/s.

    A cached figure can be fifty times the others and counts for nothing, and one library can be
    ten times faster than it must be: neither may press the others flat against the axis.
    """
    scores = [score for library in libraries for score in library.scores if score.rate]
    counted = [score.rate for score in scores if score.rate and score.mark != "cached"]
    bounds = [library.required for library in libraries if library.required]
    if bounds:
        return max(*bounds, min(max(counted, default=0.0), _TIMES_REQUIRED * min(bounds))) / MB
    return max(counted or [score.rate for score in scores if score.rate] or [MB]) / MB


def _note(libraries: Sequence[LibraryVerdict], longest: float) -> str:
    scores = [score for library in libraries for score in library.scores]
    notes = []
    if any(score.mark == "cached" for score in scores):
        notes.append("A hatched bar came from the page cache and does not count.")
    if any(score.mark == "partial" for score in scores):
        notes.append("A partial figure lacks a node that failed, and proves nothing.")
    if any(score.rate and score.rate / MB > longest for score in scores):
        notes.append("A bar that ends at the right edge is cut there; its figure says how far it goes.")
    return " ".join(notes)


def _short(name: str) -> str:
    """A name that leaves room for the bars on a narrow screen."""
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"


def _spoken_library(library: LibraryVerdict) -> str:
    scores = ", ".join(f"{score.op} {score.text} ({score.word})" for score in library.scores)
    return f"{library.library} requires {library.required_text}: {scores}"


def _score_bars(libraries: Sequence[LibraryVerdict], longest: float) -> list[dict[str, Any]]:
    """Bars by operation; the cached ones are traces of their own, so that the legend names them."""
    traces = []
    for position, op in enumerate(JUDGED):
        for cached in (False, True):
            scores = [
                (library.library, library.scores[position])
                for library in libraries
                if (library.scores[position].mark == "cached") == cached
            ]
            if any(score.rate is not None for _, score in scores):
                traces.append(_bars(op, scores, longest, cached))
    return traces


def _bars(op: str, scores: Sequence[tuple[str, Score]], longest: float, cached: bool) -> dict[str, Any]:
    colour = COLOURS[op]
    pattern = {"shape": "/", "fillmode": "overlay", "fgcolor": colour, "size": 8, "solidity": 0.25}
    end = longest * _BEYOND
    return {
        "type": "bar",
        "orientation": "h",
        "name": f"{op}, cached" if cached else op,
        "offsetgroup": op,
        "y": [safe(library) for library, _ in scores],
        "x": [None if score.rate is None else min(score.rate / MB, end) for _, score in scores],
        "hovertext": [f"{op}: {score.text} MB/s per core, {score.word}" for _, score in scores],
        "hoverinfo": "text",
        "marker": {
            "color": "--card" if cached else colour,
            "line": {"color": colour, "width": 1.5},
            **({"pattern": pattern} if cached else {}),
        },
    }


def _bar_figure(score: Score, row: int) -> dict[str, Any]:
    """The figure of one bar; on a category axis a row is a number, and write is drawn above read."""
    word = _BESIDE.get(score.mark, "")
    return {
        "text": f"{score.text}{word}",
        "x": 1,
        "xref": "paper",
        "xanchor": "left",
        "xshift": 8,
        "y": row - 0.17 if score.op == "write" else row + 0.17,
        "yref": "y",
        "showarrow": False,
        "font": {"color": "--ink", "size": 13},
    }


def _required_marks(libraries: Sequence[LibraryVerdict]) -> dict[str, Any]:
    bound = [library for library in libraries if library.required]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "required",
        "y": [safe(library.library) for library in bound],
        "x": [(library.required or 0) / MB for library in bound],
        "marker": {"symbol": "line-ns", "size": 50, "line": {"color": "--ink", "width": 3}},
        "hovertext": [f"required: {library.required_text} MB/s per core" for library in bound],
        "hoverinfo": "text",
        "cliponaxis": False,
    }
