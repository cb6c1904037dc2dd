"""The dashboard of a grid in CloudWatch: alarms, machines, file systems, nodes, on one page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from troposphere import GetAtt, Ref, Sub, Tags, cloudwatch

from gridwright.providers.aws.boot_reports import FAILURES, GRID, NAMESPACE
from gridwright.providers.aws.launching import Building
from gridwright.providers.aws.layout import fsx_file_systems
from gridwright.providers.aws.names import fsx_export, logical_id, of_account, tags
from gridwright.providers.aws.target_alarms import DOWN, FILE_SYSTEM, FREE
from gridwright.providers.aws.user_data import exported
from gridwright.providers.lustre_servers import built_lustres

WIDTH, HEIGHT = 12, 6
"""Of a graph: two in a row of 24 columns (CloudWatch User Guide, dashboard body structure)."""
PERIOD_S = 60
EC2_PERIOD_S = 300
"""Without detailed monitoring EC2 tells every five minutes."""
GIB = 2**30
Metric = list[Any]


@dataclass
class _Page:
    """Graphs, and what CloudFormation puts into them."""

    widgets: list[dict[str, Any]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def value(self, name: str, function: Any) -> str:  # noqa: ANN401 - a function of CloudFormation
        """A place in the text that CloudFormation puts the value of a function into."""
        self.values[name] = function
        return f"${{{name}}}"

    def graph(self, title: str, metrics: Sequence[Metric], *, stat: str = "Average", **more: object) -> None:
        """Add a graph of metrics over time, beside or below the ones before it."""
        count = sum(each["type"] == "metric" for each in self.widgets)
        properties = {
            "title": title,
            "metrics": list(metrics),
            "view": "timeSeries",
            "stat": stat,
            "period": PERIOD_S,
            "region": "${AWS::Region}",
            "yAxis": {"left": {"min": 0}},
            **more,
        }
        self.widgets.append(
            {
                "type": "metric",
                "x": count % 2 * WIDTH,
                "y": 4 + count // 2 * HEIGHT,
                "width": WIDTH,
                "height": HEIGHT,
                "properties": properties,
            }
        )


def add_dashboard(building: Building, groups: Sequence[str], alarms: Sequence[str]) -> None:
    """Add it; `groups` are logical IDs of Auto Scaling groups, `alarms` those of the stack's alarms."""
    if not building.layout.aws.dashboard:
        return
    page = _Page()
    arns = [page.value(each, GetAtt(each, "Arn")) for each in alarms]
    page.widgets.append(
        {
            "type": "alarm",
            "x": 0,
            "y": 0,
            "width": 2 * WIDTH,
            "height": 4,
            "properties": {"title": f"Alarms of grid {building.spec.name}", "alarms": arns},
        }
    )
    _machines(page, building, groups)
    for name in fsx_file_systems(building.spec):
        _file_system(page, building, name)
    for name in built_lustres(building.spec):
        _targets(page, building, name)
    if groups:
        _traffic(page, groups)
    body = json.dumps({"widgets": page.widgets}, separators=(",", ":"))
    building.template.add_resource(
        cloudwatch.Dashboard(
            "Dashboard",
            DashboardName=of_account(building.spec),
            DashboardBody=Sub(body, **page.values),
            Tags=Tags(tags(building.spec, role="dashboard")),
        )
    )


def _machines(page: _Page, building: Building, groups: Sequence[str]) -> None:
    """Machines that are there and that should be, and boots that failed."""
    there = [
        ["AWS/AutoScaling", metric, "AutoScalingGroupName", page.value(title, Ref(title)), {"label": label}]
        for title in groups
        for metric, label in (
            ("GroupDesiredCapacity", f"{title} wanted"),
            ("GroupInServiceInstances", f"{title} in service"),
        )
    ]
    if there:
        page.graph("Machines", there, stat="Minimum")
    failures = [NAMESPACE, FAILURES, GRID, building.spec.name, {"label": "failures"}]
    page.graph("Machines that could not be set up", [failures], stat="Sum", period=900)


def _file_system(page: _Page, building: Building, name: str) -> None:
    """Bytes per second, free space and metadata operations of an FSx for Lustre."""
    title = logical_id(name)
    number = page.value(f"{title}Id", exported(building.spec, fsx_export(name, "Id")))

    def of(metric: str) -> Metric:
        return ["AWS/FSx", metric, "FileSystemId", number]

    moved = [*_rate(of("DataReadBytes"), "read", 1e6), *_rate(of("DataWriteBytes"), "write", 1e6)]
    page.graph(f"{name}: MB/s", moved, stat="Sum")
    free = [
        [*of("FreeDataStorageCapacity"), {"id": "free", "visible": False}],
        [{"expression": f"free / {GIB}", "label": "GiB free", "id": "gib"}],
    ]
    page.graph(f"{name}: free space", free, stat="Sum")
    page.graph(
        f"{name}: metadata operations per second", [*_rate(of("MetadataOperations"), "all", 1)], stat="Sum"
    )


def _targets(page: _Page, building: Building, name: str) -> None:
    """What servers of a Lustre of the grid's own tell of its targets."""
    of = [GRID, building.spec.name, FILE_SYSTEM, name]
    down = [NAMESPACE, DOWN, *of, {"label": "targets of one server"}]
    page.graph(f"{name}: targets that are not served", [down], stat="Maximum")
    page.graph(f"{name}: percent free of the fullest target", [[NAMESPACE, FREE, *of]], stat="Minimum")


def _rate(metric: Metric, label: str, unit: float) -> Iterator[Metric]:
    """A sum over a period as a rate; the sum itself is not drawn."""
    key = label.lower().replace(" ", "_")
    yield [*metric, {"id": f"sum_{key}", "visible": False}]
    yield [{"expression": f"sum_{key} / PERIOD(sum_{key}) / {unit:.0f}", "label": label, "id": key}]


def _traffic(page: _Page, groups: Sequence[str]) -> None:
    """What the machines of each group send and receive, and how busy their processors are."""

    def of(metric: str, title: str) -> Metric:
        return ["AWS/EC2", metric, "AutoScalingGroupName", page.value(title, Ref(title))]

    sums = [
        each
        for title in groups
        for metric, way in (("NetworkIn", "in"), ("NetworkOut", "out"))
        for each in _rate(of(metric, title), f"{title} {way}", 1e6)
    ]
    page.graph("Network of each group: MB/s", sums, stat="Sum", period=EC2_PERIOD_S)
    busy = [[*of("CPUUtilization", title), {"label": title}] for title in groups]
    page.graph("Processors of each group: percent", busy, period=EC2_PERIOD_S)
