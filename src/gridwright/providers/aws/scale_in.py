"""Nodes that leave a grid whose spec names fewer: those whose names go, and no others.

Auto Scaling chooses by itself which machines of a group that shrinks end. So those that stay are protected
from that while the group is made smaller, and what leaves is gone before its interface is removed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gridwright.errors import Problem, environment_error
from gridwright.providers.aws.grid_template import groups_of
from gridwright.providers.aws.instances import claims, instances, rows
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.session import Cloud
from gridwright.providers.caller import Caller
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec

AT_ONCE = 50
"""Instances of one call (Amazon EC2 Auto Scaling API Reference, SetInstanceProtection)."""
LONGEST_S = 1800.0
POLL_S = 5.0


def scaled_in_nodes(deployed: AwsLayout, desired: AwsLayout) -> dict[str, tuple[Machine, ...]]:
    """Nodes of the grid as it is deployed that the spec has no more, by group."""
    stay = {each.name for each in desired.machines}
    gone = [each for each in deployed.of_role(Role.COMPUTE) if each.name not in stay]
    return {name: tuple(found) for name, found in itertools.groupby(gone, lambda each: each.group)}


def unnamed(
    spec: GridSpec, gone: Mapping[str, Sequence[Machine]], replace: Collection[str]
) -> Iterator[Problem]:
    """Nodes that would go with the jobs on them, unless --replace names their group."""
    for group, machines in gone.items():
        if group in replace:
            continue
        nodes = fold_hosts([each.name for each in machines])
        drain = f"scontrol update NodeName={nodes} State=DRAIN Reason=leaves"
        yield problem_at(
            spec,
            ("nodes", group, "count") if group in spec.nodes else ("nodes",),
            f"{nodes} would go, with the jobs on them and what lies on their disks",
            f"drain them first, on the head node: {drain}; when sinfo says drained, run gridwright up with "
            f"--replace {group}; or write it as it was",
        )


@dataclass(frozen=True)
class Shrinking:
    """Groups that become smaller: `deployed` is the grid as it is, `physical` the resources of its stack."""

    cloud: Cloud
    caller: Caller
    spec: GridSpec
    deployed: AwsLayout
    wanted: AwsLayout
    physical: Mapping[str, str]

    def let_go(self) -> None:
        """End machines whose names go, of groups that others stay in. Raises GridwrightError."""
        sizes = {title: len(machines) for title, machines in groups_of(self.wanted).items()}
        stay = {each.name for each in self.wanted.machines}
        for title, machines in groups_of(self.deployed).items():
            gone = [each.name for each in machines if each.name not in stay]
            if gone and title in sizes and title in self.physical:
                kept = {each.name for each in machines} - {*gone}
                self._shrink(self.physical[title], sizes[title], gone, kept)

    def _shrink(self, group: str, size: int, gone: list[str], stay: Collection[str]) -> None:
        owners = {name: each.owner for name, each in claims(rows(self.cloud, self.spec)).items()}
        kept = {owner for name, owner in owners.items() if name in stay and owner}
        self._protect(group, kept)
        try:
            found = self._described(group)
            self.cloud.call(
                "autoscaling",
                "update_auto_scaling_group",
                AutoScalingGroupName=group,
                MinSize=min(found["MinSize"], size),
                DesiredCapacity=min(found["DesiredCapacity"], size),
                MaxSize=size,
            )
            self.caller.say(f"{fold_hosts(gone)}: ending")
            self._until_gone(gone, {owners[name] for name in gone if owners.get(name)})
        finally:
            unprotect(self.cloud, group)

    def _protect(self, group: str, kept: Collection[str]) -> None:
        there = {each["InstanceId"] for each in self._described(group)["Instances"]}
        _set_protection(self.cloud, group, sorted(there & {*kept}), protected=True)

    def _described(self, group: str) -> dict[str, Any]:
        (found,) = self.cloud.call(
            "autoscaling", "describe_auto_scaling_groups", AutoScalingGroupNames=[group]
        )["AutoScalingGroups"]
        return dict(found)

    def _until_gone(self, names: list[str], owners: Collection[str | None]) -> None:
        deadline = time.monotonic() + LONGEST_S
        while owners & instances(self.cloud, self.spec).keys():
            if time.monotonic() > deadline:
                raise environment_error(
                    f"{fold_hosts(names)}: still not ended after {LONGEST_S / 60:.0f} min",
                    where=f"grid {self.spec.name}, AWS, {self.cloud.region}",
                    remedy="look at them in the console; run the same command again to go on",
                )
            if self.caller.stop.wait(POLL_S):
                self.caller.say("AWS goes on; gridwright up goes on from there")
                self.caller.go_on()


def unprotect(cloud: Cloud, group: str) -> None:
    """Let a group end any of its machines again, as `stop` and a replacement have it."""
    (found,) = cloud.call("autoscaling", "describe_auto_scaling_groups", AutoScalingGroupNames=[group])[
        "AutoScalingGroups"
    ]
    kept = [each["InstanceId"] for each in found["Instances"] if each.get("ProtectedFromScaleIn")]
    _set_protection(cloud, group, kept, protected=False)


def _set_protection(cloud: Cloud, group: str, found: Sequence[str], *, protected: bool) -> None:
    for start in range(0, len(found), AT_ONCE):
        cloud.call(
            "autoscaling",
            "set_instance_protection",
            AutoScalingGroupName=group,
            InstanceIds=list(found[start : start + AT_ONCE]),
            ProtectedFromScaleIn=protected,
        )
