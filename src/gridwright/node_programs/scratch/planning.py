"""The plan of a machine: a pure function of the configuration, of the journal, and of what was seen.

No step of it overwrites a byte of a disk that a rule of the configuration does not fit, or that holds
anything but zeros, a superblock that this node wrote down as its own, or what the user has named with --wipe.
An array that is whole is assembled if need be and mounted, and never formatted; one that is not is made on
blank disks, made anew where it is lost, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from gridwright.node_programs.scratch.configuration import Configuration, DesiredArray
from gridwright.node_programs.scratch.disks import Disk, FileSystemSuperblock, MdArray
from gridwright.node_programs.scratch.machine import Machine
from gridwright.node_programs.scratch.plans import (
    FINISH,
    MAKE,
    MOUNT,
    MOUNTED,
    REBUILD,
    ArrayPlan,
    Case,
    Plan,
    Step,
    assemble,
    create,
    directories,
    format_device,
    intend,
    listed,
    mount,
    record,
    stop,
    tune,
    wipe,
    wipes,
)
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.node_programs.scratch.state import (
    BLANK,
    FOREIGN,
    IN_USE,
    OURS,
    UNREADABLE,
    WIPED,
    Build,
    Claim,
    State,
    build_of,
    claim,
)

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
    group = _whole_group(case)
    intent = case.state.intents.get(case.desired.name)
    if group and intent is not None and _unfinished(case, group):
        return _finish_or_keep(case, group) or build(case)
    return _plan_existing(case, group) if group else build(case)


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
    return _plan_existing(case, group) if in_use else finish(case, group, intent)


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
        if hit and rest and _in_stripe_order(members, build_of(uuid, name, state)):
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


_NOT_RUNNING = ("inactive", "clear", "")


def _whole_group(case: Case) -> tuple[Claim, ...]:
    """The disks of an array of ours that has all of them, in the order of the stripe; none without one.

    What stands goes before what was meant, and what was written down before what only has our name.
    """
    groups: dict[str, list[Claim]] = {}
    for candidate in case.candidates:
        if (
            candidate.standing == OURS
            and candidate.array == case.desired.name
            and candidate.disk.name not in case.wiped
        ):
            groups.setdefault(candidate.group, []).append(candidate)
    made, meant = case.state.made.get(case.desired.name), case.state.intents.get(case.desired.name)
    order = [uuid for build in (made, meant) if build for uuid in (build.md_uuid, build.filesystem_uuid)]
    known = [uuid for uuid in order if uuid in groups]
    for uuid in [*known, *sorted(set(groups) - set(known))]:
        whole = _in_stripe_order(groups[uuid], build_of(uuid, case.desired.name, case.state))
        if whole:
            return whole
    return ()


def _in_stripe_order(group: Iterable[Claim], build: Build | None) -> tuple[Claim, ...]:
    """All disks of one array by their place; none where a place is empty, or taken twice by disks unknown."""
    claims = tuple(group)
    if build is not None and len({_place(claim) for claim in claims}) < len(claims):
        claims = tuple(claim for claim in claims if claim.disk.serial in build.serials)
    places = {_place(claim): claim for claim in claims}
    sizes = {claim.disk.content.md.raid_disks if claim.disk.content.md else 1 for claim in claims}
    if len(sizes) != 1 or len(places) != len(claims) or set(places) != set(range(sizes.pop())):
        return ()
    return tuple(places[place] for place in sorted(places))


def _place(claim: Claim) -> int:
    """Where in the stripe; a plain file system is its own first disk, and -1 is nowhere."""
    md, filesystem = claim.disk.content.md, claim.disk.content.filesystem
    if md is not None:
        return -1 if md.role is None else md.role
    return -1 if filesystem is None else 0


def running(case: Case, disks: Iterable[Disk]) -> tuple[MdArray | None, tuple[MdArray, ...]]:
    """The md device that runs with exactly these disks, and others that hold some of them."""
    names = frozenset(disk.name for disk in disks)
    holding = case.holding(names)
    whole = [array for array in holding if set(array.members) == names and array.state not in _NOT_RUNNING]
    return (whole[0] if whole else None), tuple(array for array in holding if array not in whole)


def stops(case: Case, others: Iterable[MdArray], quiet: tuple[str, ...]) -> tuple[list[Step], list[Trouble]]:
    """Stop what udev or an initramfs has half assembled of our disks; nothing else, and nothing in use."""
    ours = {candidate.disk.name for candidate in case.candidates if candidate.standing in (OURS, WIPED)}
    steps, troubles = [], []
    for other in others:
        strangers = sorted(set(other.members) - ours)
        if other.used or other.holders or strangers:
            why = other.used or f"part of {', '.join((*other.holders, *strangers))}"
            troubles.append(
                Trouble(f"{other.path} holds disks of {case.desired.name} and is {why}", "unmount it")
            )
        else:
            steps.append(stop(other.path, quiet, f"it is {other.state}, and holds disks that are needed"))
    return steps, troubles


def _plan_existing(case: Case, group: tuple[Claim, ...]) -> ArrayPlan:
    """The plan that mounts an array which exists."""
    desired, machine = case.desired, case.machine
    disks = tuple(claim.disk for claim in group)
    array, others = running(case, disks)
    filesystem = array.filesystem if array is not None else disks[0].content.filesystem
    used = array.used if array is not None else disks[0].used
    steps, troubles = stops(case, others, tuple(disk.path for disk in disks))
    troubles += _differences(desired, disks, filesystem, group)
    if array is not None and array.state == "broken":
        remedy = (
            f"what it held is lost; umount {desired.mount_point}, mdadm --stop {array.path}, and start again"
        )
        troubles.append(Trouble(f"{array.path}: a disk of it has failed", remedy))
    mounted = used == f"mounted on {desired.mount_point}"
    troubles += elsewhere(case, used, mounted)
    notes = _left(case, group)
    if troubles or filesystem is None:
        return case.refused(*troubles, notes=notes)
    device = array.path if array is not None else disks[0].path
    md = disks[0].content.md
    if md is not None and array is None:
        device = case.free_device
        steps.append(assemble(device, disks, md.uuid))
    steps += _records(case, disks, filesystem)
    steps += _tunes(desired, machine, device, disks)
    steps += [] if mounted else mount(device, desired)
    steps += [directories(desired)] if not mounted or desired.name in machine.not_ready else []
    return ArrayPlan(desired, MOUNTED if not steps else MOUNT, disks, device, tuple(steps), notes)


def elsewhere(case: Case, used: str | None, mounted: bool) -> list[Trouble]:
    """Our file system at another place, or another one at our place."""
    point = case.desired.mount_point
    if used and not mounted:
        return [
            Trouble(f"the file system of {case.desired.name} is {used}, not on {point}", "unmount it there")
        ]
    there = [each for each in case.machine.mounts if each.point == str(point)]
    if there and not mounted:
        return [Trouble(f"{point}: {there[-1].source} is mounted there", f"unmount it: umount {point}")]
    return []


def _differences(
    desired: DesiredArray,
    disks: tuple[Disk, ...],
    filesystem: FileSystemSuperblock | None,
    group: tuple[Claim, ...],
) -> list[Trouble]:
    """What is otherwise than configured, and cannot be changed without losing what it holds."""
    found: list[str] = []
    md, members = disks[0].content.md, len(disks)
    if desired.members is not None and desired.members != members:
        found.append(f"it has {members} disks, and members is {desired.members}")
    if md is not None and md.level != 0:
        found.append(f"it is RAID {md.level}, not RAID 0")
    if md is not None and md.chunk_bytes != desired.chunk_bytes:
        found.append(f"its chunk is {md.chunk_bytes} bytes, and chunk_bytes is {desired.chunk_bytes}")
    if filesystem is None:
        found.append("no file system is on it that gridwright made")
    elif filesystem.type != desired.format:
        found.append(f"it holds {filesystem.type}, and format is {desired.format}")
    elif not filesystem.finished:
        found.append(f"its {filesystem.type} was never finished")
    elif md is not None:
        aligned = (filesystem.unit_bytes, filesystem.width_bytes)
        if aligned != (md.chunk_bytes, md.chunk_bytes * members):
            found.append(
                f"its {filesystem.type} is aligned to {aligned[0]} and {aligned[1]} bytes, not to its chunks"
            )
    if not found:
        return []
    remedy = (
        "have the configuration say what is there, or make it anew, empty: "
        f"umount {desired.mount_point}, then "
        f"gridwright node scratch {wipes(group)}"
    )
    return [Trouble(f"array {desired.name} stands, but not as configured: {'; '.join(found)}", remedy)]


def _records(case: Case, disks: tuple[Disk, ...], filesystem: FileSystemSuperblock) -> list[Step]:
    """Write down what was found, where that is not what is written."""
    name, md = case.desired.name, disks[0].content.md
    chunk = md.chunk_bytes if md is not None else case.desired.chunk_bytes
    uuid = md.uuid if md is not None else None
    serials = tuple(disk.serial for disk in disks)
    now = Build(name, serials, uuid, filesystem.uuid, filesystem.type, chunk, case.now)
    written = case.state.made.get(name)
    same = written is not None and (
        (written.serials, written.md_uuid, written.filesystem_uuid) == (serials, uuid, filesystem.uuid)
    )
    if same and name not in case.state.intents:
        return []
    return [record(now, "it is whole, and was not written down so")]


def _tunes(desired: DesiredArray, machine: Machine, device: str, disks: tuple[Disk, ...]) -> list[Step]:
    """Read-ahead of the striped device, and no scheduler in front of flash, which orders requests itself.

    Linux ABI/stable/sysfs-block; facts 000.tun.readahead and 003.tun.66. A device yet to be made has the
    kernel's own value.
    """
    name = device.rsplit("/", 1)[-1]
    steps = []
    queue = machine.queues.get(name)
    if queue is None or queue.read_ahead_kib != desired.read_ahead_kib:
        path = f"/sys/block/{name}/queue/read_ahead_kb"
        steps.append(tune(path, str(desired.read_ahead_kib), "a stream has all disks read ahead of it"))
    for disk in disks:
        queue = machine.queues.get(disk.name)
        if queue and not queue.rotational and "none" in queue.schedulers.split():
            path = f"/sys/block/{disk.name}/queue/scheduler"
            steps.append(tune(path, "none", "flash orders requests itself"))
    return steps


def _left(case: Case, group: tuple[Claim, ...]) -> tuple[str, ...]:
    """Disks that a rule fits and that the array does without."""
    names = {claim.disk.name for claim in group}
    rest = tuple(candidate for candidate in case.candidates if candidate.disk.name not in names)
    spare = tuple(each for each in rest if each.standing == BLANK)
    notes = []
    if spare and case.desired.members is None:
        notes.append(f"not used, as the array was made without: {listed(spare)}")
    others = tuple(each for each in rest if each.standing != BLANK)
    if others:
        notes.append(f"left alone: {listed(others)}")
    return tuple(notes)


def finish(case: Case, group: tuple[Claim, ...], intent: Build) -> ArrayPlan | None:
    """An array that has all its superblocks, but no file system yet; None where it has to be made anew."""
    desired = case.desired
    disks = tuple(claim.disk for claim in group)
    md = disks[0].content.md
    if md is None or (md.level, md.chunk_bytes) != (0, desired.chunk_bytes):
        return None
    if desired.format != intent.format or desired.members not in (None, len(disks)):
        return None
    array, others = running(case, disks)
    steps, troubles = stops(case, others, tuple(disk.path for disk in disks))
    filesystem = array.filesystem if array is not None else disks[0].content.filesystem
    written = case.state.made.get(desired.name)
    own = {intent.filesystem_uuid, written.filesystem_uuid if written else ""}
    if filesystem is not None and filesystem.uuid not in own:
        what = (
            f"array {desired.name} was left unfinished, and holds {filesystem.type} {filesystem.label!r} now"
        )
        troubles.append(Trouble(what, f"if it is not needed: gridwright node scratch {wipes(group)}"))
    troubles += elsewhere(case, array.used if array is not None else None, False)
    if troubles:
        return case.refused(*troubles)
    device = array.path if array is not None else case.free_device
    if array is None:
        steps.append(assemble(device, disks, md.uuid))
    notes = ("an interrupted build is finished",)
    steps += _formatted(case, device, disks, intent, discard=True)
    return ArrayPlan(desired, FINISH, disks, device, tuple(steps), notes)


def build(case: Case) -> ArrayPlan:
    """Make it, if enough disks are there and none of them is anybody's."""
    reusable = tuple(candidate for candidate in case.candidates if _reusable(candidate, case))
    in_the_way = tuple(candidate for candidate in case.candidates if candidate not in reusable)
    chosen = _chosen(case, reusable)
    troubles = _shortage(case, reusable, in_the_way)
    if troubles:
        return case.refused(*troubles)
    desired = case.desired
    disks = tuple(each.disk for each in chosen)
    paths = tuple(disk.path for disk in disks)
    named = tuple(each for each in reusable if each.standing == WIPED)
    held = case.holding(frozenset(each.disk.name for each in (*chosen, *named)))
    steps, in_use = stops(case, held, paths)
    troubles = [*_unfit(case, chosen), *(in_use or elsewhere(case, None, False))]
    if troubles:
        return case.refused(*troubles)
    meant = _meant(case, disks)
    steps += [wipe(each.disk, each.found, paths) for each in named]
    steps.append(intend(meant, paths))
    device = disks[0].path
    if len(disks) > 1:
        device = case.free_device
        steps.append(create(device, disks, meant))
    used_before = any(each.standing != BLANK for each in chosen)
    steps += _formatted(case, device, disks, meant, discard=used_before)
    kind = (
        REBUILD if desired.name in case.state.made else FINISH if desired.name in case.state.intents else MAKE
    )
    return ArrayPlan(desired, kind, disks, device, tuple(steps), _notes(case, chosen, in_the_way))


