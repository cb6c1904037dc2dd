"""Gives volumes of a pair one name on both of its servers, by the tags of the volumes: `disk_names.pyz`.

It waits until all are there. It never writes to a volume, and attaches and detaches none.

What /etc/gridwright/disk-names.json says: names of this server's volumes, and their tags.

```json
{
  "schema": 1,
  "grid": "demo",
  "region": "us-east-1",
  "wait_seconds": 1800,
  "disks": [{"path": "/dev/gridwright/lake-p1-v01", "slot": "lake-p1", "target": "p1-v01"}]
}
```
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.node_programs.lustre_targets import ClaimError
from gridwright.providers.aws.claim.this_machine import Metadata

CONFIGURATION = Path("/etc/gridwright/disk-names.json")
LINK = re.compile(r"/dev/gridwright/[a-z0-9][a-z0-9-]{0,126}")


class DiskNamesError(Exception):
    """What is wrong, all of it, in words for administrators: each with what to do about it."""

    def __init__(self, *troubles: str) -> None:
        super().__init__("; ".join(troubles))
        self.troubles = troubles


@dataclass(frozen=True)
class NamedDisk:
    """A volume that this server shares: its name here, and the tags of the volume."""

    path: str
    slot: str
    target: str


@dataclass(frozen=True)
class DiskNames:
    """All that the file says."""

    grid: str
    region: str
    disks: tuple[NamedDisk, ...]
    wait_seconds: float


def read_disk_names(path: Path) -> DiskNames:
    """Read and check it. Raises DiskNamesError with all that is wrong."""
    try:
        found = json.loads(path.read_text("utf-8"))
        disks = tuple(
            NamedDisk(str(each["path"]), str(each["slot"]), str(each["target"])) for each in found["disks"]
        )
        grid, region = str(found["grid"]), str(found["region"])
        wait = float(found.get("wait_seconds", 1800))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DiskNamesError(f"{path} cannot be read ({error!r}): have the machine set up again") from None
    wrong = [
        f"{each.path} is no name below /dev/gridwright" for each in disks if not LINK.fullmatch(each.path)
    ]
    wrong += [f"{each} is the name of two volumes" for each in twice(each.path for each in disks)]
    wrong += [f"{each} is named twice" for each in twice(f"{each.slot} {each.target}" for each in disks)]
    if wrong:
        raise DiskNamesError(*(f"{path}: {each}: have the machine set up again" for each in wrong))
    return DiskNames(grid, region, disks, wait)


def twice(names: Iterable[str]) -> list[str]:
    """What is there more than once."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    return sorted(name for name, count in seen.items() if count > 1)


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


ROOT = Path(os.environ.get("GRIDWRIGHT_ROOT") or "/")
RULES = ROOT / "etc/udev/rules.d/70-gridwright-disk-names.rules"
PAUSE_S = float(os.environ.get("GRIDWRIGHT_DISK_NAMES_PAUSE_S", "5"))
COMMAND_S = 120
GRID_TAG = "gridwright:grid"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 where every volume has its name."""
    parser = argparse.ArgumentParser(prog="disk_names", description="Names of volumes that servers share.")
    parser.add_argument("--config", type=Path, default=CONFIGURATION, metavar="FILE", help="the names")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args(arguments)
    done: list[str] = []
    troubles: Sequence[str] = ()
    try:
        _name(read_disk_names(given.config), done)
    except DiskNamesError as error:
        troubles = error.troubles
    except ClaimError as error:
        troubles = [f"{each.what}: {each.remedy}" for each in error.troubles]
    for line in troubles:
        print(f"disk_names: {line}", file=sys.stderr)  # noqa: T201 - a program of its own
    if given.json:
        print(json.dumps({"schema": 1, "steps": done, "troubles": list(troubles)}))  # noqa: T201
    return 3 if troubles else 0


def _name(desired: DiskNames, done: list[str]) -> None:
    """Look until all are attached and have their names: attachments come when the machine runs already."""
    deadline = time.monotonic() + desired.wait_seconds
    instance = Metadata().instance()
    while True:
        serial_of, missing = serials(desired.disks, _volumes(desired), instance)
        if serial_of:
            _write(udev_rules(serial_of), done)
        missing += [
            f"{path}: the disk {serial} has not come up, or udev has not named it"
            for path, serial in serial_of.items()
            if _serial_behind(path) != serial
        ]
        if not missing:
            return
        if time.monotonic() >= deadline:
            raise DiskNamesError(*(f"{each}: look at the attachments of this machine" for each in missing))
        if serial_of:
            _triggered()
        time.sleep(PAUSE_S)


def _write(rules: str, done: list[str]) -> None:
    """Whole or not at all; a second run changes nothing."""
    if RULES.exists() and RULES.read_text("utf-8") == rules:
        return
    RULES.parent.mkdir(parents=True, exist_ok=True)
    new = RULES.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        file.write(rules)
        file.flush()
        os.fsync(file.fileno())
    new.replace(RULES)
    done.append(f"write {RULES}")
    _run("udevadm", "control", "--reload")
    _triggered()


def _triggered() -> None:
    """Have udev look at disks again (udevadm(8))."""
    _run("udevadm", "trigger", "--action=change", "--subsystem-match=block")
    _run("udevadm", "settle", "--timeout=60")


def _run(*command: str) -> None:
    try:
        found = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DiskNamesError(f"{' '.join(command)}: {error}: look at the log of udev") from None
    if found.returncode:
        said = " ".join((found.stderr or found.stdout).split())[:400]
        raise DiskNamesError(f"{' '.join(command)} failed: {said}: look at the log of udev")


def _serial_behind(path: str) -> str:
    """The serial number of the disk that a name leads to; empty where it leads to none."""
    link = ROOT / path.lstrip("/")
    name = Path(os.path.realpath(link)).name
    try:
        return (ROOT / "sys/block" / name / "device/serial").read_text("ascii", "replace").strip()
    except OSError:
        return ""


def _volumes(desired: DiskNames) -> list[dict[str, Any]]:
    """All volumes of the grid, as EC2 describes them. Raises DiskNamesError."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise DiskNamesError(
            "boto3, by which AWS is asked, is not installed: install python3-boto3"
        ) from None
    limits = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 6})
    slots = sorted({each.slot for each in desired.disks})
    filters = [
        {"Name": f"tag:{GRID_TAG}", "Values": [desired.grid]},
        {"Name": "tag:gridwright:slot", "Values": slots},
    ]
    try:
        ec2 = boto3.session.Session(region_name=desired.region).client("ec2", config=limits)
        pages = ec2.get_paginator("describe_volumes").paginate(Filters=filters)
        return [dict(each) for page in pages for each in page["Volumes"]]
    except (BotoCoreError, ClientError) as error:
        said = " ".join(str(error).split())[:400]
        raise DiskNamesError(
            f"EC2 does not tell the volumes: {said}: see that this machine reaches it"
        ) from None
