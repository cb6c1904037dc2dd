"""Auto Scaling groups: a machine that died is replaced by one that claims its place.

Groups have a fixed size, but for those with nodes that the scheduler has powered on and off. What serves the
scheduler on the head node (package `power`) sets theirs, and no template says it: CloudFormation sets what a
template says whenever the group is updated.
"""

from __future__ import annotations

import math

from troposphere import GetAtt, Ref, autoscaling
from troposphere.policies import AutoScalingRollingUpdate, UpdatePolicy

from gridwright.providers.aws.launching import Building, launch_template, subnet
from gridwright.providers.aws.layout import Machine
from gridwright.providers.aws.names import GROUP_TAG, tags
from gridwright.providers.aws.running import most_of, size_of
from gridwright.providers.aws.user_data import UserData

SET_UP = "PT1H"
"""How long an update waits for a machine that replaces another one."""
BATCHES = 20
"""Nodes of a group are replaced in so many steps at most, so that an update of a thousand ends; servers of a
Lustre one at a time."""
METRICS = ("GroupDesiredCapacity", "GroupInServiceInstances")
"""What an alarm holds against each other; groups tell nothing that they are not asked for, and it is free."""
NEWEST = ["NewestInstance"]
"""Where the size of a group is lowered while a machine of it starts, that one goes: it has no job yet."""
_HELD = ["AlarmNotification", "AZRebalance", "HealthCheck", "ReplaceUnhealthy", "ScheduledActions"]
"""What a group must not do while it is updated (CloudFormation, UpdatePolicy attribute)."""


def add_group(
    building: Building, title: str, machines: tuple[Machine, ...], data: UserData, after: list[str]
) -> None:
    """The group of these machines, which are alike; `after` has logical IDs of what must be there first.

    An update replaces some at a time, and goes on when the new ones have told that they are set up.
    """
    first, count = machines[0], len(machines)
    powered = any(each.powered for each in machines)
    at_once = 1 if first.role.serves_lustre else math.ceil(count / BATCHES)
    size = size_of(title)
    template = launch_template(building, first, title, data)
    parts = [building.spec.name, first.group, *([str(first.role)] if first.role.serves_lustre else [])]
    marks = {**tags(building.spec, role=str(first.role)), "Name": "-".join(parts)}
    of_group = autoscaling.Tags(**{name: (value, True) for name, value in marks.items()})
    least = sum(not each.powered for each in machines) if powered else count
    building.template.add_resource(
        autoscaling.AutoScalingGroup(
            title,
            DependsOn=[*building.after, *after],
            MinSize=size,
            MaxSize=most_of(title) if powered else str(count),
            **({"TerminationPolicies": NEWEST} if powered else {"DesiredCapacity": size}),
            LaunchTemplate=autoscaling.LaunchTemplateSpecification(
                LaunchTemplateId=Ref(template), Version=GetAtt(template, "LatestVersionNumber")
            ),
            VPCZoneIdentifier=[subnet(building, first)],
            HealthCheckType="EC2",
            HealthCheckGracePeriod=600,
            MetricsCollection=[autoscaling.MetricsCollection(Granularity="1Minute", Metrics=[*METRICS])],
            Tags=of_group + autoscaling.Tags(**{GROUP_TAG: (first.group, False)}) if powered else of_group,
            UpdatePolicy=UpdatePolicy(
                AutoScalingRollingUpdate=AutoScalingRollingUpdate(
                    MinInstancesInService=str(max(0, least - at_once)),
                    MaxBatchSize=str(at_once),
                    PauseTime=SET_UP,
                    WaitOnResourceSignals=True,
                    SuspendProcesses=_HELD,
                )
            ),
        )
    )