def _formatted(
    case: Case, device: str, disks: tuple[Disk, ...], meant: Build, *, discard: bool
) -> list[Step]:
    """From a device to a mount."""
    return [
        format_device(device, disks, meant, discard=discard),
        record(meant, "array and file system are whole"),
        *_tunes(case.desired, case.machine, device, disks),
        *mount(device, case.desired),
        directories(case.desired),
    ]


def _reusable(claim: Claim, case: Case) -> bool:
    """Blank, named to be wiped, or written down as ours; what only has our name may be another node's."""
    if claim.standing in (BLANK, WIPED):
        return True
    return claim.standing == OURS and claim.known and claim.array == case.desired.name and not claim.disk.used


def _shortage(case: Case, reusable: tuple[Claim, ...], in_the_way: tuple[Claim, ...]) -> list[Trouble]:
    """Why these disks are not enough, or not all."""
    desired, written = case.desired, case.state.made.get(case.desired.name)
    lost = tuple(claim for claim in in_the_way if written and claim.disk.serial in written.serials)
    members = desired.members if desired.members is not None else len(case.candidates)
    if not case.candidates:
        remedy = (
            "see gridwright node scratch --dry-run for all disks, "
            "and say which are meant: match in the configuration"
        )
        return [Trouble(f"array {desired.name}: no disk of an instance store is here", remedy)]
    if lost or len(reusable) < members:
        return [Trouble(_what(case, reusable, members), _remedy(case, in_the_way, members))]
    ours = [claim for claim in reusable if claim.standing == OURS]
    if desired.members is None and written and ours and len(reusable) < len(written.serials):
        missing = sorted(set(written.serials) - {candidate.disk.serial for candidate in case.candidates})
        what = f"array {desired.name}: {len(ours)} of its {len(written.serials)} disks are here; missing: "
        remedy = (
            "a disk that comes back brings the data back; to make it anew, empty, of what is here: "
            f"gridwright node scratch {wipes(tuple(ours))}"
        )
        return [Trouble(f"{what}{', '.join(missing)}", remedy)]
    return []


