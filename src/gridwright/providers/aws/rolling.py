"""Machines that an update replaces: those of groups one by one, and those of no group as users name them.

CloudFormation makes another instance first and removes the old one afterwards, and the interface with the
machine's address can be on one alone: a replacement of its own would fail for login and head node, servers
in pairs, and nodes where the spec says so. So what those are launched with stays as it is when the stack
changes, and who names one has it removed and made anew, in two updates. Another type needs none of this: the
instance is stopped, changed and started, with its disk.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.providers.aws.changes import ResourceChange
from gridwright.providers.aws.instances import GroupRoll, claims, instances, rows
from gridwright.providers.aws.launching import machine_id, template_id
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.machine_files import AwsBootReport, boot_reports, forget_gone, part_of, roller
from gridwright.providers.aws.names import (
    GRID_TAG,
    ROLE_TAG,
    SLOT_TAG,
    TARGET_TAG,
    claims_table,
    group_name,
    logical_id,
)
from gridwright.providers.aws.roll.aws import ROW, is_outdated
from gridwright.providers.aws.roll.deciding import STEPS
from gridwright.providers.aws.session import Cloud, CloudError
from gridwright.providers.aws.stacks import of_grid, tags_of
from gridwright.providers.boot.bundle import (
    LOGS,
    QUIET_S,
    BootNews,
    BootReport,
    Part,
    go_on,
    not_set_up,
    unready,
)
from gridwright.providers.provider import Caller
from gridwright.spec.load import problem_at
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
            self.caller.pause(
                pause,
                "the head node goes on replacing machines; gridwright status shows how far it is, and "
                "gridwright up waits for its end",
            )
            pause = min(2 * pause, POLL_S)

    def _tell(self, rolls: Iterable[GroupRoll]) -> None:
        for each in rolls:
            if each.text not in self._said:
                self._said.add(each.text)
                self.caller.say(each.text)

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


# Resources that hold data and are in no stack any more: kept when a file system was replaced, and billed.

KEPT_TAG = "gridwright:kept-of"
"""The tag of what was replaced and is kept: the name of its file system."""
_VOLUME = "vol-"


@dataclass(frozen=True, slots=True)
class Retired:
    """A resource that holds data and is in no stack any more."""

    id: str
    filesystem: str
    size: str

    @property
    def text(self) -> str:
        """In words."""
        kind = "volume" if self.id.startswith(_VOLUME) else "FSx file system"
        return f"{kind} {self.id} of {self.size}, the former {self.filesystem}"


def retired(cloud: Cloud, spec: GridSpec, in_stack: Collection[str]) -> list[Retired]:
    """All of a grid: what holds data, and is not among the resources of its storage stack."""
    found = []
    for volume in _volumes(cloud, spec):
        tags = tags_of(volume)
        # Root volumes go with their machines, and have no target.
        if volume["VolumeId"] not in in_stack and (KEPT_TAG in tags or TARGET_TAG in tags):
            found.append(Retired(volume["VolumeId"], _filesystem(spec, tags), f"{volume['Size']} GiB"))
    for system in _systems(cloud, spec):
        if system["FileSystemId"] not in in_stack:
            size = f"{system['StorageCapacity']} GiB"
            found.append(Retired(system["FileSystemId"], _filesystem(spec, tags_of(system)), size))
    return found


def _filesystem(spec: GridSpec, tags: Mapping[str, str]) -> str:
    """The file system that something was made for, by the mark that it has, or else by its own tags."""
    slot = tags.get(SLOT_TAG, "").rpartition("-")[0]
    return tags.get(KEPT_TAG) or slot or tags.get("Name", "").removeprefix(f"{spec.name} ")


def mark(cloud: Cloud, spec: GridSpec, in_stack: Collection[str]) -> int:
    """Mark what holds data and is in no stack, and forget the claims of its servers; how many are new.

    Volumes lose the tags that a server finds its own by: a new server must not take the old ones.
    """
    slots: set[str] = set()
    count = 0
    for volume in _volumes(cloud, spec):
        tags = tags_of(volume)
        if volume["VolumeId"] in in_stack or KEPT_TAG in tags or TARGET_TAG not in tags:
            continue
        slot = tags.get(SLOT_TAG, "")
        slots.add(slot)
        chosen = [{"Key": KEPT_TAG, "Value": _filesystem(spec, tags)}]
        cloud.call("ec2", "create_tags", Resources=[volume["VolumeId"]], Tags=chosen)
        lost = [{"Key": SLOT_TAG}, {"Key": TARGET_TAG}]
        cloud.call("ec2", "delete_tags", Resources=[volume["VolumeId"]], Tags=lost)
        count += 1
    for system in _systems(cloud, spec):
        tags = tags_of(system)
        if system["FileSystemId"] in in_stack or KEPT_TAG in tags:
            continue
        chosen = [{"Key": KEPT_TAG, "Value": _filesystem(spec, tags)}]
        cloud.call("fsx", "tag_resource", ResourceARN=system["ResourceARN"], Tags=chosen)
        count += 1
    forget(cloud, spec, slots - {""})
    return count


def forget(cloud: Cloud, spec: GridSpec, slots: Iterable[str]) -> None:
    """Remove the claims of machines whose volumes are not theirs any more."""
    for slot in sorted(slots):
        try:
            cloud.call("dynamodb", "delete_item", TableName=claims_table(spec), Key={"slot": {"S": slot}})
        except CloudError as error:
            if error.code != "ResourceNotFoundException":
                raise


def _volumes(cloud: Cloud, spec: GridSpec) -> Iterator[Mapping[str, Any]]:
    return cloud.listed("ec2", "describe_volumes", "Volumes", Filters=of_grid(spec.name))


def _systems(cloud: Cloud, spec: GridSpec) -> Iterator[Mapping[str, Any]]:
    for each in cloud.listed("fsx", "describe_file_systems", "FileSystems"):
        if tags_of(each).get(GRID_TAG) == spec.name and each.get("Lifecycle") != "DELETING":
            yield each


def delete(cloud: Cloud, which: Retired) -> None:
    """Delete one for good, with its data."""
    if which.id.startswith(_VOLUME):
        cloud.call("ec2", "delete_volume", VolumeId=which.id)
    else:
        cloud.call("fsx", "delete_file_system", FileSystemId=which.id)


# Waits until every machine of a grid has set itself up with what is there for it now.

REPORT_POLL_S = 5.0
_STOPPED = ("stopping", "stopped")


@dataclass
class MachinesReady:
    """Which machines are ready, and what was said of them."""

    cloud: Cloud
    caller: Caller
    spec: GridSpec
    layout: AwsLayout
    bundles: Mapping[Part, str]
    """Key of the bundle of each part."""
    bucket: str

    def wait(self) -> None:
        """Return when all are; tell of each as it goes on. Raises GridwrightError where some are not.

        The others are as they should be then, and those go on trying.
        """
        heard, pause, news = time.monotonic(), FIRST_POLL_S, BootNews(self.caller.say)
        while True:
            there, told = instances(self.cloud, self.spec), rows(self.cloud, self.spec)
            reports = boot_reports(told)
            current = {name: self._current(each, reports.get(name)) for name, each in there.items()}
            if news.hear(current.values()):
                heard, pause = time.monotonic(), FIRST_POLL_S
            # One that somebody stopped sets itself up when it is started again.
            open_ = {
                name: each
                for name, each in current.items()
                if (each is None or each.state != "done") and there[name]["State"]["Name"] not in _STOPPED
            }
            if any((each and each.has_failed) for each in open_.values()) and roller(self.layout):
                # What is to be replaced is mended by that, and not by its next try.
                leaving = outdated_instances(self.cloud, self.spec)
                open_ = {
                    n: each for n, each in open_.items() if n not in leaving or not (each and each.has_failed)
                }
            waiting = [name for name, each in open_.items() if not (each and each.has_failed)]
            lacking = len(self.layout.always_on) - len(there.keys() - self._powered(told))
            quiet = time.monotonic() - heard > QUIET_S
            if quiet or (not waiting and lacking <= 0):
                forget_gone(self.cloud, self.spec, reports, there)
                if open_ or lacking > 0:
                    raise self._unready(open_, max(lacking, 0))
                return
            self.caller.pause(pause, go_on(len(waiting) + max(lacking, 0)))
            pause = min(2 * pause, REPORT_POLL_S)

    def _powered(self, told: Iterable[Mapping[str, Any]]) -> set[str | None]:
        """Instances that are nodes which the scheduler has on just now: more than are waited for."""
        claimed = claims(told)
        names = (each.name for each in self.layout.machines if each.powered)
        return {claimed[name].owner for name in names if name in claimed}

    def _current(self, instance: Mapping[str, Any], report: AwsBootReport | None) -> BootReport | None:
        """What it told since it started of the bundle that is there for it now; nothing else counts."""
        if report is None or not report.is_of_this_start(instance):
            return None
        role = Role(tags_of(instance).get(ROLE_TAG, Role.COMPUTE))
        return report if report.bundle == self.bundles[part_of(role)] else None

    def _unready(self, open_: Mapping[str, BootReport | None], lacking: int) -> GridwrightError:
        """The error that names them; the end of the first one's log is said before."""
        failed = [each for each in open_.values() if each is not None and each.state == "failed"]
        silent = [name for name, each in open_.items() if each is None or each.state != "failed"]
        for line in self._last_lines(failed, silent):
            self.caller.say(line)
        parts = unready(failed, sorted(silent)[:8], QUIET_S)
        parts += [f"{lacking} are not there yet"] if lacking else []
        logs = f"; their logs are below s3://{self.bucket}/{LOGS}" if failed else ""
        return not_set_up(
            f"{len(open_) + lacking} of {len(self.layout.machines)}",
            parts,
            f"grid {self.spec.name}, AWS, {self.cloud.region}",
            logs,
        )

    def _last_lines(self, failed: list[BootReport], silent: list[str]) -> Iterator[str]:
        if failed:
            yield from (f"{failed[0].who} | {line}" for line in failed[0].log.splitlines())
        elif silent:
            yield from (f"{silent[0]} console | {line}" for line in self._console(silent[0]))

    def _console(self, instance: str) -> list[str]:
        """The end of a machine's console: all that there is of one that reaches nothing."""
        try:
            found = self.cloud.call("ec2", "get_console_output", InstanceId=instance)
        except CloudError:
            return []
        return str(found.get("Output") or "").splitlines()[-20:]


