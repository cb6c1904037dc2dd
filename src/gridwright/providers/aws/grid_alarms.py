"""Alarms of the grid stack: machines that cannot be set up, that are missing, or that do not serve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from troposphere import Ref, cloudwatch

from gridwright.providers.aws.alarms import acting, lasting
from gridwright.providers.aws.boot_reports import FAILURES, GRID, NAMESPACE
from gridwright.providers.aws.launching import Building, machine_id
from gridwright.providers.aws.layout import Role
from gridwright.providers.aws.names import server_group
from gridwright.providers.aws.target_alarms import target_alarms
from gridwright.providers.lustre_servers import built_lustres
from gridwright.spec.model import GridSpec

FAILURES_S = 900
"""Machines count a failure when they give up, or after every few tries: it stands for one such period."""
MISSING_MINUTES = 30
"""Longer than a machine takes to start and to be set up."""
BROKEN_MINUTES = 5
_PERIOD_S = 60


def add_grid_alarms(building: Building, groups: Sequence[str]) -> list[str]:
    """Add the alarms and return their logical IDs; `groups` are those of Auto Scaling groups."""
    spec = building.spec
    alarms = [
        _set_up_fails(spec),
        *(_missing(spec, title) for title in groups),
        *_broken(building),
        *_targets(spec, groups),
    ]
    for alarm in alarms:
        building.template.add_resource(alarm)
    return [str(each.title) for each in alarms]


def _set_up_fails(spec: GridSpec) -> cloudwatch.Alarm:
    return cloudwatch.Alarm(
        "SetUpFails",
        AlarmDescription=f"A machine of grid {spec.name} cannot be set up: gridwright status says which one "
        "and why, and its log lies in the grid's bucket below boot-logs",
        Namespace=NAMESPACE,
        MetricName=FAILURES,
        Dimensions=[cloudwatch.MetricDimension(Name=GRID, Value=spec.name)],
        Statistic="Sum",
        Period=FAILURES_S,
        EvaluationPeriods=1,
        ComparisonOperator="GreaterThanThreshold",
        Threshold=0,
        TreatMissingData="notBreaching",
        # Its end says only that nobody counted lately, not that the machine is well.
        **acting(spec, tells_end=False),
    )


def _missing(spec: GridSpec, title: str) -> cloudwatch.Alarm:
    """A group that has fewer machines in service than it should."""
    return cloudwatch.Alarm(
        f"{title}Missing",
        AlarmDescription=f"Machines of {title} in grid {spec.name} have been missing for {MISSING_MINUTES} "
        "minutes: gridwright status says which, and the group's activity in the console of EC2 why",
        Metrics=[
            _of_group("wanted", "GroupDesiredCapacity", title),
            _of_group("there", "GroupInServiceInstances", title),
            cloudwatch.MetricDataQuery(
                Id="missing", Expression="wanted - there", Label="missing machines", ReturnData=True
            ),
        ],
        ComparisonOperator="GreaterThanThreshold",
        Threshold=0,
        TreatMissingData="notBreaching",
        **lasting(MISSING_MINUTES),
        **acting(spec),
    )


def _targets(spec: GridSpec, groups: Sequence[str]) -> Iterator[cloudwatch.Alarm]:
    """Those of each Lustre on servers of the grid's own."""
    for name in built_lustres(spec):
        servers = [server_group(name, role) for role in Role if role.serves_lustre]
        yield from target_alarms(spec, name, [title for title in servers if title in groups])


def _of_group(name: str, metric: str, title: str) -> cloudwatch.MetricDataQuery:
    dimension = cloudwatch.MetricDimension(Name="AutoScalingGroupName", Value=Ref(title))
    watched = cloudwatch.Metric(Namespace="AWS/AutoScaling", MetricName=metric, Dimensions=[dimension])
    return cloudwatch.MetricDataQuery(
        Id=name,
        MetricStat=cloudwatch.MetricStat(Metric=watched, Period=_PERIOD_S, Stat="Minimum"),
        ReturnData=False,
    )


def _broken(building: Building) -> Iterator[cloudwatch.Alarm]:
    """Head, login node, servers in pairs and other machines that nothing replaces: the checks of EC2 fail."""
    for machine in building.layout.of_role(Role.LOGIN, Role.HEAD, Role.MACHINE, Role.NSD):
        if machine.replaced:
            continue
        title = machine_id(machine)
        yield cloudwatch.Alarm(
            f"{title}Broken",
            AlarmDescription=f"EC2's status checks of {machine.name} in grid {building.spec.name} fail: "
            f"stop and start it, or look at it by Session Manager",
            Namespace="AWS/EC2",
            MetricName="StatusCheckFailed",
            Dimensions=[cloudwatch.MetricDimension(Name="InstanceId", Value=Ref(title))],
            Statistic="Maximum",
            Period=_PERIOD_S,
            ComparisonOperator="GreaterThanThreshold",
            Threshold=0,
            TreatMissingData="notBreaching",
            **lasting(BROKEN_MINUTES),
            **acting(building.spec),
        )