def _what(case: Case, reusable: tuple[Claim, ...], desired: int) -> str:
    found = listed(case.candidates)
    return (
        f"array {case.desired.name} needs {desired} disks, and of {len(case.candidates)} found "
        f"{len(reusable)} are blank or its own; nothing was touched. Found: {found}"
    )


def _remedy(case: Case, in_the_way: tuple[Claim, ...], desired: int) -> str:
    foreign = tuple(claim for claim in in_the_way if claim.standing in (FOREIGN, OURS))
    if len(case.candidates) < desired:
        return (
            "attach what is missing; or have the configuration say how many there are, to make it of those, "
            "empty: "
            f"members {len(case.candidates)}"
        )
    if foreign:
        return f"if what they hold is not needed, name each: gridwright node scratch {wipes(foreign)}"
    if any(claim.standing == UNREADABLE for claim in in_the_way):
        return "see dmesg; replace the disk (stop and start an instance of a cloud), or ask for fewer members"
    return "release the disks that are in use, or leave them out: members, or match, in the configuration"


def _chosen(case: Case, reusable: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """As many as configured: first those of an unfinished build, then ours, then named, then blank ones."""
    intent = case.state.intents.get(case.desired.name)
    meant = intent.serials if intent is not None else ()
    order = {OURS: 1, WIPED: 2, BLANK: 3}
    ranked = sorted(reusable, key=lambda each: 0 if each.disk.serial in meant else order[each.standing])
    taken = ranked[: case.desired.members] if case.desired.members is not None else ranked
    return tuple(claim for claim in reusable if claim in taken)


def _unfit(case: Case, chosen: tuple[Claim, ...]) -> list[Trouble]:
    """Disks of different sizes, and commands that are not installed."""
    desired = case.desired
    sizes = sorted({claim.disk.bytes for claim in chosen})
    troubles = []
    if len(sizes) > 1:
        found = "; ".join(f"{claim.disk.path}: {claim.disk.bytes} bytes" for claim in chosen)
        remedy = "choose those of one size: at_least_bytes and at_most_bytes of match, in the configuration"
        troubles.append(Trouble(f"array {desired.name}: its disks are not of one size: {found}", remedy))
    needed = {f"mkfs.{desired.format}", "mount", *(["mdadm"] if len(chosen) > 1 else [])}
    packages = {"mdadm": "mdadm", "mkfs.xfs": "xfsprogs", "mkfs.ext4": "e2fsprogs", "mount": "util-linux"}
    for name in sorted(needed - case.machine.tools):
        troubles.append(Trouble(f"{name} is not installed", f"install the package {packages[name]}"))
    return troubles


def _meant(case: Case, disks: tuple[Disk, ...]) -> Build:
    """What is about to be made. An open intent keeps its UUIDs: disks may carry them already."""
    desired, intent = case.desired, case.state.intents.get(case.desired.name)
    md = None
    if len(disks) > 1:
        md = intent.md_uuid if intent is not None and intent.md_uuid is not None else case.new_uuid()
    filesystem = intent.filesystem_uuid if intent is not None else case.new_uuid()
    serials = tuple(disk.serial for disk in disks)
    return Build(desired.name, serials, md, filesystem, desired.format, desired.chunk_bytes, case.now)


def _notes(case: Case, chosen: tuple[Claim, ...], in_the_way: tuple[Claim, ...]) -> tuple[str, ...]:
    """What was lost, and which disks are done without."""
    notes = []
    written = case.state.made.get(case.desired.name)
    if written is not None:
        kept = sum(claim.standing == OURS for claim in chosen)
        if kept:
            notes.append(f"{kept} of its {len(written.serials)} disks are here: RAID 0 has lost what it held")
        elif all(claim.standing == BLANK for claim in chosen):
            notes.append("its disks came back blank, as after a stop of the instance; what it held is lost")
    elif case.desired.name in case.state.intents:
        notes.append("an interrupted build is begun again")
    if in_the_way:
        notes.append(f"left alone: {listed(in_the_way)}")
    return tuple(notes)
