"""Machines of groups that were launched with other data than now: what `up` says, and how far they are.

The head node replaces them (package `roll`), whether somebody watches or not.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import GridwrightError, environment_error
from gridwright.providers.aws.changes import ResourceChange
from gridwright.providers.aws.instances import rows
from gridwright.providers.aws.launching import template_id
from gridwright.providers.aws.layout import AwsLayout, Machine
from gridwright.providers.aws.names import GRID_TAG, group_name
from gridwright.providers.aws.roll.aws import ROW, is_outdated
from gridwright.providers.aws.roll.deciding import STEPS
from gridwright.providers.aws.roll_program import roller
from gridwright.providers.aws.session import Cloud
from gridwright.providers.aws.status_result import GroupRoll
from gridwright.providers.caller import Caller
from gridwright.spec.model import GridSpec

FIRST_POLL_S, POLL_S = 0.5, 15.0
SILENT_S = 900.0
"""So long the head node may tell nothing: it tells each minute, but for a run that is cut off after ten."""
HALTED_LOOKS = 5
"""So often it must tell that it is halted: a head node that starts anew has no Slurm for a moment."""


def announced(
    spec: GridSpec,
    layout: AwsLayout,
    title_of: Mapping[str, tuple[Machine, ...]],
    found: Iterable[ResourceChange],
) -> Iterator[str]:
    """What `up` says before groups launch with other data: who is replaced, how, and how long it may take.

    `title_of` has the machines of each group by its logical ID.
    """
    changed = {each.logical_id for each in found if each.action == "change" and each.properties}
    for title, machines in title_of.items():
        count, servers = len(machines), machines[0].role.serves_lustre
        if template_id(title) not in changed:
            continue
        if servers:
            yield (
                f"{title}: {count} servers are replaced one at a time, each when all others serve and "
                "clients have all targets"
            )
        else:
            yield _of_nodes(spec, layout, title, count)


def _of_nodes(spec: GridSpec, layout: AwsLayout, title: str, count: int) -> str:
    at_once, starts = max(1, math.ceil(count / STEPS)), min(count, STEPS) + 1
    if not spec.scheduler.needs_head_node:
        return (
            f"{title}: {count} nodes are replaced, the first one alone, then at most {at_once} at a time, in "
            f"{starts} starts of a machine; nobody tells whether something runs on them"
        )
    more = f", then at most {at_once} at a time while half of them take no jobs" if count > 1 else ""
    return (
        f"{title}: {count} nodes are replaced, each when its jobs have ended: the first one alone{more}. "
        f"{_bound(spec, layout, starts)}"
    )


def _bound(spec: GridSpec, layout: AwsLayout, starts: int) -> str:
    """When it ends at the latest, in words."""
    limit = layout.aws.drain_limit
    if limit is not None:
        return (
            f"Jobs that run {limit / 3600:g} h after their node was drained (aws.drain_limit) start again "
            f"elsewhere: it ends after three times that and {starts} starts of a machine"
        )
    times = [each.time for each in spec.scheduler.queues.values()]
    if None in times:
        return (
            f"No job is ended for it, and jobs have no limit of time: it ends {starts} starts of a machine "
            "after the longest of them. aws.drain_limit sets a limit"
        )
    return (
        f"No job is ended for it: it ends after three times {max(filter(None, times)) / 3600:g} h, the "
        f"longest time of a queue, and {starts} starts of a machine at the latest"
    )


def group_rolls(
    cloud: Cloud, spec: GridSpec, layout: AwsLayout, told: Iterable[Mapping[str, Any]]
) -> list[GroupRoll]:
    """How far each group is; `told` are the rows of the table of claims.

    That machines are left is what Auto Scaling says. Raises CloudError.
    """
    desired = {
        group_name(spec.name, each.group, str(each.role), serves=each.role.serves_lustre)
        for each in layout.machines
        if each.replaced
    }
    says = _says(told)
    rolls = []
    for each in _groups(cloud, spec):
        name = next((tag["Value"] for tag in each["Tags"] if tag["Key"] == "Name"), "")
        if name in desired:
            known = says.get(name, GroupRoll(name, 0, 0))
            left = max(sum(_is_left(one, each) for one in each["Instances"]), known.left)
            rolls.append(
                GroupRoll(name, int(each["DesiredCapacity"]), left, known.halted, known.waits, known.kept)
            )
    return sorted(rolls, key=lambda each: each.group)


def outdated_instances(cloud: Cloud, spec: GridSpec) -> frozenset[str]:
    """Instances that are to be replaced. Raises CloudError."""
    return frozenset(
        one["InstanceId"] for each in _groups(cloud, spec) for one in each["Instances"] if _is_left(one, each)
    )


def _groups(cloud: Cloud, spec: GridSpec) -> Iterator[Mapping[str, Any]]:
    filters = [{"Name": f"tag:{GRID_TAG}", "Values": [spec.name]}]
    return cloud.listed("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", Filters=filters)


def _is_left(instance: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
    return is_outdated(instance, group) and instance["LifecycleState"] == "InService"


def _says(told: Iterable[Mapping[str, Any]]) -> dict[str, GroupRoll]:
    row = next((each for each in told if each["slot"]["S"] == ROW), None)
    try:
        found = json.loads(row["groups"]["S"]) if row else []
        return {
            each["group"]: GroupRoll(
                each["group"],
                int(each["total"]),
                int(each["left"]),
                str(each["halted"]),
                tuple(map(str, each["waits"])),
                int(each["kept"]),
            )
            for each in found
        }
    except (ValueError, KeyError, TypeError):
        return {}


def reported_at(items: Iterable[Mapping[str, Any]]) -> str:
    """When the head node last reported its progress, by its own clock; empty where it never did."""
    return next((str(each["at"]["S"]) for each in items if each["slot"]["S"] == ROW and "at" in each), "")


@dataclass
class MachinesReplaced:
    """Waits until the head node has replaced all that is to be."""

    cloud: Cloud
    caller: Caller
    spec: GridSpec
    layout: AwsLayout
    _said: set[str] = field(default_factory=set)

    def wait(self) -> None:
        """Return when nothing is left, but for what somebody drained. Raises GridwrightError."""
        if roller(self.layout) is None:
            return
        last, heard, news, halts, pause = None, time.monotonic(), 0, 0, FIRST_POLL_S
        while True:
            told = rows(self.cloud, self.spec)
            rolls = group_rolls(self.cloud, self.spec, self.layout, told)
            left = [each for each in rolls if each.left > each.kept]
            if not left:
                self._tell(each for each in rolls if each.kept)
                return
            # What it told before this up says nothing; clocks are not compared.
            if (at := reported_at(told)) != last:
                news, heard = news + (last is not None), time.monotonic()
                last, pause = at, FIRST_POLL_S
                halts = halts + 1 if news and any(each.halted for each in left) else 0
            self._tell(left if news else [GroupRoll(e.group, e.total, e.left) for e in left])
            if halts >= HALTED_LOOKS:
                raise self._stopped(left)
            if time.monotonic() - heard > SILENT_S:
                raise self._silent(left)
            self._pause(pause)
            pause = min(2 * pause, POLL_S)

    def _tell(self, rolls: Iterable[GroupRoll]) -> None:
        for each in rolls:
            if each.text not in self._said:
                self._said.add(each.text)
                self.caller.say(each.text)

    def _pause(self, seconds: float) -> None:
        if self.caller.stop.wait(seconds):
            self.caller.say(
                "the head node goes on replacing machines; gridwright status shows how far it is, and "
                "gridwright up waits for its end"
            )
            self.caller.go_on()

    def _stopped(self, left: list[GroupRoll]) -> GridwrightError:
        return environment_error(
            "; ".join(f"{each.group}: {each.halted}" for each in left if each.halted),
            where=f"grid {self.spec.name}, AWS, {self.cloud.region}",
            remedy="mend what it says, in the spec or on the machine, and run gridwright up again; the other "
            "machines work on as they are",
        )

    def _silent(self, left: list[GroupRoll]) -> GridwrightError:
        machine = roller(self.layout)
        count = sum(each.left for each in left)
        return environment_error(
            f"{machine.name if machine else 'the head node'} has told nothing of replacing machines for "
            f"{SILENT_S / 60:.0f} min, and {count} are still what they were",
            where=f"grid {self.spec.name}, AWS, {self.cloud.region}",
            remedy="look there: journalctl -u gridwright-roll; machines work on as they are",
        )
