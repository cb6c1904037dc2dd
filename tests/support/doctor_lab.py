"""What the doctor finds, and how soon."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tests.support.command import Command, Ended
from tests.support.lab import Lab

WITHIN_S = 10.0
"""On a machine that is not busy: where more processes want to run than there are processors all is slower."""
TRIALS = (
    "not-seen-by-others",
    "read-after-write",
    "rename-unseen",
    "flock-alone",
    "fcntl-alone",
    "append-torn",
)


def examined(command: Command, spec: Path, *flags: str) -> tuple[Ended, dict[str, list[Any]]]:
    """What the doctor finds wrong, by name; it must not take longer than it may."""
    loaded, began = os.getloadavg()[0], time.monotonic()
    ended = command("doctor", spec, *flags, "--json")
    took = time.monotonic() - began
    waiting = max(loaded, os.getloadavg()[0]) / (os.cpu_count() or 1)
    most = WITHIN_S * (1 + waiting if waiting > 1.5 else 1)
    assert took < most, f"{took:.1f} s, {waiting:.1f} processes for each processor"
    wrong: dict[str, list[Any]] = {}
    for each in ended.json["checks"]:
        if not each["ok"]:
            wrong.setdefault(each["name"], []).append(each)
    return ended, wrong


def checks(lab: Lab) -> tuple[int, list[Any]]:
    ended = lab.command("doctor", lab.spec, "--json")
    return ended.status, ended.json["checks"]


def named(found: list[Any], *names: str, ok: bool) -> dict[str, str]:
    return {each["name"]: each["nodes"] for each in found if each["name"] in names and each["ok"] is ok}


def in_library(lab: Lab) -> list[str]:
    return lab.run("compute1", "find", "/mnt/grid/data", "-mindepth", "1").out.split()
