"""The nodes of a workload side by side: a table, and the ratios of the launches of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gridwright.report.figures import ABSENT, count, finite, plain, volume
from gridwright.report.plot import Chart, layout_of, length_axis, plain_axis, safe
from gridwright.report.table import Cell, Table, table_of
from gridwright.report.workload.charts import CLASSES, launch_text
from gridwright.report.workload.tables import LONGEST, bound_words, minutes, ratio
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.workload_record import NodeSummary

_ROW = 26
_MOST_ROWS = 40
_NOTE = "Times and ratios are of launches that ran to their end; CPU is of all cores while launches ran."


def percent(value: object) -> str:
    """A share of all cores, in percent."""
    number = finite(value)
    return ABSENT if number is None else f"{number:.0f} %"


def side_by_side(nodes: Sequence[NodeSummary], bound: Callable[[str | None], str] = bound_words) -> Table:
    """One row per node; `bound` words what bound its launches."""
    columns: dict[str, Callable[[NodeSummary], str | Cell]] = {
        "Node": lambda n: n.node,
        "Launches": lambda n: count(n.launches),
        "Failed": lambda n: Cell(count(n.failed), "failed") if n.failed else "0",
        "Real min": lambda n: minutes(n.real_s),
        "User CPU min": lambda n: minutes(n.user_s),
        "System CPU min": lambda n: minutes(n.system_s),
        "CPU": lambda n: percent(n.cpu_percent_mean),
        "Read": lambda n: volume(n.read_bytes),
        "Written": lambda n: volume(n.written_bytes),
        "Ratio mean": lambda n: ratio(n.ratio_mean),
        "Ratio of the sums": lambda n: ratio(n.ratio_of_sums),
        "Bound by": lambda n: bound(n.bound_by),
        "Lost under": lambda n: Cell(count(n.lost), "failed") if n.lost else "0",
    }
    return table_of("Nodes side by side", nodes, columns, "Node|Bound by")


def nodes_table(nodes: Sequence[NodeSummary]) -> Table | None:
    """One row per node, where there are several."""
    if len(nodes) < 2:
        return None
    table, note = side_by_side(nodes), _NOTE
    if any(node.lost for node in nodes):
        note += " Lost under: launches that a node was lost under, and that were started again."
    else:
        table = table.without("Lost under")
    return replace(table, note=note, folded=len(nodes) > LONGEST)


def nodes_chart(nodes: Sequence[NodeSummary], launches: Sequence[LaunchRecord]) -> Chart | None:
    """The ratio of every launch in the row of its node, with the mean of the node."""
    known = [node for node in nodes if finite(node.ratio_mean) is not None]
    if len(nodes) < 2 or not known:
        return None
    shown = known
    if len(known) > _MOST_ROWS:
        lowest = sorted(known, key=lambda node: node.ratio_mean or 0.0)[:_MOST_ROWS]
        shown = [node for node in known if node in lowest]
    rows = {node.node: i for i, node in enumerate(shown)}
    placed = [
        launch for launch in launches if launch.node in rows and finite(launch.cpu_real_ratio) is not None
    ]
    traces = [
        _dots(name, [record for record in placed if record.class_ == name], rows)
        for name in CLASSES
        if any(record.class_ == name for record in placed)
    ]
    traces.append(_means(shown, rows))
    layout = layout_of(
        xaxis=length_axis("CPU/real"),
        yaxis={
            "range": [len(shown) - 0.5, -0.5],
            "tickmode": "array",
            "tickvals": list(rows.values()),
            "ticktext": [safe(name) for name in rows],
            "automargin": True,
            **plain_axis(),
        },
        hovermode="closest",
        margin={"l": 16, "r": 16, "t": 40, "b": 16},
    )
    notes = ["A dot is a launch, coloured by the class of its test; the line is the mean of its node."]
    if len(known) > len(shown):
        notes.append(f"The {len(shown)} nodes with the lowest means, of {len(known)}.")
    low, high = min(shown, key=_mean_of), max(shown, key=_mean_of)
    spoken = (
        f"CPU/real ratios of {len(placed)} launches on {len(shown)} nodes: the mean of a node is from "
        f"{ratio(low.ratio_mean)} ({safe(low.node)}) to {ratio(high.ratio_mean)} ({safe(high.node)})."
    )
    height = len(shown) * _ROW + 110
    return Chart(
        "workload-nodes",
        "Nodes side by side",
        spoken,
        height,
        {"data": traces, "layout": layout},
        " ".join(notes),
    )


def _mean_of(node: NodeSummary) -> float:
    return node.ratio_mean or 0.0


def _dots(name: str, launches: Sequence[LaunchRecord], rows: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [round(launch.cpu_real_ratio or 0.0, 4) for launch in launches],
        "y": [rows[launch.node] for launch in launches],
        "marker": {
            "size": 9,
            "opacity": 0.75,
            "color": f"--class-{name}",
            "symbol": ["circle" if launch.ok else "x" for launch in launches],
        },
        "hovertext": [launch_text(launch) for launch in launches],
        "hoverinfo": "text",
    }


def _means(nodes: Sequence[NodeSummary], rows: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "mean",
        "x": [round(_mean_of(node), 4) for node in nodes],
        "y": [rows[node.node] for node in nodes],
        "marker": {"symbol": "line-ns", "size": 18, "line": {"color": "--ink", "width": 3}},
        "hovertext": [
            f"{safe(node.node)}: mean {ratio(node.ratio_mean)} of {plain(node.launches)} launches"
            for node in nodes
        ],
        "hoverinfo": "text",
    }
