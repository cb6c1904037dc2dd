"""Whether the arrays that the scratch unit is to keep are mounted."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gridwright.doctor.facts.node_facts import ScratchFacts

CONFIGURATION = Path("/etc/gridwright/scratch.json")


def scratch() -> ScratchFacts:
    """Mount points of the configuration, and whether each is one. Raises OSError where it cannot be read."""
    try:
        text = CONFIGURATION.read_text()
    except FileNotFoundError:
        return ScratchFacts({})
    return ScratchFacts({point: os.path.ismount(point) for point in mount_points(text)})


def mount_points(text: str) -> list[str]:
    """The mount points that a configuration names. Raises OSError where it is not one."""
    try:
        return [str(each["mount_point"]) for each in json.loads(text)["arrays"]]
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(22, "it is not understood", str(CONFIGURATION)) from error
