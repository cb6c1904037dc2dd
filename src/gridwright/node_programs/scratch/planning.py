"""The plan of a machine: a pure function of the configuration, of the journal, and of what was seen.

No step of it overwrites a byte of a disk that a rule of the configuration does not fit, or that holds
anything but zeros, a superblock that this node wrote down as its own, or what the user has named with --wipe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gridwright.node_programs.scratch.building import build, finish
from gridwright.node_programs.scratch.claims import IN_USE, OURS, UNREADABLE, WIPED, Claim, build_of, claim
from gridwright.node_programs.scratch.configuration import Configuration, DesiredArray
from gridwright.node_programs.scratch.disks import Disk
from gridwright.node_programs.scratch.existing_array import in_stripe_order, plan_existing, whole_group
from gridwright.node_programs.scratch.machine import Machine
from gridwright.node_programs.scratch.plans import ArrayPlan, Case, Plan, listed, wipes
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.node_programs.scratch.state import State

_FIRST_MD, _LAST_MD = 100, 126
"""Away from md0 and up, which people use, and md127 and down, which udev uses. mdadm 4.3 takes no number
above 127 for a name (md-raid-utilities/mdadm, config.c, is_devname_md_numbered)."""


def plan_arrays(
    configuration: Configuration,
    state: State,
    machine: Machine,
    wipe: Sequence[str],
    new_uuid: Callable[[], str],
    now: str,
) -> Plan:
    """What is to be done. `wipe` are paths of disks; `now` is written down as it is."""
    meant = frozenset().union(*machine.matches.values()) if machine.matches else frozenset()
    claims = {disk.name: claim(disk, state, machine.arrays) for disk in machine.disks if disk.name in meant}
    named, troubles = _named(wipe, machine, claims, state)
    if machine.strangers:
        remedy = "make them, or give numbers for owner and group in the configuration"
        troubles.append(Trouble(f"this machine does not know {', '.join(machine.strangers)}", remedy))
    if troubles:
        return Plan((), claims, tuple(troubles))
    claims.update({name: replace(each, standing=WIPED) for name, each in claims.items() if name in named})
    arrays: list[ArrayPlan] = []
    taken: set[str] = set()
    devices = _free_devices(machine)
    # Whoever takes all that is left comes last.
    for desired in sorted(configuration.arrays, key=lambda each: each.members is None):
        case = Case(
            desired=desired,
            candidates=_candidates(desired, configuration, claims, machine, taken),
            wiped=named,
            state=state,
            machine=machine,
            free_device=devices.pop(0),
            new_uuid=new_uuid,
            now=now,
        )
        arrays.append(_with_hidden(_plan_array(case), machine))
        taken |= {disk.name for disk in arrays[-1].disks}
    in_order = sorted(arrays, key=lambda each: configuration.arrays.index(each.desired))
    return Plan(tuple(in_order), claims)


def _plan_array(case: Case) -> ArrayPlan:
    group = whole_group(case)
    intent = case.state.intents.get(case.desired.name)
    if group and intent is not None and _unfinished(case, group):
        return _finish_or_keep(case, group) or build(case)
    return plan_existing(case, group) if group else build(case)


def _with_hidden(array: ArrayPlan, machine: Machine) -> ArrayPlan:
    """A mount hides what jobs have written to the directory below it, and it goes on using that disk."""
    if array.desired.mount_point not in machine.full_points or array.troubles:
        return array
    note = f"{array.desired.mount_point} holds files on the disk below, which the mount hides: move them away"
    return replace(array, notes=(*array.notes, note))


def _unfinished(case: Case, group: tuple[Claim, ...]) -> bool:
    """Whether only the intent knows it: superblocks are there, the file system may be half made."""
    written = build_of(group[0].group, case.desired.name, case.state)
    return written is not None and written == case.state.intents.get(case.desired.name)


def _finish_or_keep(case: Case, group: tuple[Claim, ...]) -> ArrayPlan | None:
    """A person may have mounted it meanwhile: then it is whole, and is kept."""
    intent = case.state.intents[case.desired.name]
    names = {each.disk.name for each in group}
    in_use = [each.disk.used for each in group if each.disk.used]
    in_use += [array.used for array in case.machine.arrays if array.used and names & set(array.members)]
    return plan_existing(case, group) if in_use else finish(case, group, intent)


def _candidates(
    desired: DesiredArray,
    configuration: Configuration,
    claims: Mapping[str, Claim],
    machine: Machine,
    taken: set[str],
) -> tuple[Claim, ...]:
    """Disks that the configuration fits, without those of other arrays of the configuration."""
    others = {array.name for array in configuration.arrays} - {desired.name}
    fitting = [claims[disk.name] for disk in machine.disks if disk.name in machine.matches[desired.name]]
    return tuple(
        each
        for each in fitting
        if each.disk.name not in taken and not (each.standing == OURS and each.array in others)
    )


def _named(
    wipe: Sequence[str], machine: Machine, claims: Mapping[str, Claim], state: State
) -> tuple[frozenset[str], list[Trouble]]:
    """Names of the disks that are to be wiped, and what is wrong with those that must not be."""
    by_path = {disk.path: disk for disk in machine.disks}
    named: set[str] = set()
    troubles = []
    for path in wipe:
        disk = by_path.get(path)
        reason = _not_to_be_wiped(disk, claims, machine, wipe)
        if disk is None or reason:
            known = ", ".join(each.disk.path for each in claims.values()) or "none"
            troubles.append(Trouble(f"--wipe {path}: {reason}", f"disks that can be named: {known}"))
        else:
            named.add(disk.name)
    troubles += _half_named(named, claims, state)
    return frozenset(named), troubles


def _not_to_be_wiped(
    disk: Disk | None, claims: Mapping[str, Claim], machine: Machine, wipe: Sequence[str]
) -> str:
    """Why a disk that was named is left alone all the same; nothing where it may be wiped."""
    if disk is None:
        return "there is no such disk; name a whole disk, such as /dev/nvme1n1"
    each = claims.get(disk.name)
    if each is None:
        return "no rule has it as a disk of an instance store"
    named = {other.name for other in machine.disks if other.path in wipe}
    holding = [array for array in machine.arrays if disk.name in array.members]
    for array in holding:
        if array.used:
            return f"its array {array.path} is {array.used}"
    idle = all(not array.holders and set(array.members) <= named for array in holding)
    only_md = not disk.used and set(disk.holders) == {array.name for array in holding} and idle
    if each.standing == UNREADABLE or (each.standing == IN_USE and not (holding and only_md)):
        return each.found
    return disk.used or ""


def _half_named(named: set[str], claims: Mapping[str, Claim], state: State) -> list[Trouble]:
    """A disk of an array that is whole: wiping it loses what is on all, so all have to be named."""
    troubles = []
    groups: dict[tuple[str, str], list[Claim]] = {}
    for each in claims.values():
        if each.standing == OURS and each.array is not None:
            groups.setdefault((each.array, each.group), []).append(each)
    for (name, uuid), members in groups.items():
        hit = [member for member in members if member.disk.name in named]
        rest = tuple(member for member in members if member.disk.name not in named)
        if hit and rest and in_stripe_order(members, build_of(uuid, name, state)):
            what = f"--wipe {hit[0].disk.path}: array {name} is whole, and all of it would be lost"
            troubles.append(Trouble(what, f"name the rest of it, too: {wipes(rest)} ({listed(rest)})"))
    return troubles


def _free_devices(machine: Machine) -> list[str]:
    taken = {array.name for array in machine.arrays}
    return [f"/dev/md{number}" for number in range(_FIRST_MD, _LAST_MD + 1) if f"md{number}" not in taken]


def short_of_disks(configuration: Configuration, state: State, machine: Machine) -> str:
    """Why it is worth waiting for disks that the kernel may not have found yet; nothing where it is not."""
    for desired in configuration.arrays:
        here = {disk.serial for disk in machine.disks if disk.name in machine.matches[desired.name]}
        written = state.made.get(desired.name)
        members = desired.members or (len(written.serials) if written else 1)
        if len(here) < members:
            return f"{len(here)} of {members} disks of {desired.name} are here"
        if written and here & set(written.serials) and not here >= set(written.serials):
            return f"some disks of {desired.name} are not here yet"
    return ""
