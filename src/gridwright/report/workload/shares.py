"""Where the time of each test went: computing, waiting for a core, for each library, for memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gridwright.report.figures import ABSENT, finite, seconds, share
from gridwright.report.plot import Chart, axis_title, bars_axis, layout_of, rate_axis, safe
from gridwright.report.table import Table, table_of
from gridwright.runs.launch_record import Bound, LaunchRecord

IN_ALL = "all tests"
_ROW = 24
_MOST_ROWS = 40
_LEAST = 0.0005
"""A cause that took less of every test has no part in the chart."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One part of a bar: its name, the causes of a launch's record in it, its colour and its hatching."""

    name: str
    of: tuple[Bound, ...]
    colour: str
    hatch: str = ""


CAUSES = (
    Cause("computing", ("cpu",), "--time-cpu"),
    Cause("waiting for a core", ("core",), "--time-core", "/"),
    Cause("data", ("data read", "data write"), "--time-data"),
    Cause("work", ("work read", "work write"), "--time-work", "\\"),
    Cause("util", ("util",), "--time-util", "."),
    Cause("memory", ("memory",), "--time-memory", "x"),
    Cause("something else", ("other",), "--time-other", "-"),
)


@dataclass(frozen=True, slots=True)
class TimeShares:
    """How the real time of the launches of a test divides, each cause 0 to 1."""

    test: str
    launches: int
    real_s: float
    shares: Mapping[str, float]

    def of(self, cause: Cause) -> float:
        """The part of the time that a cause took."""
        return sum(self.shares.get(name, 0.0) for name in cause.of)


def time_shares(launches: Sequence[LaunchRecord]) -> list[TimeShares]:
    """One row per test, those that computed least first, below one of all of them.

    Launches that ran to their end and of which shares are known count, each by its real time.
    """
    by_test: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        if launch.ok and launch.shares and (finite(launch.real_s) or 0.0) > 0:
            by_test.setdefault(launch.test, []).append(launch)
    if not by_test:
        return []
    rows = sorted((_shares(test, own) for test, own in by_test.items()), key=_computed)
    if len(rows) == 1:
        return rows
    return [_shares(IN_ALL, [launch for own in by_test.values() for launch in own]), *rows]


def _computed(row: TimeShares) -> float:
    return row.of(CAUSES[0])


def _shares(test: str, launches: Sequence[LaunchRecord]) -> TimeShares:
    real = sum(launch.real_s or 0.0 for launch in launches)
    sums: dict[str, float] = {}
    for launch in launches:
        for cause, part in launch.shares.items():
            sums[cause] = sums.get(cause, 0.0) + part * (launch.real_s or 0.0)
    return TimeShares(test, len(launches), real, {cause: total / real for cause, total in sums.items()})


def shares_chart(rows: Sequence[TimeShares]) -> Chart | None:
    """A bar per test, divided by what its time went to."""
    if not rows:
        return None
    shown = rows[:_MOST_ROWS]
    traces = [_bars(cause, shown) for cause in CAUSES if any(row.of(cause) >= _LEAST for row in shown)]
    names = [safe(row.test) for row in shown]
    layout = layout_of(
        xaxis={
            "title": axis_title("% of the real time of its launches"),
            "range": [0, 100],
            "fixedrange": True,
            "dtick": 20,
            "automargin": True,
            **rate_axis(),
        },
        yaxis={
            **bars_axis(names),
            "tickvals": names,
            "ticktext": [f"<b>{name}</b>" if name == IN_ALL else name for name in names],
        },
        barmode="stack",
        bargap=0.25,
        hovermode="closest",
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom"}
        | {"traceorder": "normal"},
        margin={"l": 16, "r": 16, "t": 48, "b": 16},
    )
    notes = ["Data, work and util: waiting for that library, reading and writing together."]
    if len(rows) > len(shown):
        notes.append(f"The {len(shown) - 1} tests that computed least, of {len(rows) - 1}.")
    spoken = "; ".join(f"{row.test}: {_shares_text(row)}" for row in shown)
    return Chart(
        "workload-shares",
        "Where the time of each test went",
        f"Shares of real time. {spoken}.",
        len(shown) * _ROW + 130,
        {"data": traces, "layout": layout},
        " ".join(notes),
    )


def _shares_text(row: TimeShares) -> str:
    said = [f"{cause.name} {share(row.of(cause))}" for cause in CAUSES if row.of(cause) >= _LEAST]
    return ", ".join(said) or "not known"


def _bars(cause: Cause, rows: Sequence[TimeShares]) -> dict[str, Any]:
    pattern = {
        "shape": cause.hatch,
        "fillmode": "overlay",
        "fgcolor": "--card",
        "size": 7,
        "solidity": 0.18,
    }
    return {
        "type": "bar",
        "orientation": "h",
        "name": cause.name,
        "y": [safe(row.test) for row in rows],
        "x": [round(100 * row.of(cause), 2) for row in rows],
        "hovertext": [_hover(cause, row) for row in rows],
        "hoverinfo": "text",
        "marker": {
            "color": cause.colour,
            "line": {"color": "--card", "width": 1},
            **({"pattern": pattern} if cause.hatch else {}),
        },
    }


def _hover(cause: Cause, row: TimeShares) -> str:
    parts = [f"{name} {share(row.shares[name])}" for name in cause.of if name in row.shares]
    split = f" ({', '.join(parts)})" if len(parts) > 1 else ""
    mean = seconds(row.of(cause) * row.real_s / row.launches)
    return (
        f"<b>{safe(row.test)}</b><br>{cause.name} {share(row.of(cause))}{split}<br>{mean} of a launch, mean"
    )


def shares_table(rows: Sequence[TimeShares]) -> Table | None:
    """The same in figures, reading and writing apart."""
    if not rows:
        return None
    titles: dict[str, Bound] = {
        ("Computing" if name == "cpu" else "Core" if name == "core" else name.capitalize()): name
        for cause in CAUSES
        for name in cause.of
        if any(row.shares.get(name, 0.0) >= _LEAST for row in rows)
    }
    columns = {
        title: lambda row, name=name: share(row.shares[name]) if name in row.shares else ABSENT
        for title, name in titles.items()
    }
    table = table_of(
        "Shares of real time by test",
        rows,
        {
            "Test": lambda row: row.test,
            **columns,
            "Real s": lambda row: seconds(row.real_s).removesuffix(" s"),
        },
    )
    return replace(table, folded=True)