_DATA = "LaunchTemplateData"
_STOPS = ("InstanceType", "UserData", "EbsOptimized")
"""What stops and starts an instance on volumes (CloudFormation User Guide, AWS::EC2::Instance)."""
_INSTANCE = "AWS::EC2::Instance"
_ASKED = (Role.COMPUTE, Role.NSD)
"""Roles whose machines nothing stops unless somebody names them: jobs run there, or files are served."""


@dataclass(frozen=True)
class FixedMachines:
    """What becomes of them in an update."""

    template: Mapping[str, Any]
    """The template to deploy."""
    first: Mapping[str, Any] | None
    """What is deployed before it, where machines are made anew: the same without them."""
    kept: tuple[str, ...]
    """Machines that stay as they were launched, though the spec has other data for them."""
    restarted: tuple[str, ...]
    """Machines that are stopped for a moment."""
    anew: tuple[str, ...]
    """Machines that are made anew, with an empty disk."""
    gone: tuple[str, ...] = ()
    """Machines that are made anew since their instance is gone: there is nothing to lose or to stop."""
    problems: tuple[Problem, ...] = ()
    """Why nothing may be done."""


def replaceable(layout: AwsLayout) -> dict[str, frozenset[str]]:
    """What --replace may name, with the machines that it means: their names, and groups of such nodes."""
    found: dict[str, frozenset[str]] = {}
    for each in layout.machines:
        if not each.replaced:
            found[each.name] = frozenset({each.name})
            if each.role in (Role.COMPUTE, Role.MACHINE):
                # Never those of a file system: that name has its data made anew.
                found[each.group] = found.get(each.group, frozenset()) | {each.name}
    return found


