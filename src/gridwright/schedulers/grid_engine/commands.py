"""The commands of Grid Engine on the head node: their environment, and what their messages mean."""

from __future__ import annotations

import os
from pathlib import Path

from gridwright.schedulers.batch.tools import Answered, BatchTools
from gridwright.schedulers.grid_engine.section import GridEngineSection
from gridwright.schedulers.head_node import HeadNode, check_run

_AWAY = (
    "commlib error",
    "unable to send message to qmaster",
    "unable to contact qmaster",
    "can't connect to service",
    "cannot reach qmaster",
)
_UNCLEAR = ("failed receiving gdi request", "got receive error", "sync receive timeout", "closing connection")
_ARCHITECTURES = ("lx-amd64", "lx-arm64", "lx-ppc64le", "lx-x86")
"""The directories of commands below SGE_ROOT/bin."""


def tools(section: GridEngineSection, head: HeadNode) -> BatchTools:
    """The commands, as the section finds them. Raises as `check_run`."""
    # qsub, qstat and qacct tell and take times of the zone they are run in; lists stay in one line.
    environment = dict(os.environ) | {"LC_ALL": "C", "TZ": "UTC", "SGE_SINGLE_LINE": "1"}
    if section.root is not None:
        places = [str(section.root / "bin" / architecture) for architecture in _ARCHITECTURES]
        remedy = "set SGE_ROOT and PATH in the shell that runs gridwright, without `root`"
        check_run(head, section.root, remedy, section.owner)
        for place in map(Path, places):
            for program in sorted(place.iterdir()) if place.is_dir() else ():
                check_run(head, program, remedy, section.owner)
        environment |= {"SGE_ROOT": str(section.root)}
        environment["PATH"] = ":".join([*places, environment.get("PATH", "/usr/bin:/bin")])
    if section.cell is not None:
        environment["SGE_CELL"] = section.cell
    return BatchTools(head, "Grid Engine", environment, meaning)


def meaning(said: str) -> Answered:
    """Whether a message says that sge_qmaster was not reached, or that it is not clear, or something else."""
    folded = said.lower()
    if any(each in folded for each in _UNCLEAR):
        return Answered.UNCLEAR
    return Answered.AWAY if any(each in folded for each in _AWAY) else Answered.YES
