"""Plans for an array that is whole: assemble it if need be, mount it, and never format what may hold data."""

from __future__ import annotations

from collections.abc import Iterable

from gridwright.node_programs.scratch.claims import BLANK, OURS, WIPED, Claim, build_of
from gridwright.node_programs.scratch.configuration import DesiredArray
from gridwright.node_programs.scratch.disks import Disk, MdArray
from gridwright.node_programs.scratch.machine import Machine
from gridwright.node_programs.scratch.plans import MOUNT, MOUNTED, ArrayPlan, Case, listed, wipes
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.node_programs.scratch.state import Build
from gridwright.node_programs.scratch.steps import Step, assemble, directories, mount, record, stop, tune
from gridwright.node_programs.scratch.superblocks import FileSystemSuperblock

_NOT_RUNNING = ("inactive", "clear", "")


def whole_group(case: Case) -> tuple[Claim, ...]:
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
        whole = in_stripe_order(groups[uuid], build_of(uuid, case.desired.name, case.state))
        if whole:
            return whole
    return ()


def in_stripe_order(group: Iterable[Claim], build: Build | None) -> tuple[Claim, ...]:
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


def plan_existing(case: Case, group: tuple[Claim, ...]) -> ArrayPlan:
    """The plan that mounts an array which exists."""
    desired, machine = case.desired, case.machine
    disks = tuple(claim.disk for claim in group)
    array, others = running(case, disks)
    filesystem = array.filesystem if array is not None else disks[0].content.filesystem
    used = array.used if array is not None else disks[0].used
    steps, troubles = stops(case, others, tuple(disk.path for disk in disks))
    troubles += differences(desired, disks, filesystem, group)
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
    steps += tunes(desired, machine, device, disks)
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


def differences(
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


def tunes(desired: DesiredArray, machine: Machine, device: str, disks: tuple[Disk, ...]) -> list[Step]:
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
