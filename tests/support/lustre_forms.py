"""What is printed and told of two file systems, without what is of one of them: for doubles of a real one."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

TOLD = """
import json
from gridwright.commands import run_here
from gridwright.filesystems.lustre_client.health import health
from dataclasses import asdict
found = health(run_here, "/mnt/lustre")
print(json.dumps(asdict(found)))
"""
"""Tells of the guest's Lustre what `forms_of_health` takes."""


OF_A_DAY = frozenset({"client-evicted", "target-reactivated"})
"""Told for a day: what an earlier state of the guest has left."""


def form_of(text: str) -> str:
    """A line, or the name of a parameter, without names, numbers, and what is of one moment."""
    for pattern, word in (
        (r"\b(?:scratch|testfs)\b", "FS"),
        (r"\bffff[0-9a-f]{12}\b", "CLIENT"),
        (r"\b(?:FULL|IDLE|CONNECTING|enabled|disabled)\b", "STATE"),
        (r"hist: \{[^}]*\}", "hist: {}"),
        (r"^( *- \[ *\d+), [A-Z_]+ \]", r"\1, STATE ]"),
        (r"connect_flags: \[.*\]", "connect_flags: []"),
        (r"job_id: +\S+", "job_id: JOB"),
        (r"0x[0-9a-f]+|\d+(?:\.\d+)*", "N"),
    ):
        text = re.sub(pattern, word, text)
    return " ".join(text.split())


def forms_of_health(found: dict[str, Any], *, without: Collection[str] = ()) -> Any:
    """Findings but those of some names, targets and servers."""
    targets = [[each["name"], each["server"], each["state"], each["up"]] for each in found["targets"]]
    return [
        [_formed(list(each.values())) for each in found["findings"] if each["name"] not in without],
        _formed(targets),
        _formed([[each["name"], each["up"], each["state"]] for each in found["servers"]]),
    ]


def _formed(told: Any) -> Any:
    if isinstance(told, list):
        return [_formed(each) for each in told]
    return form_of(told) if isinstance(told, str) else told
