"""The command itself: `volumes.pyz` gives a machine its volumes, `volumes.pyz --leave` takes them from it."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gridwright.providers.oci.volumes.attachments import (
    CONFIGURATION,
    Portal,
    VolumeAttachment,
    VolumesConfiguration,
    VolumesError,
    attachments_of,
    read_configuration,
)
from gridwright.providers.oci.volumes.deciding import (
    RULES,
    VolumePlan,
    lacking,
    misled,
    plan_join,
    plan_leave,
    udev_rules,
)
from gridwright.providers.oci.volumes.observing import ROOT, observe, observe_disks, run
from gridwright.providers.oci.volumes.records import flush_records

STATE = ROOT / "var/lib/gridwright/volumes.json"
"""Targets that this program noted: others are not its own, and it leaves them alone."""
LOCK = ROOT / "run/gridwright-volumes.lock"
"""Not in /run/lock, where all may make files on some systems."""
PAUSE_S = float(os.environ.get("GRIDWRIGHT_VOLUMES_PAUSE_S", "5"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 where all volumes are as they should be."""
    parser = argparse.ArgumentParser(prog="volumes", description="Volumes of this server, by iSCSI.")
    parser.add_argument(
        "--config", type=Path, default=CONFIGURATION, metavar="FILE", help="what it should have"
    )
    parser.add_argument("--leave", action="store_true", help="log out of all, before they are detached")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args(arguments)
    done: list[str] = []
    troubles: Sequence[str] = ()
    try:
        configuration = read_configuration(given.config)
        # Who may read a file may lock it.
        with os.fdopen(os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)) as lock:
            os.fchmod(lock.fileno(), 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _leave(_noted(), done) if given.leave else _join(configuration, done)
    except BlockingIOError:
        troubles = ["another one is at work on the volumes: wait for it"]
    except VolumesError as error:
        troubles = error.troubles
    for each in troubles:
        print(f"volumes: {each}", file=sys.stderr)  # noqa: T201 - a program of its own
    if given.json:
        print(json.dumps({"schema": 1, "steps": done, "troubles": list(troubles)}))  # noqa: T201
    return 3 if troubles else 0


def _join(configuration: VolumesConfiguration, done: list[str]) -> None:
    """Wait for attachments, log in, and hold names to their targets. Raises VolumesError."""
    deadline = time.monotonic() + configuration.wait_seconds
    devices = [each.device for each in configuration.volumes]
    while True:
        attachments = attachments_of(_documents(configuration))
        wanted = [each for each in attachments if each.device in devices]
        _carry_out(plan_join(wanted, observe(devices)), done, wanted)
        _forget(wanted, done)
        _name(wanted, devices, done)
        observed = observe_disks(devices)
        if wrong := misled(wanted, observed):
            raise VolumesError(*wrong)
        missing = lacking(configuration.volumes, attachments, observed)
        if not missing:
            return
        if time.monotonic() >= deadline:
            raise VolumesError(*(f"{each}: look at attachments of this machine" for each in missing))
        time.sleep(PAUSE_S)


def _carry_out(plan: VolumePlan, done: list[str], wanted: Sequence[VolumeAttachment] = ()) -> None:
    if plan.steps and wanted:
        # Before the first of them: what a kill leaves half done is known as this program's own.
        _note({*_noted(), *((each.device, each.iqn, one) for each in wanted for one in each.portals)})
    for step in plan.steps:
        run(step.argv)
        done.append(step.why)
    if plan.steps:
        flush_records(((each.iqn, one) for each in wanted for one in each.portals), ROOT)
    if plan.troubles:
        raise VolumesError(*plan.troubles)


def _forget(wanted: Sequence[VolumeAttachment], done: list[str]) -> None:
    """Log out of what was detached."""
    there = {(each.iqn, one) for each in wanted for one in each.portals}
    gone = [each for each in _noted() if (each[1], each[2]) not in there]
    if gone:
        _leave(gone, done)


def _leave(leaving: Sequence[tuple[str, str, Portal]], done: list[str]) -> None:
    """Log out; what is in use keeps all of them. Raises VolumesError."""
    plan = plan_leave(leaving, observe([]))
    if plan.troubles:
        raise VolumesError(*plan.troubles)
    _carry_out(plan, done)
    _note({*_noted()} - {*leaving})


def _name(wanted: Sequence[VolumeAttachment], devices: Sequence[str], done: list[str]) -> None:
    """Have udev give disks their names, where one lacks its own or the rules are others."""
    path, text = ROOT / RULES, udev_rules(wanted)
    is_new = not path.exists() or path.read_text("utf-8") != text
    if is_new:
        _write(path, text)
        run(["udevadm", "control", "--reload"])
        done.append("names of volumes written")
    if is_new or any(device not in observe_disks(devices).links for device in devices):
        run(["udevadm", "trigger", "--subsystem-match=block", "--action=change"])
        run(["udevadm", "settle", "--timeout=60"])


def _documents(configuration: VolumesConfiguration) -> Sequence[dict[str, Any]]:
    if configuration.attachments is not None:
        return configuration.attachments
    from gridwright.providers.oci.boot import cloud

    try:
        found: list[dict[str, Any]] = cloud.Cloud({}).attachments()
    except cloud.REFUSED as refused:
        raise VolumesError(f"the cloud does not tell what is attached: {refused}") from None
    return found


def _noted() -> list[tuple[str, str, Portal]]:
    try:
        found = json.loads(STATE.read_text("utf-8"))
        return [(str(each["device"]), str(each["iqn"]), Portal(str(each["address"]), int(each["port"])))
                for each in found["targets"]]  # fmt: skip
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VolumesError(f"{STATE} is damaged ({error!r}): remove it, and run this again") from None


def _note(targets: set[tuple[str, str, Portal]]) -> None:
    rows = [{"device": device, "iqn": iqn, "address": portal.address, "port": portal.port}
            for device, iqn, portal in sorted(targets, key=str)]  # fmt: skip
    _write(STATE, json.dumps({"schema": 1, "targets": rows}, indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
