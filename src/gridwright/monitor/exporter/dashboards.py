"""Dashboards for Grafana, out of the exporter's own names (pure).

Written by the JSON model of Grafana's documents (schemaVersion 36, Grafana 9 and later); there is no Grafana
here that they could have been loaded in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gridwright.monitor.exporter.rules import BUSY, DELIVERED

_RATE = "[$__rate_interval]"
_OF = 'job="$job",instance=~"$instance"'
_CPU, _IS_WAITING, _IS_USED = "gridwright_node_cpu_seconds_total", ',mode="iowait"', ',mode!="idle"'
_SCHEMA = 36
_WIDE, _HIGH = 12, 8
"""Of a panel, in the units of Grafana's grid of 24 columns."""


@dataclass(frozen=True, slots=True)
class Query:
    """A curve, or several, and what Grafana is to call them."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart. The unit is one of Grafana's names: Bps, bytes, percentunit, short, s."""

    title: str
    unit: str
    queries: Sequence[Query]
    about: str = ""


def _rate(metric: str, more: str = "") -> str:
    return f"rate({metric}{{{_OF}{more}}}{_RATE})"


def _both(kind: str, by: str, legend: str) -> list[Query]:
    """What was read and written, by a label."""
    return [
        Query(f"sum by ({by}) ({_rate(f'gridwright_{kind}_{what}_bytes_total')})", f"{legend} {word}")
        for what, word in (("read", "read"), ("written", "written"))
    ]


def _pressure(resource: str) -> Query:
    metric = f"gridwright_node_pressure_{resource}_waiting_seconds_total"
    return Query(f"max by (instance) ({_rate(metric)})", f"{{{{instance}}}} {resource}")


def _used_room(by: str) -> str:
    of = f"{{{_OF}}}"
    left = f"gridwright_node_filesystem_avail_bytes{of} / gridwright_node_filesystem_size_bytes{of}"
    return f"max by ({by}) (1 - {left})"


def _cards() -> list[Query]:
    speed = f"gridwright_node_network_speed_bytes{{{_OF}}}"
    return [
        Query(
            f"max by (instance) ({_rate(f'gridwright_node_network_{way}_bytes_total')}"
            f" / on (job, instance, device) {speed})",
            f"{{{{instance}}}} {way}",
        )
        for way in ("receive", "transmit")
    ]


_IO_WAIT = Query(f"sum by (instance) ({_rate(_CPU, _IS_WAITING)})", "{{instance}}")
_BUSY_DISKS = Query(_rate("gridwright_node_disk_io_time_seconds_total"), "{{instance}} {{device}}")

