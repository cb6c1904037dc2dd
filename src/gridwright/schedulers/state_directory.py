"""Where the queue of a grid, its jobs' logs and its records are kept."""

from __future__ import annotations

import os
from pathlib import Path

from gridwright.spec.model import GridSpec

LABS = Path("/var/lib/gridwright/labs")
"""Each lab has a directory here: only root can have one."""


def state_directory(spec: GridSpec) -> Path:
    """The state directory of a grid: the same path on all of its nodes, and here."""
    if spec.state is not None:
        return spec.state
    if spec.provider == "lab":
        return LABS / spec.name / "state"
    if spec.scheduler.type == "local":
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return Path(base) / "gridwright" / spec.name
    library = "data" if "data" in spec.libraries else next(iter(spec.libraries))
    return spec.filesystem_of(library).path / ".gridwright"
