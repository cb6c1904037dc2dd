"""The program that makes accounts on machines: package `users` as one file that Python starts."""

from __future__ import annotations

from gridwright.node_programs.one_file import DIRECTORY, one_file

PROGRAM = DIRECTORY / "users.pyz"
"""Where machines have it."""
_PACKAGE = "gridwright.node_programs.users"


def build_zipapp() -> bytes:
    """The program, byte for byte the same for the same sources."""
    return one_file(_PACKAGE, "what makes the accounts of the grid on this machine", ["gridwright.beneath"])
