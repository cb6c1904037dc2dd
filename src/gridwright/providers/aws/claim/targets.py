"""Decides the next step with volumes: find by tags, attach, examine, format only if blank, mount."""

from __future__ import annotations

from collections.abc import Callable

from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.cloud import GONE, Volume
from gridwright.providers.aws.claim.configuration import Configuration, DesiredTarget, Slot
from gridwright.providers.aws.claim.machine import BLANK, TARGET, UNCLEAR, Device
from gridwright.providers.aws.claim.observation import Observation
from gridwright.providers.aws.claim.problems import ClaimError
from gridwright.providers.aws.claim.records import FORMATTED, FORMATTING, NEW, Kept, Record
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
    wanted = record
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
        wanted = wanted.with_volume(volume, Kept(target.name, NEW))
    if wanted is record:
        return None
    return Write(wanted, f"{slot.name} has {', '.join(volumes[each.name].id for each in slot.targets)}")


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
    there = observation.mounted(target)
    if there == path:
        return None if record.volumes[volume.id].state == FORMATTED else _holds(record, target, volume)
    if there is not None:
        what = f"{there} is mounted on {target.mount}, where {path} with {target.name} belongs"
        raise ClaimError(Trouble(what, f"unmount it: umount {target.mount}; {_AGAIN}"))
    device, state = observation.device(path), record.volumes[volume.id].state
    if device.holds == TARGET and device.label == target.name:
        return _startable(configuration, observation, record, target, volume, device)
    formats = (device.holds, state) in ((BLANK, NEW), (BLANK, FORMATTING), (UNCLEAR, FORMATTING))
    if formats and (said := observation.cannot_format(target.kind)) is not None:
        raise ClaimError(
            Trouble(
                f"this machine cannot make {target.name}: its e2fsprogs know nothing of Lustre ({said})",
                "install e2fsprogs as Lustre's own builds have them (mke2fs -V says wc, as in 1.47.1-wc1): "
                f"name their repository in lustre_server_tools_repository. Nothing was formatted; {_AGAIN}",
            )
        )
    if device.holds == BLANK and state == NEW:
        meant = record.with_volume(volume.id, Kept(target.name, FORMATTING))
        return Write(meant, f"volume {volume.id} is blank, and about to be formatted as {target.name}")
    if formats:
        return Format(record, device.path, target)
    raise ClaimError(_refusal(target, volume, device, state))


def _startable(
    configuration: Configuration,
    observation: Observation,
    record: Record,
    target: DesiredTarget,
    volume: Volume,
    device: Device,
) -> Step:
    """It holds the target."""
    if record.volumes[volume.id].state != FORMATTED:
        if not observation.is_whole(device.path):
            raise ClaimError(
                Trouble(
                    f"formatting {device.path} (volume {volume.id}) as {target.name} was cut off, and it has "
                    "the label already: it is not formatted again",
                    f"nothing was ever stored on it; make it blank: wipefs --all {device.path}; {_AGAIN}",
                )
            )
        return _holds(record, target, volume)
    if target.has_mgs or device.registered or configuration.mgs is None:
        return Mount(record, device.path, target)
    what = (
        f"{target.name} has to be registered, and the management server {configuration.mgs} does not answer"
    )
    remedy = f"look at its own claim there: systemctl status gridwright-claim; {_AGAIN}"
    wait = Wait("management server", Trouble(what, remedy), MGS_S)
    return Mount(record, device.path, target, wait) if observation.reaches(configuration.mgs) else wait


def _holds(record: Record, target: DesiredTarget, volume: Volume) -> Step:
    made = record.with_volume(volume.id, Kept(target.name, FORMATTED))
    return Write(made, f"volume {volume.id} holds {target.name}")


def _refusal(target: DesiredTarget, volume: Volume, device: Device, state: str) -> Trouble:
    where = f"volume {volume.id} ({device.path}), tagged for {target.name},"
    if device.holds == BLANK:
        return Trouble(
            f"{where} is blank, and it was formatted before: its data are lost, or it was swapped",
            "if there is a snapshot of it, make a volume from that with the same tags. Nothing was formatted",
        )
    held = device.what or device.holds
    return Trouble(
        f"{where} holds {held}; it is left alone",
        "see whose it is: if it is not needed, make it blank by hand (wipefs --all, and zeros at both ends); "
        f"{_AGAIN}"
        if state != FORMATTED
        else f"the volume of {target.name} was overwritten or swapped: find the one that holds it",
    )
