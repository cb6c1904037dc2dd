"""Decides the next step with volumes: find by tags, attach, examine, format only if blank, mount."""

from __future__ import annotations

from collections.abc import Callable

from gridwright.node_programs.lustre_targets.judging import Act, DiskVerdict, DiskWords, verdict
from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.lustre_targets.states import FORMATTED, FORMATTING, NEW
from gridwright.node_programs.lustre_targets.target import DesiredTarget
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.cloud import GONE, Volume
from gridwright.providers.aws.claim.configuration import Configuration, Slot
from gridwright.providers.aws.claim.observation import Observation
from gridwright.providers.aws.claim.records import Record, VolumeRecord
from gridwright.providers.aws.claim.steps import AttachVolume, Format, Mount, Step, Wait, Write

VOLUME_S = 300.0
DEVICE_S = 120.0
MGS_S = 900.0
"""The management server may be replaced at the same time."""
_ENDING = ("shutting-down", *GONE)
_AGAIN = "then start again: systemctl restart gridwright-claim"


def next_of_targets(
    configuration: Configuration,
    observation: Observation,
    slot: Slot,
    record: Record,
    before_mounts: Callable[[], Step | None],
) -> Step | None:
    """What is to be done next with the targets of a slot; None where all are mounted. Raises ClaimError."""
    if observation.missing():
        raise ClaimError(
            Trouble(
                f"this machine cannot serve Lustre: {', '.join(observation.missing())} is not installed",
                "install the packages of a Lustre server for the running kernel, or choose an image that has "
                "them: aws.images.storage of the grid spec",
            )
        )
    volumes = _volumes(observation, slot)
    step = _recorded(slot, record, volumes)
    if step is not None:
        return step
    for number, target in enumerate(slot.targets):
        step = _attached(observation, record, volumes[target.name], device_name(number))
        if step is not None:
            return step
    step = before_mounts()
    if step is not None:
        return step
    for number, target in enumerate(slot.targets):
        step = _started(configuration, observation, record, target, volumes[target.name], device_name(number))
        if step is not None:
            return step
    return None


def device_name(number: int) -> str:
    """Amazon EC2 User Guide, device names for volumes: /dev/sd[f-p], then /dev/xvd[b-c][a-z]."""
    letters = "fghijklmnop"
    if number < len(letters):
        return f"/dev/sd{letters[number]}"
    first, second = divmod(number - len(letters), 26)
    return f"/dev/xvd{'bc'[first]}{chr(ord('a') + second)}"


def _volumes(observation: Observation, slot: Slot) -> dict[str, Volume]:
    """The one volume of each target. Raises ClaimError with all that are missing, or there twice."""
    found = observation.volumes(slot.name)
    troubles = []
    for target in slot.targets:
        here = [each.id for each in found if each.target == target.name]
        tags = f"gridwright:slot={slot.name} and gridwright:target={target.name}"
        if not here:
            troubles.append(
                Trouble(
                    f"the volume of {target.name} is not there: none has the tags {tags}",
                    "if it was deleted, make one from its latest snapshot with these tags. "
                    "Nothing was formatted",
                )
            )
        elif len(here) > 1:
            troubles.append(
                Trouble(
                    f"more than one volume has the tags {tags}: {', '.join(sorted(here))}",
                    "take the tags from the one that is not in use any more",
                )
            )
    if troubles:
        raise ClaimError(*troubles)
    return {each.target: each for each in found if any(each.target == one.name for one in slot.targets)}


def _recorded(slot: Slot, record: Record, volumes: dict[str, Volume]) -> Step | None:
    """Volumes that the table does not know yet; refused where it knows another one with data."""
    desired = record
    for target in slot.targets:
        volume = volumes[target.name].id
        if volume in record.volumes and record.volumes[volume].target == target.name:
            continue
        other = [
            name
            for name, kept in record.volumes.items()
            if kept.target == target.name and kept.state == FORMATTED
        ]
        if other:
            raise ClaimError(
                Trouble(
                    f"{target.name} was on volume {other[0]}, and volume {volume} has its tags now",
                    f"give {other[0]} its tags back; or, if {volume} was made from its snapshot, take "
                    f"{other[0]} out of the item {slot.name} of the table of claims; {_AGAIN}",
                )
            )
        desired = desired.with_volume(volume, VolumeRecord(target.name, NEW))
    if desired is record:
        return None
    return Write(desired, f"{slot.name} has {', '.join(volumes[each.name].id for each in slot.targets)}")


def _attached(observation: Observation, record: Record, volume: Volume, device: str) -> Step | None:
    """The step towards a volume that is attached here; None where it is."""
    if volume.instance == observation.instance and volume.attachment == "attached":
        return None
    if volume.state == "error":
        what = f"volume {volume.id} of {volume.target} is in state error: its hardware is lost"
        raise ClaimError(Trouble(what, "make one from its latest snapshot, with the same tags"))
    if volume.state == "available":
        return AttachVolume(record, volume.id, volume.target, device)
    held = f"volume {volume.id} of {volume.target} is {volume.attachment or volume.state}"
    if volume.instance and volume.instance != observation.instance:
        held = f"volume {volume.id} of {volume.target} is {volume.attachment} to {volume.instance}"
        state = observation.owners([volume.instance])[volume.instance]
        if state not in _ENDING and volume.attachment != "detaching":
            raise ClaimError(
                Trouble(
                    f"{held}, which is {state}; nothing is taken from it",
                    "terminate that instance if it is not needed; the claim then goes on by itself",
                )
            )
        held += f", which is {state}"
    remedy = f"look why EC2 does not finish: aws ec2 describe-volumes --volume-ids {volume.id}; {_AGAIN}"
    return Wait(f"volume {volume.id}", Trouble(held, remedy), VOLUME_S)


def _started(
    configuration: Configuration,
    observation: Observation,
    record: Record,
    target: DesiredTarget,
    volume: Volume,
    name: str,
) -> Step | None:
    """From an attached volume to a target that runs; None where it does."""
    path = observation.path(volume.id, volume.device or name)
    if path is None:
        what = f"volume {volume.id} of {target.name} is attached, and no device of this machine is it"
        return Wait(f"device {volume.id}", Trouble(what, f"look at dmesg; {_AGAIN}"), DEVICE_S)
    state = record.volumes[volume.id].state
    found = verdict(observation, target, path, state, configuration.mgs, _words(volume))
    return _step(found, record, target, volume, path)


def _words(volume: Volume) -> DiskWords:
    return DiskWords(
        volume=f"volume {volume.id}",
        meant="tagged",
        restore="if there is a snapshot of it, make a volume from that with the same tags",
        again=_AGAIN,
        silent="look at its own claim there: systemctl status gridwright-claim",
    )


def _step(
    found: DiskVerdict, record: Record, target: DesiredTarget, volume: Volume, path: str
) -> Step | None:
    """The step that a verdict asks for."""
    wait = Wait("management server", found.silence, MGS_S) if found.silence is not None else None
    if found.act is Act.NOTE_FORMATTED:
        made = record.with_volume(volume.id, VolumeRecord(target.name, FORMATTED))
        return Write(made, f"volume {volume.id} holds {target.name}")
    if found.act is Act.NOTE_FORMATTING:
        meant = record.with_volume(volume.id, VolumeRecord(target.name, FORMATTING))
        return Write(meant, f"volume {volume.id} is blank, and about to be formatted as {target.name}")
    device = found.device.path if found.device is not None else path
    if found.act is Act.FORMAT:
        return Format(record, device, target)
    if found.act is Act.MOUNT:
        return Mount(record, device, target, wait)
    return wait if found.act is Act.AWAIT else None
