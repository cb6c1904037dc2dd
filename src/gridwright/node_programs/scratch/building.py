"""Plans for an array that is not whole: make it on blank disks, make it anew where it is lost, or refuse."""

from __future__ import annotations

from gridwright.node_programs.scratch.claims import BLANK, FOREIGN, OURS, UNREADABLE, WIPED, Claim
from gridwright.node_programs.scratch.disks import Disk
from gridwright.node_programs.scratch.existing_array import elsewhere, running, stops, tunes
from gridwright.node_programs.scratch.plans import FINISH, MAKE, REBUILD, ArrayPlan, Case, listed, wipes
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.node_programs.scratch.state import Build
from gridwright.node_programs.scratch.steps import (
    Step,
    assemble,
    create,
    directories,
    format_device,
    intend,
    mount,
    record,
    wipe,
)


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
        *tunes(case.desired, case.machine, device, disks),
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
