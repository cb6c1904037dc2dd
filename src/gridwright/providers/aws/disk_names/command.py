"""The command itself: `disk_names.pyz` names the volumes of this server, and waits until all are there."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.providers.aws.claim.instance_metadata import Metadata
from gridwright.providers.aws.disk_names.naming import serials, udev_rules
from gridwright.providers.aws.disk_names.wanted import (
    CONFIGURATION,
    DiskNames,
    DiskNamesError,
    read_disk_names,
)

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


def _name(wanted: DiskNames, done: list[str]) -> None:
    """Look until all are attached and have their names: attachments come when the machine runs already."""
    deadline = time.monotonic() + wanted.wait_seconds
    instance = Metadata().instance()
    while True:
        serial_of, missing = serials(wanted.disks, _volumes(wanted), instance)
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


def _volumes(wanted: DiskNames) -> list[dict[str, Any]]:
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
    slots = sorted({each.slot for each in wanted.disks})
    filters = [
        {"Name": f"tag:{GRID_TAG}", "Values": [wanted.grid]},
        {"Name": "tag:gridwright:slot", "Values": slots},
    ]
    try:
        ec2 = boto3.session.Session(region_name=wanted.region).client("ec2", config=limits)
        pages = ec2.get_paginator("describe_volumes").paginate(Filters=filters)
        return [dict(each) for page in pages for each in page["Volumes"]]
    except (BotoCoreError, ClientError) as error:
        said = " ".join(str(error).split())[:400]
        raise DiskNamesError(
            f"EC2 does not tell the volumes: {said}: see that this machine reaches it"
        ) from None
