"""From tags of volumes to rules of udev. Nothing here asks or changes anything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gridwright.providers.aws.disk_names.wanted import DiskNamesError, NamedDisk

SLOT_TAG, TARGET_TAG = "gridwright:slot", "gridwright:target"
RULES_HEAD = "# By Gridwright: volumes that this server shares with the other one of its pair.\n"
_VOLUME = re.compile(r"vol-[0-9a-f]{8,17}")


def serials(
    disks: Sequence[NamedDisk], volumes: Sequence[Mapping[str, Any]], instance: str
) -> tuple[dict[str, str], list[str]]:
    """Serial number of the disk by its name, and what is not attached to this instance yet, in words.

    `volumes` are as EC2 describes them. A disk of EBS has the ID of its volume, without the hyphen, as its
    serial number (Amazon EBS User Guide, map EBS volumes to NVMe device names). Raises DiskNamesError.
    """
    found, missing, wrong = {}, [], []
    for disk in disks:
        known = [each for each in volumes if _tags(each) == (disk.slot, disk.target)]
        ids = ", ".join(sorted(str(each["VolumeId"]) for each in known))
        if not known:
            wrong.append(
                f"{disk.path}: no volume has the tags {SLOT_TAG}={disk.slot} and {TARGET_TAG}={disk.target}: "
                "the grid's stacks make it: gridwright up"
            )
        elif len(known) > 1:
            wrong.append(f"{disk.path}: {ids} have its tags: take them from those that are not of the grid")
        elif not _VOLUME.fullmatch(str(known[0]["VolumeId"])):
            wrong.append(f"{disk.path}: {ids} is no ID of a volume: have the machine set up again")
        elif not _is_attached(known[0], instance):
            missing.append(f"{disk.path}: volume {ids} is not attached to {instance}")
        else:
            found[disk.path] = str(known[0]["VolumeId"]).replace("-", "")
    if wrong:
        raise DiskNamesError(*wrong)
    return found, missing


def _tags(volume: Mapping[str, Any]) -> tuple[str, str]:
    tags = {each["Key"]: each["Value"] for each in volume.get("Tags") or ()}
    return tags.get(SLOT_TAG, ""), tags.get(TARGET_TAG, "")


def _is_attached(volume: Mapping[str, Any], instance: str) -> bool:
    return any(
        each.get("InstanceId") == instance and each.get("State") == "attached"
        for each in volume.get("Attachments") or ()
    )


def udev_rules(serial_of: Mapping[str, str]) -> str:
    """Rules that give each disk its name, and no part of it (udev(7): SYMLINK)."""
    lines = [
        f'SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", KERNEL=="nvme*", ATTRS{{serial}}=="{serial}", '
        f'SYMLINK+="{path.removeprefix("/dev/")}"\n'
        for path, serial in sorted(serial_of.items())
    ]
    return RULES_HEAD + "".join(lines)