_GRID = (
    Panel(
        "MB/s for each busy core",
        "Bps",
        [Query(f'{DELIVERED}{{job="$job"}} / on (job) group_left () {BUSY}{{job="$job"}}', "{{filesystem}}")],
        "From the rules of gridwright exporter --rules; what is required is in the grid spec.",
    ),
    Panel(
        "Busy cores",
        "short",
        [
            Query(f'{BUSY}{{job="$job"}}', "busy"),
            Query('sum (gridwright_node_cores{job="$job"})', "cores of all nodes"),
        ],
    ),
    Panel("Moved by clients, by mount", "Bps", _both("mount", "mountpoint", "{{mountpoint}}")),
    Panel("Moved by disks of nodes", "Bps", _both("node_disk", "instance", "{{instance}}")),
    Panel(
        "Waiting for storage",
        "percentunit",
        [_pressure("io")],
        "Part of the time in which some task waited for I/O.",
    ),
    Panel("Fullest card", "percentunit", _cards()),
    Panel(
        "Room used",
        "percentunit",
        [Query(_used_room("mountpoint"), "{{mountpoint}}")],
        "Of the fullest node.",
    ),
    Panel(
        "Does not answer",
        "short",
        [
            Query('up{job="$job"} == 0', "{{instance}} is away"),
            Query(f"gridwright_source_silent{{{_OF}}} == 1", "{{source}} of {{instance}}"),
        ],
    ),
)
_STORAGE = (
    Panel(
        "Moved, by target",
        "Bps",
        _both("mount", "target", "{{target}}"),
        "The sum over the nodes that are shown.",
    ),
    Panel(
        "Requests to servers, by target",
        "short",
        [
            Query(f"sum by (target) ({_rate(f'gridwright_mount_{what}_total')})", f"{{{{target}}}} {what}")
            for what in ("reads", "writes")
        ],
    ),
    Panel(
        "Unevenness of targets",
        "short",
        [
            Query(
                f"max by (mountpoint) ({moved}) / avg by (mountpoint) ({moved})",
                "{{mountpoint}}",
            )
            for moved in (f"sum by (mountpoint, target) ({_rate('gridwright_mount_written_bytes_total')})",)
        ],
        "The busiest target against the mean, in bytes written: 1 is even.",
    ),
    Panel("Disks busy", "percentunit", [_BUSY_DISKS], "Part of the time with a request in flight."),
    Panel(
        "Requests in flight at disks",
        "short",
        [Query(_rate("gridwright_node_disk_io_time_weighted_seconds_total"), "{{instance}} {{device}}")],
    ),
    Panel(
        "Room used", "percentunit", [Query(_used_room("instance, mountpoint"), "{{instance}} {{mountpoint}}")]
    ),
)
_JOBS = (
    Panel("Moved, by job", "Bps", _both("job", "jobid", "{{jobid}}")),
    Panel(
        "CPUs, by job",
        "short",
        [Query(f"sum by (jobid) ({_rate('gridwright_job_cpu_seconds_total')})", "{{jobid}}")],
    ),
    Panel(
        "Memory, by job",
        "bytes",
        [Query(f"sum by (jobid) (gridwright_job_resident_bytes{{{_OF}}})", "{{jobid}}")],
    ),
    Panel(
        "Jobs that moved most",
        "bytes",
        [
            Query(
                "topk(20, sum by (jobid) ("
                + " + ".join(
                    f"increase(gridwright_job_{what}_bytes_total{{{_OF}}}[$__range])"
                    for what in ("read", "written")
                )
                + "))",
                "{{jobid}}",
            )
        ],
        "Within the range that is shown.",
    ),
)
_NODE = (
    Panel(
        "CPUs, by what they do",
        "short",
        [Query(f"sum by (mode) ({_rate(_CPU, _IS_USED)})", "{{mode}}")],
    ),
    Panel("Pressure", "percentunit", [_pressure(each) for each in ("cpu", "io", "memory")]),
    Panel(
        "Memory",
        "bytes",
        [
            Query(
                f"sum by (instance) (gridwright_node_memory_{what}_bytes{{{_OF}}})",
                f"{{{{instance}}}} {what}",
            )
            for what in ("size", "available", "dirty")
        ],
    ),
    Panel("CPUs in iowait", "short", [_IO_WAIT]),
    Panel(
        "Network",
        "Bps",
        [
            Query(
                _rate(f"gridwright_node_network_{way}_bytes_total"), f"{{{{instance}}}} {{{{device}}}} {way}"
            )
            for way in ("receive", "transmit")
        ],
    ),
    Panel("Disks", "Bps", _both("node_disk", "instance, device", "{{instance}} {{device}}")),
    Panel("Load", "short", [Query(f"gridwright_node_load1{{{_OF}}}", "{{instance}}")]),
    Panel(
        "What sampling costs",
        "percentunit",
        [Query(_rate("gridwright_exporter_cpu_seconds_total"), "{{instance}}")],
        "Part of one core.",
    ),
)
DASHBOARDS = {"grid": _GRID, "storage": _STORAGE, "jobs": _JOBS, "node": _NODE}


def dashboard_files() -> dict[str, str]:
    """Each dashboard as JSON by the name of its file; always the same."""
    return {
        f"gridwright-{name}.json": json.dumps(_dashboard(name, panels), indent=2) + "\n"
        for name, panels in DASHBOARDS.items()
    }


def _dashboard(name: str, panels: Sequence[Panel]) -> dict[str, Any]:
    return {
        "uid": f"gridwright-{name}",
        "title": f"Gridwright: {name}",
        "tags": ["gridwright"],
        "schemaVersion": _SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    for name, label, query in (
        ("job", "Grid", "label_values(gridwright_node_info, job)"),
        ("instance", "Node", 'label_values(gridwright_node_info{job="$job"}, instance)'),
    ):
        several = name == "instance"
        yield {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "sort": 1,
            "multi": several,
            "includeAll": several,
            **({"allValue": ".+", "current": {"text": "All", "value": "$__all"}} if several else {}),
        }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    column, row = number % 2, number // 2
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "gridPos": {"x": column * _WIDE, "y": row * _HIGH, "w": _WIDE, "h": _HIGH},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": source,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for place, query in enumerate(panel.queries)
        ],
    }
