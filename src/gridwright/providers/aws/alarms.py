"""Alarms of both stacks: space and throughput of file systems, machines, their set-up, and scheduled tasks.

Whom to call is the site's: without a topic they stand in the console of CloudWatch alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from troposphere import Ref, Tags, cloudwatch

from gridwright.catalog.contents import Catalog
from gridwright.catalog.managed import ManagedDeployment
from gridwright.filesystems.provided import ManagedLustre
from gridwright.providers.aws.launching import machine_id
from gridwright.providers.aws.layout import AwsLayout, Role, fsx_file_systems
from gridwright.providers.aws.machine_files import FAILURES, GRID, NAMESPACE
from gridwright.providers.aws.names import logical_id, server_group, tags
from gridwright.providers.aws.section import Aws
from gridwright.providers.file_servers import built_lustres
from gridwright.spec.model import GridSpec

GIB, TIB = 2**30, 2**40
FREE_SHARE = 0.10
"""A Lustre whose targets fill up gets slow before it is full."""
BUSY_SHARE = 0.90
PERIOD_S = 60
"""FSx reports once a minute, and the sum over a longer period would count the free space several times
(FSx for Lustre User Guide, metrics and dimensions)."""
MINUTES = 15
"""For how long it has to last of an FSx for Lustre."""
FILE_SYSTEM = "FileSystem"
DOWN, FREE = "TargetsDown", "TargetFree"
"""Targets of a server that are not served, and percent of the fullest target that is free: servers of a
Lustre report both once a minute (`lustre_health.py`)."""
TARGET_PERIOD_S = 300
TARGET_PERIODS = 3
"""Longer than a server takes to be replaced, as a rule, and recovery after it."""
LEAST_TOLD = 3
"""Of the five times that a server tells in a period: one that tells less often hangs, or cannot tell."""
FAILURES_S = 900
"""Machines count a failure when they give up, or after every few tries: it stands for one such period."""
MISSING_MINUTES = 30
"""Longer than a machine takes to start and to be set up."""
BROKEN_MINUTES = 5


class WatchedMetric(NamedTuple):
    """A metric, and what is made of its values in a period."""

    namespace: str
    metric: str
    dimensions: Mapping[str, Any]
    statistic: str
    period_s: int

    def properties(self) -> dict[str, Any]:
        """As an alarm has them."""
        named = [cloudwatch.MetricDimension(Name=name, Value=each) for name, each in self.dimensions.items()]
        return {"Namespace": self.namespace, "MetricName": self.metric, "Dimensions": named}

    def query(self, name: str) -> cloudwatch.MetricDataQuery:
        """As a part of an expression, under a name."""
        metric = cloudwatch.Metric(**self.properties())
        stat = cloudwatch.MetricStat(Metric=metric, Period=self.period_s, Stat=self.statistic)
        return cloudwatch.MetricDataQuery(Id=name, MetricStat=stat, ReturnData=False)


def _expression(name: str, text: str, label: str) -> cloudwatch.MetricDataQuery:
    return cloudwatch.MetricDataQuery(Id=name, Expression=text, Label=label, ReturnData=True)


def _alarm(
    spec: GridSpec,
    title: str,
    description: str,
    watched: WatchedMetric | Sequence[cloudwatch.MetricDataQuery],
    *,
    above: float = 0,
    below: float | None = None,
    times: int = 1,
    tells_end: bool = True,
    **more: str,
) -> cloudwatch.Alarm:
    """An alarm for a metric, or an expression, that is out of bounds so many periods in a row.

    It calls the topic of the spec when it is raised and (`tells_end`) when it ends. A grid that was stopped
    tells nothing, so that missing data are well unless `more` properties say otherwise.
    """
    aws = spec.section(Aws)
    topic = [aws.alarms.topic] if aws and aws.alarms else []
    what: dict[str, Any] = {"Metrics": list(watched)}
    if isinstance(watched, WatchedMetric):
        what = {**watched.properties(), "Statistic": watched.statistic, "Period": watched.period_s}
    return cloudwatch.Alarm(
        title,
        AlarmDescription=description,
        **what,
        ComparisonOperator="GreaterThanThreshold" if below is None else "LessThanThreshold",
        Threshold=above if below is None else below,
        **{"TreatMissingData": "notBreaching", **more},
        EvaluationPeriods=times,
        **({"DatapointsToAlarm": times} if times > 1 else {}),
        **({"AlarmActions": topic} if topic else {}),
        **({"OKActions": topic} if topic and tells_end else {}),
        Tags=Tags(tags(spec, role="alarm")),
    )


def stored_gib(filesystem: ManagedLustre, deployment: ManagedDeployment) -> int:
    """Capacity as AWS counts it; 2.4 TiB of its web pages is 2400."""
    return deployment.nearest_capacities(filesystem.capacity)[1] // GIB


def bought_tier(filesystem: ManagedLustre, deployment: ManagedDeployment) -> float:
    """Bytes per second for each TiB."""
    return float(filesystem.throughput or min(deployment.tiers))


def fsx_alarms(spec: GridSpec, name: str, catalog: Catalog) -> Iterator[cloudwatch.Alarm]:
    """Those of one FSx for Lustre: space that runs out, and throughput that is used up."""
    filesystem = fsx_file_systems(spec)[name]
    deployment = catalog.deployment(filesystem.deployment)
    capacity = stored_gib(filesystem, deployment) * GIB
    bought = bought_tier(filesystem, deployment) * capacity / TIB

    def of(metric: str) -> WatchedMetric:
        return WatchedMetric("AWS/FSx", metric, {"FileSystemId": Ref(logical_id(name))}, "Sum", PERIOD_S)

    yield _alarm(
        spec,
        logical_id(name, "FreeSpace"),
        f"Less than {FREE_SHARE:.0%} of {name} in grid {spec.name} is free: "
        "remove files, or write a larger capacity",
        of("FreeDataStorageCapacity"),
        below=round(FREE_SHARE * capacity),
        times=MINUTES,
        TreatMissingData="missing",
    )
    yield _alarm(
        spec,
        logical_id(name, "Throughput"),
        f"{name} in grid {spec.name} has passed {BUSY_SHARE:.0%} of the throughput that was "
        f"bought for {MINUTES} minutes: jobs wait for it; write more throughput, or a larger capacity",
        [
            of("DataReadBytes").query("read"),
            of("DataWriteBytes").query("write"),
            _expression("rate", f"(read + write) / {PERIOD_S}", "bytes per second"),
        ],
        above=round(BUSY_SHARE * bought),
        times=MINUTES,
    )


def schedule_alarm(spec: GridSpec, title: str, group: str) -> cloudwatch.Alarm:
    """Raised when a task of a group of schedules could not be started in all of its tries."""
    return _alarm(
        spec,
        title,
        f"A scheduled export or import of grid {spec.name} could not be started: see gridwright repo status",
        WatchedMetric("AWS/Scheduler", "InvocationDroppedCount", {"ScheduleGroup": Ref(group)}, "Sum", 300),
    )


def grid_alarms(spec: GridSpec, layout: AwsLayout, groups: Sequence[str]) -> Iterator[cloudwatch.Alarm]:
    """Those of the grid stack; `groups` are logical IDs of its Auto Scaling groups."""
    yield _alarm(
        spec,
        "SetUpFails",
        f"A machine of grid {spec.name} cannot be set up: gridwright status says which one "
        "and why, and its log lies in the grid's bucket below boot-logs",
        WatchedMetric(NAMESPACE, FAILURES, {GRID: spec.name}, "Sum", FAILURES_S),
        # Its end says only that nobody counted lately, not that the machine is well.
        tells_end=False,
    )
    yield from (_missing(spec, title) for title in groups)
    yield from _broken(spec, layout)
    for name in built_lustres(spec):
        servers = [server_group(name, role) for role in Role if role.serves_lustre]
        yield from _target_alarms(spec, name, [title for title in servers if title in groups])


def _of_group(title: str, metric: str, period_s: int) -> WatchedMetric:
    return WatchedMetric("AWS/AutoScaling", metric, {"AutoScalingGroupName": Ref(title)}, "Minimum", period_s)


def _missing(spec: GridSpec, title: str) -> cloudwatch.Alarm:
    """A group that has fewer machines in service than it should."""
    return _alarm(
        spec,
        f"{title}Missing",
        f"Machines of {title} in grid {spec.name} have been missing for {MISSING_MINUTES} "
        "minutes: gridwright status says which, and the group's activity in the console of EC2 why",
        [
            _of_group(title, "GroupDesiredCapacity", PERIOD_S).query("wanted"),
            _of_group(title, "GroupInServiceInstances", PERIOD_S).query("there"),
            _expression("missing", "wanted - there", "missing machines"),
        ],
        times=MISSING_MINUTES,
    )


def _broken(spec: GridSpec, layout: AwsLayout) -> Iterator[cloudwatch.Alarm]:
    """Head, login node, servers in pairs and other machines that nothing replaces: the checks of EC2 fail."""
    for machine in layout.of_role(Role.LOGIN, Role.HEAD, Role.MACHINE, Role.NSD):
        if not machine.replaced:
            title = machine_id(machine)
            yield _alarm(
                spec,
                f"{title}Broken",
                f"EC2's status checks of {machine.name} in grid {spec.name} fail: "
                "stop and start it, or look at it by Session Manager",
                WatchedMetric(
                    "AWS/EC2", "StatusCheckFailed", {"InstanceId": Ref(title)}, "Maximum", PERIOD_S
                ),
                times=BROKEN_MINUTES,
            )


def _target_alarms(spec: GridSpec, filesystem: str, groups: Sequence[str]) -> Iterator[cloudwatch.Alarm]:
    """Those of a Lustre on servers of the grid's own, which are in these groups."""

    def of(metric: str, statistic: str) -> WatchedMetric:
        dimensions = {GRID: spec.name, FILE_SYSTEM: filesystem}
        return WatchedMetric(NAMESPACE, metric, dimensions, statistic, TARGET_PERIOD_S)

    sizes = {f"servers{number}": title for number, title in enumerate(groups, start=1)}
    yield _alarm(
        spec,
        logical_id(filesystem, "Targets"),
        f"Targets of {filesystem} in grid {spec.name} are not served, or a server does not "
        "tell: files on them wait; gridwright status says which server, and lctl there why",
        [
            of(DOWN, "Maximum").query("down"),
            of(DOWN, "SampleCount").query("told"),
            *(
                _of_group(title, "GroupInServiceInstances", TARGET_PERIOD_S).query(name)
                for name, title in sizes.items()
            ),
            _expression(
                "wrong",
                f"IF(told < {LEAST_TOLD} * ({'+'.join(sizes)}), 1, down)",
                "targets that are not served, or 1 for a silent server",
            ),
        ],
        times=TARGET_PERIODS,
    )
    yield _alarm(
        spec,
        logical_id(filesystem, "FreeSpace"),
        f"A target of {filesystem} in grid {spec.name} has less than {FREE_SHARE:.0%} free: "
        "remove files, write larger disks, or move files to other targets",
        of(FREE, "Minimum"),
        below=100 * FREE_SHARE,
        times=TARGET_PERIODS,
    )
