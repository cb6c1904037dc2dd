"""Dashboards for Grafana, out of the panels (pure).

Written by the JSON model of Grafana's documents (schemaVersion 36, Grafana 9 and later); there is no Grafana
here that they could have been loaded in.

What is on the dashboards: charts, and the expressions behind them, out of the exporter's own names.
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


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """A curve, or several, and what Grafana is to call them."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class GrafanaPanel:
    """A chart. The unit is one of Grafana's names: Bps, bytes, percentunit, short, s."""

    title: str
    unit: str
    queries: Sequence[PanelQuery]
    about: str = ""


def _rate(metric: str, more: str = "") -> str:
    return f"rate({metric}{{{_OF}{more}}}{_RATE})"


def _both(kind: str, by: str, legend: str) -> list[PanelQuery]:
    """What was read and written, by a label."""
    return [
        PanelQuery(f"sum by ({by}) ({_rate(f'gridwright_{kind}_{what}_bytes_total')})", f"{legend} {word}")
        for what, word in (("read", "read"), ("written", "written"))
    ]


def _pressure(resource: str) -> PanelQuery:
    metric = f"gridwright_node_pressure_{resource}_waiting_seconds_total"
    return PanelQuery(f"max by (instance) ({_rate(metric)})", f"{{{{instance}}}} {resource}")


def _used_room(by: str) -> str:
    of = f"{{{_OF}}}"
    left = f"gridwright_node_filesystem_avail_bytes{of} / gridwright_node_filesystem_size_bytes{of}"
    return f"max by ({by}) (1 - {left})"


def _cards() -> list[PanelQuery]:
    speed = f"gridwright_node_network_speed_bytes{{{_OF}}}"
    return [
        PanelQuery(
            f"max by (instance) ({_rate(f'gridwright_node_network_{way}_bytes_total')}"
            f" / on (job, instance, device) {speed})",
            f"{{{{instance}}}} {way}",
        )
        for way in ("receive", "transmit")
    ]


_IO_WAIT = PanelQuery(f"sum by (instance) ({_rate(_CPU, _IS_WAITING)})", "{{instance}}")
_BUSY_DISKS = PanelQuery(_rate("gridwright_node_disk_io_time_seconds_total"), "{{instance}} {{device}}")

