"""The program that starts targets of Lustre: package `targets` as one file."""

from __future__ import annotations

from gridwright.node_programs.one_file import one_file, unit_of

UNIT = "gridwright-targets.service"
_PACKAGE = "gridwright.providers.oci.targets"


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources; it looks at disks with the readers of scratch."""
    others = [
        "gridwright.node_programs.scratch",
        "gridwright.node_programs.lustre_targets",
        "gridwright.providers.oci.boot",
    ]
    return one_file(_PACKAGE, "the targets of this server", others)


def unit_file() -> str:
    """The systemd unit that runs it at every start."""
    return unit_of(_PACKAGE)
