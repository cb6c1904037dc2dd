"""The program that machines of a cloud run at their start: package `claim` as one file."""

from __future__ import annotations

from gridwright.node_programs.one_file import DIRECTORY, one_file, unit_of

PROGRAM = DIRECTORY / "claim.pyz"
"""Where machines have it."""
UNIT = "gridwright-claim.service"
_PACKAGE = "gridwright.providers.aws.claim"


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources; it looks at disks with the readers of scratch."""
    others = ["gridwright.node_programs.scratch", "gridwright.node_programs.lustre_targets"]
    return one_file(_PACKAGE, "the claim of this machine", others)


def unit_file() -> str:
    """The systemd unit that runs it at every start."""
    return unit_of(_PACKAGE)
