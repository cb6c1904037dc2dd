"""Pure: which commands give this machine its volumes, or take them from it, and what stands in the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridwright.providers.oci.volumes.attachments import Portal, VolumeAttachment, WantedVolume
from gridwright.providers.oci.volumes.observing import ObservedVolumes

RULES = "etc/udev/rules.d/90-gridwright-volumes.rules"
"""Behind the rules of udev that learn the path of a disk (60-persistent-storage.rules)."""


@dataclass(frozen=True)
class VolumeStep:
    """A command, and why."""

    argv: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class VolumePlan:
    """What is to be done, and what cannot be."""

    steps: tuple[VolumeStep, ...]
    troubles: tuple[str, ...]


def udev_rules(attachments: Sequence[VolumeAttachment]) -> str:
    """Names of disks by their target: the same on both servers, whatever order disks are found in."""
    lines = ["# Written by Gridwright: names of volumes, as Oracle's own images give them."]
    for each in attachments:
        if not each.by_agent:
            name = each.device.removeprefix("/dev/")
            match = f'SUBSYSTEM=="block", ENV{{ID_PATH}}=="ip-*-iscsi-{each.iqn}-lun-*"'
            lines.append(f'{match}, ENV{{DEVTYPE}}=="disk", SYMLINK+="{name}"')
            lines.append(f'{match}, ENV{{DEVTYPE}}=="partition", SYMLINK+="{name}%n"')
    return "\n".join(lines) + "\n"


def plan_join(attachments: Sequence[VolumeAttachment], observed: ObservedVolumes) -> VolumePlan:
    """Log in to what is attached; what this machine has already is left as it is."""
    steps: list[VolumeStep] = []
    sessions = {(each.target, each.portal) for each in observed.sessions}
    for each in attachments:
        if each.by_agent:
            continue
        for portal in each.portals:
            key = each.iqn, portal
            record = _record(*key)
            if key in observed.damaged:
                remove = ("rm", "-r", "-f", "--", observed.damaged[key])
                steps.append(VolumeStep(remove, f"{each.device}: remove its record, which is damaged"))
            if key not in observed.records:
                steps.append(VolumeStep((*record, "-o", "new"), f"{each.device}: note where it is"))
            if key not in observed.automatic:
                startup = ("-o", "update", "-n", "node.startup", "-v", "automatic")
                steps.append(VolumeStep((*record, *startup), f"{each.device}: log in at each start"))
            if key not in sessions:
                steps.append(VolumeStep((*record, "--login"), f"{each.device}: log in"))
    return VolumePlan(tuple(steps), ())


def plan_leave(leaving: Sequence[tuple[str, str, Portal]], observed: ObservedVolumes) -> VolumePlan:
    """Log out of targets (device, target, portal), each only when nothing uses its disks any more.

    The order is unmount, shut the file system's daemon down, log out, detach: a disk that goes under a daemon
    that has it open takes the file system with it.
    """
    steps: list[VolumeStep] = []
    troubles: list[str] = []
    for device, iqn, portal in leaving:
        disks = [disk for each in observed.sessions if (each.target, each.portal) == (iqn, portal)
                 for disk in each.disks]  # fmt: skip
        uses = [observed.used[disk] for disk in disks if disk in observed.used]
        if uses:
            troubles.append(f"{device} is in use: {uses[0]}; unmount it and shut its file system down first")
            continue
        if any((each.target, each.portal) == (iqn, portal) for each in observed.sessions):
            steps.append(VolumeStep((*_record(iqn, portal), "--logout"), f"{device}: log out"))
        if (iqn, portal) in observed.records:
            steps.append(VolumeStep((*_record(iqn, portal), "-o", "delete"), f"{device}: forget it"))
    return VolumePlan(tuple(steps), tuple(troubles))


def lacking(
    wanted: Sequence[WantedVolume], attachments: Sequence[VolumeAttachment], observed: ObservedVolumes
) -> tuple[str, ...]:
    """What this machine does not have yet of what it should, one sentence each."""
    found = {each.device: each for each in attachments}
    answering = {each.target for each in observed.sessions if each.answers}
    silent = {each.target for each in observed.sessions} - answering
    missing = []
    for each in wanted:
        attachment = found.get(each.device)
        if attachment is None:
            missing.append(f"{each.name} is not attached to this machine as {each.device}")
        elif each.device not in observed.links:
            agent = "; Oracle's agent logs in to it: is its Block Volume Management plugin on?"
            why = agent if attachment.by_agent else ""
            missing.append(f"{each.name} is not there yet as {each.device}{why}")
        # Volumes that the agent logs in to have other paths, with targets of their own.
        elif attachment.iqn in silent and not attachment.by_agent:
            portals = ", ".join(map(str, attachment.portals))
            missing.append(f"{each.name} is there as {each.device}, but {portals} does not answer any more")
    return tuple(missing)


def misled(attachments: Sequence[VolumeAttachment], observed: ObservedVolumes) -> tuple[str, ...]:
    """Names that lead to another volume: to go on would destroy what is on it."""
    return tuple(
        f"{each.device} leads to {' and '.join(observed.links[each.device]) or 'a disk without a target'}, "
        f"not to {each.iqn}: detach one of the two, and restart the machine"
        for each in attachments
        # Paths that the agent logs in to have targets of their own.
        if not each.by_agent and each.device in observed.links and each.iqn not in observed.links[each.device]
    )


def _record(iqn: str, portal: Portal) -> tuple[str, ...]:
    return ("iscsiadm", "-m", "node", "-T", iqn, "-p", str(portal))
