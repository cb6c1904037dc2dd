"""Dashboards for Grafana, out of the panels (pure).

Written by the JSON model of Grafana's documents (schemaVersion 36, Grafana 9 and later); there is no Grafana
here that they could have been loaded in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from gridwright.monitor.exporter.panels import DASHBOARDS, GrafanaPanel

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