_GRID = (
    GrafanaPanel(
        "MB/s for each busy core",
        "Bps",
        [
            PanelQuery(
                f'{DELIVERED}{{job="$job"}} / on (job) group_left () {BUSY}{{job="$job"}}', "{{filesystem}}"
            )
        ],
        "From the rules of gridwright exporter --rules; what is required is in the grid spec.",
    ),
    GrafanaPanel(
        "Busy cores",
        "short",
        [
            PanelQuery(f'{BUSY}{{job="$job"}}', "busy"),
            PanelQuery('sum (gridwright_node_cores{job="$job"})', "cores of all nodes"),
        ],
    ),
    GrafanaPanel("Moved by clients, by mount", "Bps", _both("mount", "mountpoint", "{{mountpoint}}")),
    GrafanaPanel("Moved by disks of nodes", "Bps", _both("node_disk", "instance", "{{instance}}")),
    GrafanaPanel(
        "Waiting for storage",
        "percentunit",
        [_pressure("io")],
        "Part of the time in which some task waited for I/O.",
    ),
    GrafanaPanel("Fullest card", "percentunit", _cards()),
    GrafanaPanel(
        "Room used",
        "percentunit",
        [PanelQuery(_used_room("mountpoint"), "{{mountpoint}}")],
        "Of the fullest node.",
    ),
    GrafanaPanel(
        "Does not answer",
        "short",
        [
            PanelQuery('up{job="$job"} == 0', "{{instance}} is away"),
            PanelQuery(f"gridwright_source_silent{{{_OF}}} == 1", "{{source}} of {{instance}}"),
        ],
    ),
)
_STORAGE = (
    GrafanaPanel(
        "Moved, by target",
        "Bps",
        _both("mount", "target", "{{target}}"),
        "The sum over the nodes that are shown.",
    ),
    GrafanaPanel(
        "Requests to servers, by target",
        "short",
        [
            PanelQuery(
                f"sum by (target) ({_rate(f'gridwright_mount_{what}_total')})", f"{{{{target}}}} {what}"
            )
            for what in ("reads", "writes")
        ],
    ),
    GrafanaPanel(
        "Unevenness of targets",
        "short",
        [
            PanelQuery(
                f"max by (mountpoint) ({moved}) / avg by (mountpoint) ({moved})",
                "{{mountpoint}}",
            )
            for moved in (f"sum by (mountpoint, target) ({_rate('gridwright_mount_written_bytes_total')})",)
        ],
        "The busiest target against the mean, in bytes written: 1 is even.",
    ),
    GrafanaPanel("Disks busy", "percentunit", [_BUSY_DISKS], "Part of the time with a request in flight."),
    GrafanaPanel(
        "Requests in flight at disks",
        "short",
        [PanelQuery(_rate("gridwright_node_disk_io_time_weighted_seconds_total"), "{{instance}} {{device}}")],
    ),
    GrafanaPanel(
        "Room used",
        "percentunit",
        [PanelQuery(_used_room("instance, mountpoint"), "{{instance}} {{mountpoint}}")],
    ),
)
_JOBS = (
    GrafanaPanel("Moved, by job", "Bps", _both("job", "jobid", "{{jobid}}")),
    GrafanaPanel(
        "CPUs, by job",
        "short",
        [PanelQuery(f"sum by (jobid) ({_rate('gridwright_job_cpu_seconds_total')})", "{{jobid}}")],
    ),
    GrafanaPanel(
        "Memory, by job",
        "bytes",
        [PanelQuery(f"sum by (jobid) (gridwright_job_resident_bytes{{{_OF}}})", "{{jobid}}")],
    ),
    GrafanaPanel(
        "Jobs that moved most",
        "bytes",
        [
            PanelQuery(
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
    GrafanaPanel(
        "CPUs, by what they do",
        "short",
        [PanelQuery(f"sum by (mode) ({_rate(_CPU, _IS_USED)})", "{{mode}}")],
    ),
    GrafanaPanel("Pressure", "percentunit", [_pressure(each) for each in ("cpu", "io", "memory")]),
    GrafanaPanel(
        "Memory",
        "bytes",
        [
            PanelQuery(
                f"sum by (instance) (gridwright_node_memory_{what}_bytes{{{_OF}}})",
                f"{{{{instance}}}} {what}",
            )
            for what in ("size", "available", "dirty")
        ],
    ),
    GrafanaPanel("CPUs in iowait", "short", [_IO_WAIT]),
    GrafanaPanel(
        "Network",
        "Bps",
        [
            PanelQuery(
                _rate(f"gridwright_node_network_{way}_bytes_total"), f"{{{{instance}}}} {{{{device}}}} {way}"
            )
            for way in ("receive", "transmit")
        ],
    ),
    GrafanaPanel("Disks", "Bps", _both("node_disk", "instance, device", "{{instance}} {{device}}")),
    GrafanaPanel("Load", "short", [PanelQuery(f"gridwright_node_load1{{{_OF}}}", "{{instance}}")]),
    GrafanaPanel(
        "What sampling costs",
        "percentunit",
        [PanelQuery(_rate("gridwright_exporter_cpu_seconds_total"), "{{instance}}")],
        "Part of one core.",
    ),
)


def _of_targets(metric: str, word: str, component: str = "ost") -> PanelQuery:
    """What the targets of servers did, by target, whichever server has them."""
    return PanelQuery(
        f"sum by (target) ({_rate(metric, _component(component))})", f"{{{{target}}}} {word}".strip()
    )


def _component(name: str) -> str:
    return f',component="{name}"'


def _request_size(way: str) -> PanelQuery:
    moved, answered = (
        f"sum by (target) ({_rate(f'lustre_{way}_{what}_total')})" for what in ("bytes", "samples")
    )
    return PanelQuery(f"{moved} / {answered}", f"{{{{target}}}} {way}")


def _used_part(left: str, size: str) -> PanelQuery:
    return PanelQuery(f"max by (target) (1 - {left}{{{_OF}}} / {size}{{{_OF}}})", "{{target}}")


_SERVERS = (
    GrafanaPanel(
        "Moved, by target",
        "Bps",
        [_of_targets("lustre_read_bytes_total", "read"), _of_targets("lustre_write_bytes_total", "written")],
        "As servers of Lustre count it.",
    ),
    GrafanaPanel(
        "Moved, by job",
        "Bps",
        [
            PanelQuery(
                "topk(20, sum by (jobid) ("
                + " + ".join(
                    _rate(f"gridwright_served_job_{what}_bytes_total") for what in ("read", "written")
                )
                + "))",
                "{{jobid}}",
            )
        ],
        "The 20 that move most, as servers count them by Lustre's job ids.",
    ),
    GrafanaPanel(
        "Operations of metadata",
        "short",
        [
            PanelQuery(
                f"sum by (operation) ({_rate('lustre_stats_total', _component('mdt'))})", "{{operation}}"
            )
        ],
    ),
    GrafanaPanel(
        "Bytes for each request",
        "bytes",
        [_request_size("read"), _request_size("write")],
        "Much below the size of a stripe, somebody reads or writes in small pieces.",
    ),
    GrafanaPanel(
        "Room used",
        "percentunit",
        [_used_part("lustre_available_kilobytes", "lustre_capacity_kilobytes")],
    ),
    GrafanaPanel(
        "Files used",
        "percentunit",
        [_used_part("lustre_inodes_free", "lustre_inodes_maximum")],
        "Of those that a target has room for.",
    ),
    GrafanaPanel(
        "Connections, by state",
        "short",
        [PanelQuery(f"count by (state) (gridwright_connection_state{{{_OF}}})", "{{state}}")],
        "FULL, IDLE and NEW are well.",
    ),
    GrafanaPanel(
        "Recovery and health",
        "short",
        [
            PanelQuery(f"max by (target) (recovery_status{{{_OF}}})", "{{target}}"),
            PanelQuery(f"lustre_health_healthy{{{_OF}}}", "{{instance}} is healthy"),
        ],
        "Targets: 0 complete, 1 inactive, 2 and 3 waiting, 4 recovering. Servers: 1 is healthy.",
    ),
    GrafanaPanel(
        "Locks",
        "short",
        [PanelQuery(f"sum by (target) (lustre_lock_count{{{_OF}}})", "{{target}}")],
    ),
    GrafanaPanel(
        "Connected",
        "short",
        [PanelQuery(f"sum by (target) (lustre_exports{{{_OF}}})", "{{target}}")],
        "Clients of a target, and other targets.",
    ),
)
DASHBOARDS = {"grid": _GRID, "storage": _STORAGE, "servers": _SERVERS, "jobs": _JOBS, "node": _NODE}
"""By their names."""


_SCHEMA = 36
_WIDE, _HIGH = 12, 8
"""Of a panel, in the units of Grafana's grid of 24 columns."""


def dashboard_files() -> dict[str, str]:
    """Each dashboard as JSON by the name of its file; always the same."""
    return {
        f"gridwright-{name}.json": json.dumps(_dashboard(name, panels), indent=2) + "\n"
        for name, panels in DASHBOARDS.items()
    }


def _dashboard(name: str, panels: Sequence[GrafanaPanel]) -> dict[str, Any]:
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


def _panel(number: int, panel: GrafanaPanel) -> dict[str, Any]:
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
