"""What Slurm runs on nodes to see whether they have their mounts: package `health` as one file."""

from __future__ import annotations

from gridwright.node_programs.one_file import DIRECTORY, one_file

PROGRAM = DIRECTORY / "health.pyz"
"""Where nodes have it."""
STARTER = DIRECTORY / "health"
"""What starts it: slurmd takes a file, and no arguments."""
PYTHON = "/usr/bin/python3"
_PACKAGE = "gridwright.node_programs.health"
_STARTER = f"""\
#!/bin/sh
# HealthCheckProgram of slurm.conf, written by Gridwright. Its status is 0 whatever happens: newer releases of
# Slurm let no node register whose program fails, and all that it has to say it says to Slurm itself.
{PYTHON} -I -S {PROGRAM}
exit 0
"""


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources; it reads mounts with the reader of scratch."""
    return one_file(_PACKAGE, "the check of this node's mounts", ["gridwright.node_programs.scratch"])


def starter() -> str:
    """The text of STARTER. Without site packages Python starts in a third of the time."""
    return _STARTER
