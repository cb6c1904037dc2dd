"""What all charts share: their frame, their axes, and how they name a colour.

Figures are plotly's, in plain data. A colour that starts with `--` names a custom property of the
page's style sheet: the page resolves it when it draws, so that charts follow light and dark and
print on white. Text that comes from outside is escaped, since plotly reads a little HTML in its
labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

COLOURS = {"write": "--write", "read": "--read", "mixed": "--mixed"}


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: its place on the page, what it says in words, and the figure."""

    name: str
    title: str
    spoken: str
    """For those who do not see it; the tables hold the same figures."""
    height: int
    figure: dict[str, Any]
    note: str = ""


def safe(text: str) -> str:
    """Text from outside, as a label of plotly shows it unread."""
    return escape(text, quote=False)


def axis_title(text: str) -> dict[str, Any]:
    """The title of an axis."""
    return {"text": text, "font": {"color": "--muted", "size": 12}, "standoff": 8}


def plain_axis() -> dict[str, Any]:
    """An axis of names."""
    return {
        "zeroline": False,
        "linecolor": "--line",
        "tickfont": {"color": "--ink"},
        "ticklabelstandoff": 6,
        "fixedrange": True,
    }


def rate_axis() -> dict[str, Any]:
    """An axis of figures."""
    return {
        "zeroline": False,
        "gridcolor": "--line",
        "linecolor": "--line",
        "tickfont": {"color": "--muted"},
        "tickformat": ",",
    }


def bars_axis(names: Sequence[str]) -> dict[str, Any]:
    """An axis of names that each head a bar, the first on top."""
    return {
        "autorange": "reversed",
        "automargin": True,
        "showgrid": False,
        "type": "category",
        "categoryorder": "array",
        "categoryarray": list(names),
        **plain_axis(),
    }


def length_axis(title: str) -> dict[str, Any]:
    """The axis of figures below bars or dots in rows, from zero on."""
    return {
        "title": axis_title(title),
        "rangemode": "tozero",
        "fixedrange": True,
        "nticks": 8,
        "automargin": True,
        **rate_axis(),
    }


def layout_of(**own: Any) -> dict[str, Any]:  # noqa: ANN401 - plotly's layout is untyped
    """The frame of a chart; what is given replaces what is usual."""
    return {
        "margin": {"l": 16, "r": 16, "t": 8, "b": 16},
        "paper_bgcolor": "--card",
        "plot_bgcolor": "--card",
        "font": {"color": "--ink", "size": 13},
        "hoverlabel": {"bgcolor": "--card", "bordercolor": "--line", "font": {"color": "--ink"}},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        "showlegend": True,
        "dragmode": False,
        **own,
    }


def figure_of(traces: list[dict[str, Any]], layout: dict[str, Any]) -> dict[str, Any]:
    """A figure whose lower axis makes room for its labels."""
    layout["xaxis"]["automargin"] = True
    return {"data": traces, "layout": layout}
