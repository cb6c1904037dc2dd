"""Alarms of a Lustre on servers of the grid's own: targets that are not served, and space that runs out.

Servers tell both once a minute (`lustre_health.py` of the role lustre_server).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from troposphere import Ref, cloudwatch

from gridwright.providers.aws.alarms import FREE_SHARE, acting
from gridwright.providers.aws.boot_reports import GRID, NAMESPACE
from gridwright.providers.aws.names import logical_id
from gridwright.spec.model import GridSpec

FILE_SYSTEM = "FileSystem"
DOWN, FREE = "TargetsDown", "TargetFree"
"""Targets of a server that are not served, and percent of the fullest target that is free."""
PERIOD_S = 300
PERIODS = 3
"""Longer than a server takes to be replaced, as a rule, and recovery after it."""
LEAST_TOLD = 3
"""Of the five times that a server tells in a period: one that tells less often hangs, or cannot tell."""


def target_alarms(spec: GridSpec, filesystem: str, groups: Sequence[str]) -> Iterator[cloudwatch.Alarm]:
    """The alarms of one Lustre; `groups` are logical IDs of the Auto Scaling groups of its servers."""
    servers = [_servers(f"servers{number}", title) for number, title in enumerate(groups, start=1)]
    count = "+".join(f"servers{number}" for number, _ in enumerate(groups, start=1))
    yield cloudwatch.Alarm(
        logical_id(filesystem, "Targets"),
        AlarmDescription=f"Targets of {filesystem} in grid {spec.name} are not served, or a server does not "
        "tell: files on them wait; gridwright status says which server, and lctl there why",
        Metrics=[
            _metric_query(spec, filesystem, "down", DOWN, "Maximum"),
            _metric_query(spec, filesystem, "told", DOWN, "SampleCount"),
            *servers,
            cloudwatch.MetricDataQuery(
                Id="wrong",
                Expression=f"IF(told < {LEAST_TOLD} * ({count}), 1, down)",
                Label="targets that are not served, or 1 for a silent server",
                ReturnData=True,
            ),
        ],
        ComparisonOperator="GreaterThanThreshold",
        Threshold=0,
        # A grid that was stopped tells nothing.
        TreatMissingData="notBreaching",
        EvaluationPeriods=PERIODS,
        DatapointsToAlarm=PERIODS,
        **acting(spec),
    )
    yield cloudwatch.Alarm(
        logical_id(filesystem, "FreeSpace"),
        AlarmDescription=f"A target of {filesystem} in grid {spec.name} has less than {FREE_SHARE:.0%} free: "
        "remove files, write larger disks, or move files to other targets",
        Namespace=NAMESPACE,
        MetricName=FREE,
        Dimensions=_dimensions(spec, filesystem),
        Statistic="Minimum",
        Period=PERIOD_S,
        ComparisonOperator="LessThanThreshold",
        Threshold=100 * FREE_SHARE,
        TreatMissingData="notBreaching",
        EvaluationPeriods=PERIODS,
        DatapointsToAlarm=PERIODS,
        **acting(spec),
    )


def _dimensions(spec: GridSpec, filesystem: str) -> list[cloudwatch.MetricDimension]:
    return [
        cloudwatch.MetricDimension(Name=GRID, Value=spec.name),
        cloudwatch.MetricDimension(Name=FILE_SYSTEM, Value=filesystem),
    ]


def _metric_query(
    spec: GridSpec, filesystem: str, name: str, metric: str, statistic: str
) -> cloudwatch.MetricDataQuery:
    watched = cloudwatch.Metric(
        Namespace=NAMESPACE, MetricName=metric, Dimensions=_dimensions(spec, filesystem)
    )
    return cloudwatch.MetricDataQuery(
        Id=name,
        MetricStat=cloudwatch.MetricStat(Metric=watched, Period=PERIOD_S, Stat=statistic),
        ReturnData=False,
    )


def _servers(name: str, title: str) -> cloudwatch.MetricDataQuery:
    dimension = cloudwatch.MetricDimension(Name="AutoScalingGroupName", Value=Ref(title))
    watched = cloudwatch.Metric(
        Namespace="AWS/AutoScaling", MetricName="GroupInServiceInstances", Dimensions=[dimension]
    )
    return cloudwatch.MetricDataQuery(
        Id=name,
        MetricStat=cloudwatch.MetricStat(Metric=watched, Period=PERIOD_S, Stat="Minimum"),
        ReturnData=False,
    )
