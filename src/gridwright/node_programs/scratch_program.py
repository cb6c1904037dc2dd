"""The program that nodes run: package `gridwright.node_programs.scratch` as one file that Python starts."""

from __future__ import annotations

from gridwright.node_programs.one_file import DIRECTORY, one_file, unit_of

PROGRAM = DIRECTORY / "scratch.pyz"
"""Where nodes have it."""
UNIT = "gridwright-scratch.service"
_PACKAGE = "gridwright.node_programs.scratch"


def build_zipapp() -> bytes:
    """The program, byte for byte the same for the same sources."""
    return one_file(_PACKAGE, "the scratch storage of this node")


def unit_file() -> str:
    """The systemd unit that runs it at every start."""
    return unit_of(_PACKAGE)