def fixed_machines(
    spec: GridSpec,
    layout: AwsLayout,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    named: Collection[str],
    gone: Collection[str] = (),
) -> FixedMachines:
    """Hold two templates of the grid stack against each other.

    `named` is what --replace names; `gone` are names of machines whose instance is there no more.
    """
    means = replaceable(layout)
    chosen = frozenset(machine for name in named for machine in means.get(name, ()))
    template = copy.deepcopy(dict(new))
    kept, restarted, anew, ended = [], [], [], []
    problems: dict[str, Problem] = {}
    for pair in _whole_pairs(layout, chosen, gone):
        problems.setdefault(pair[0].group, _both(spec, pair))
    for machine in layout.machines:
        if machine.replaced:
            continue
        before = old["Resources"].get(machine_id(machine))
        if before is None:
            problems.update(_in_the_way(spec, machine, old))
            continue
        if machine.name in gone:
            ended.append(machine)
            continue
        differs = _launch_data(machine, old) != _launch_data(machine, template)
        _leave_in_launch_data(machine, before, old, template)
        stops = [name for name in _STOPS if _differs(name, machine, before, template)]
        if differs and (machine.name in chosen or not _can_keep(machine, old, template)):
            if machine.name not in chosen:
                problems.setdefault(machine.group, _unnamed(spec, machine, "its launch data are gone"))
            anew.append(machine)
            continue
        if _launch_data(machine, template) is not None:
            if _seen(_launch_data(machine, old)) != _seen(_launch_data(machine, template)):
                kept.append(machine)
            _properties(machine, template)[_DATA] = copy.deepcopy(_launch_data(machine, old))
        if stops and machine.role in _ASKED and machine.name not in chosen:
            # Jobs run there: what it is told at its start can wait, another type is somebody's decision.
            if "InstanceType" in stops:
                why = "another type stops it for a moment"
                problems.setdefault(machine.group, _unnamed(spec, machine, why))
            _leave(machine, before, template, stops)
        elif stops:
            restarted.append(machine)
    return FixedMachines(
        template,
        without(template, frozenset(map(machine_id, anew + ended))) if anew or ended else None,
        kept=_names(kept),
        restarted=_names(restarted),
        anew=_names(anew),
        gone=_names(ended),
        problems=tuple(problems.values()),
    )


