"""Machines that no group replaces: login and head node, servers in pairs, and nodes where the spec says so.

CloudFormation makes another instance first and removes the old one afterwards, and the interface with the
machine's address can be on one alone: a replacement of its own would fail. So what they are launched with
stays as it is when the stack changes, and who names one has it removed and made anew, in two updates. Another
type needs none of this: the instance is stopped, changed and started, with its disk.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.errors import Problem
from gridwright.providers.aws.launching import machine_id, template_id
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.names import logical_id
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec

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
