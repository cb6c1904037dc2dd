"""Alarms of FSx for Lustre: space that runs out, and throughput that is used up; and what all alarms have.

Whom to call is the site's: without a topic they stand in the console of CloudWatch alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from troposphere import Ref, Tags, cloudwatch

from gridwright.catalog.contents import Catalog
from gridwright.providers.aws.fsx import GIB, bought_tier, stored_gib
from gridwright.providers.aws.layout import fsx_file_systems
from gridwright.providers.aws.names import logical_id, tags
from gridwright.providers.aws.section import Aws
from gridwright.spec.model import GridSpec

TIB = 2**40
FREE_SHARE = 0.10
"""A Lustre whose targets fill up gets slow before it is full."""
BUSY_SHARE = 0.90
PERIOD_S = 60
"""FSx reports once a minute, and the sum over a longer period would count the free space several times
(FSx for Lustre User Guide, metrics and dimensions)."""
MINUTES = 15
"""For how long it has to last."""


def fsx_alarms(spec: GridSpec, name: str, catalog: Catalog) -> Iterator[cloudwatch.Alarm]:
    """The alarms of one file system."""
    filesystem = fsx_file_systems(spec)[name]
    deployment = catalog.deployment(filesystem.deployment)
    capacity = stored_gib(filesystem, deployment) * GIB
    bought = bought_tier(filesystem, deployment) * capacity / TIB
    yield cloudwatch.Alarm(
        logical_id(name, "FreeSpace"),
        AlarmDescription=f"Less than {FREE_SHARE:.0%} of {name} in grid {spec.name} is free: "
        "remove files, or write a larger capacity",
        Namespace="AWS/FSx",
        MetricName="FreeDataStorageCapacity",
        Dimensions=_dimensions(name),
        Statistic="Sum",
        ComparisonOperator="LessThanThreshold",
        Threshold=round(FREE_SHARE * capacity),
        TreatMissingData="missing",
        **lasting(MINUTES),
        **acting(spec),
        Period=PERIOD_S,
    )
    yield cloudwatch.Alarm(
        logical_id(name, "Throughput"),
        AlarmDescription=f"{name} in grid {spec.name} has passed {BUSY_SHARE:.0%} of the throughput that was "
        f"bought for {MINUTES} minutes: jobs wait for it; write more throughput, or a larger capacity",
        Metrics=[
            *(_moved(name, each) for each in ("read", "write")),
            cloudwatch.MetricDataQuery(
                Id="rate",
                Expression=f"(read + write) / {PERIOD_S}",
                Label="bytes per second",
                ReturnData=True,
            ),
        ],
        ComparisonOperator="GreaterThanThreshold",
        Threshold=round(BUSY_SHARE * bought),
        TreatMissingData="notBreaching",
        **lasting(MINUTES),
        **acting(spec),
    )


def acting(spec: GridSpec, *, tells_end: bool = True) -> dict[str, object]:
    """What every alarm has: whom it calls, when it is raised and (`tells_end`) when it ends; tags."""
    aws = spec.section(Aws)
    topic = aws.alarms.topic if aws and aws.alarms else None
    found: dict[str, object] = {"Tags": Tags(tags(spec, role="alarm"))}
    if topic is not None:
        found["AlarmActions"] = [topic]
    if topic is not None and tells_end:
        found["OKActions"] = [topic]
    return found


def lasting(minutes: int) -> dict[str, int]:
    """For how many minutes in a row something has to be, of metrics by the minute."""
    return {"EvaluationPeriods": minutes, "DatapointsToAlarm": minutes}


def _dimensions(name: str) -> list[cloudwatch.MetricDimension]:
    return [cloudwatch.MetricDimension(Name="FileSystemId", Value=Ref(logical_id(name)))]


def _moved(name: str, way: str) -> cloudwatch.MetricDataQuery:
    metric = cloudwatch.Metric(
        Namespace="AWS/FSx", MetricName=f"Data{way.capitalize()}Bytes", Dimensions=_dimensions(name)
    )
    return cloudwatch.MetricDataQuery(
        Id=way,
        MetricStat=cloudwatch.MetricStat(Metric=metric, Period=PERIOD_S, Stat="Sum"),
        ReturnData=False,
    )
