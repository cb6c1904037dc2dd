"""Auto Scaling groups: a machine that died is replaced by one that claims its place.

Groups have a fixed size, but for those with nodes that the scheduler has powered on and off. What serves the
scheduler on the head node (package `power`) sets theirs, and no template says it: CloudFormation sets what a
template says whenever the group is updated.
"""

from __future__ import annotations

from troposphere import GetAtt, Ref, autoscaling

from gridwright.providers.aws.launching import Building, launch_template, subnet
from gridwright.providers.aws.layout import Machine
from gridwright.providers.aws.names import GROUP_TAG, group_name, tags
from gridwright.providers.aws.running import most_of, size_of
from gridwright.providers.aws.user_data import UserData

METRICS = ("GroupDesiredCapacity", "GroupInServiceInstances")
"""What an alarm holds against each other; groups tell nothing that they are not asked for, and it is free."""
NEWEST = ["NewestInstance"]
"""Where the size of a group is lowered while a machine of it starts, that one goes: it has no job yet."""


def add_group(
    building: Building, title: str, machines: tuple[Machine, ...], data: UserData, after: list[str]
) -> None:
    """The group of these machines, which are alike; `after` has logical IDs of what must be there first.

    An update of the stack replaces none of them: it would end the jobs that run there. Other launch data are
    for machines that start from then on, and the program `roll` replaces those that are there.
    """
    first, count = machines[0], len(machines)
    powered = any(each.powered for each in machines)
    size = size_of(title)
    template = launch_template(building, first, title, data)
    name = group_name(building.spec.name, first.group, str(first.role), serves=first.role.serves_lustre)
    marks = {**tags(building.spec, role=str(first.role)), "Name": name}
    of_group = autoscaling.Tags(**{name: (value, True) for name, value in marks.items()})
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
        )
    )