def with_images(
    layout: AwsLayout, old: Mapping[str, Any], had: Mapping[str, str], desired: Mapping[str, str]
) -> Mapping[str, Any]:
    """A template in which these machines have the images that they were launched with.

    `had` and `desired` are values of the stack's parameters: another value would have them replaced as other
    launch data would, and so would one that is there no more.
    """
    moved = {name: value for name, value in had.items() if desired.get(name) != value}
    template = copy.deepcopy(dict(old))
    for machine in layout.machines:
        data = None if machine.replaced else _launch_data(machine, template)
        if data is not None and (image := data.get("ImageId")) and isinstance(image, Mapping):
            data["ImageId"] = moved.get(str(image.get("Ref")), image)
    return template


def _names(machines: list[Machine]) -> tuple[str, ...]:
    return tuple(each.name for each in machines)


def _properties(machine: Machine, template: Mapping[str, Any]) -> dict[str, Any]:
    """Of its launch template; empty where there is none."""
    found = template["Resources"].get(template_id(machine_id(machine)), {})
    properties: dict[str, Any] = found.get("Properties", {})
    return properties


def _launch_data(machine: Machine, template: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a part of a template
    return _properties(machine, template).get(_DATA)


def _seen(data: Mapping[str, Any]) -> dict[str, Any]:
    """What of launch data a machine is seen to differ by: the rest is a property of the instance, too."""
    return {name: each for name, each in data.items() if name not in _STOPS}


def _leave_in_launch_data(
    machine: Machine, before: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    """What an earlier release had in launch data alone stays there: it would stop the machine for nothing."""
    after = new["Resources"][machine_id(machine)]["Properties"]
    data = _launch_data(machine, old) or {}
    name = "EbsOptimized"
    if name in data and name not in before["Properties"] and data[name] == after.get(name):
        del after[name]


def _can_keep(machine: Machine, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether all that the old launch data refer to is still there."""
    title = template_id(machine_id(machine))
    if title not in old["Resources"]:
        return False
    return set(_references(old["Resources"][title])) <= {*new["Resources"], *new.get("Parameters", {})}


def _differs(name: str, machine: Machine, before: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    after = new["Resources"][machine_id(machine)]["Properties"]
    return bool(before["Properties"].get(name) != after.get(name))


def _leave(machine: Machine, before: Mapping[str, Any], new: dict[str, Any], names: list[str]) -> None:
    after = new["Resources"][machine_id(machine)]["Properties"]
    for name in names:
        after.pop(name, None)
        if name in before["Properties"]:
            after[name] = copy.deepcopy(before["Properties"][name])


def _whole_pairs(
    layout: AwsLayout, chosen: frozenset[str], gone: Collection[str]
) -> Iterator[tuple[Machine, ...]]:
    """Pairs of servers that would serve no more: one or both are to stop, and the other one is gone."""
    for first, second in itertools.combinations(layout.of_role(Role.NSD), 2):
        names = {first.name, second.name}
        is_pair = (first.group, first.pair) == (second.group, second.pair)
        if is_pair and names <= chosen.union(gone) and not names <= set(gone):
            yield first, second


def _both(spec: GridSpec, pair: tuple[Machine, ...]) -> Problem:
    return problem_at(
        spec,
        ("filesystems", pair[0].group, str(pair[0].role)),
        f"{' and '.join(each.name for each in pair)} are a pair, and nobody serves its volumes without both",
        "name one with --replace, wait until it serves again, then name the other one",
    )


def _unnamed(spec: GridSpec, machine: Machine, why: str) -> Problem:
    if machine.role is Role.NSD:
        return problem_at(
            spec,
            ("filesystems", machine.group, str(machine.role), "instance"),
            f"{machine.name} would stop while it serves files: {why}",
            f"run gridwright up with --replace {machine.name}: one after the other, each when the one "
            "before serves again, and never both of a pair at once; or write it as it was",
        )
    return problem_at(
        spec,
        ("nodes", machine.group, "instance"),
        f"jobs on {machine.name} would end: {why}, and aws.replace_nodes is false",
        f"drain it first, then run gridwright up with --replace {machine.name}, or --replace {machine.group} "
        "for all of them; or write it as it was",
    )


def _in_the_way(spec: GridSpec, machine: Machine, old: Mapping[str, Any]) -> Iterator[tuple[str, Problem]]:
    """A node that a group has now, and no group is to have: its address is in use."""
    if machine.role is Role.COMPUTE and f"{logical_id(machine.group)}Nodes" in old["Resources"]:
        yield (
            machine.group,
            problem_at(
                spec,
                ("aws", "replace_nodes"),
                f"nodes of {machine.group} have their addresses, which no others can have at the same time",
                "run gridwright down, which keeps file systems, and then gridwright up; or write true again",
            ),
        )


def without(template: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """A template without resources, and without all that is made from them: outputs and alarms."""
    found = copy.deepcopy(dict(template))
    gone = set(names)
    resources = found["Resources"]
    while True:
        more = {
            name
            for name, each in resources.items()
            if name not in gone and gone & set(_references(each.get("Properties", {})))
        }
        if not more:
            break
        gone |= more
    found["Resources"] = {name: each for name, each in resources.items() if name not in gone}
    for each in found["Resources"].values():
        after = each.get("DependsOn")
        if after:
            each["DependsOn"] = [
                one for one in ([after] if isinstance(after, str) else after) if one not in gone
            ]
    found["Outputs"] = {
        name: each for name, each in found.get("Outputs", {}).items() if not gone & set(_references(each))
    }
    return found


def _references(value: Any) -> Iterator[str]:  # noqa: ANN401 - a part of a template
    """Logical IDs that a part of a template refers to; a text of Fn::Sub may name some, too."""
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
    if not isinstance(value, Mapping):
        return
    for name, each in value.items():
        if name == "Ref" and isinstance(each, str):
            if not each.startswith("AWS::"):
                yield each
        elif name == "Fn::GetAtt":
            yield each.partition(".")[0] if isinstance(each, str) else each[0]
        elif name == "Fn::Sub":
            text, own = (each, {}) if isinstance(each, str) else each
            yield from _in_text(text, own)
            yield from _references(own)
        else:
            yield from _references(each)


def _in_text(text: str, own: Mapping[str, Any]) -> Iterator[str]:
    for found in re.findall(r"\$\{([A-Za-z0-9]+)(?:\.[^}]*)?\}", text):
        if found not in own:
            yield found
