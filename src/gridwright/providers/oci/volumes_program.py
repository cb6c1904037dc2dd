"""The program that gives servers their volumes: package `volumes` as one file."""

from __future__ import annotations

from gridwright.node_programs.one_file import one_file, unit_of

UNIT = "gridwright-volumes.service"
_PACKAGE = "gridwright.providers.oci.volumes"


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources; it asks the cloud as the machine's set-up does."""
    return one_file(_PACKAGE, "the look for volumes", ["gridwright.providers.oci.boot"])


def unit_file() -> str:
    """The systemd unit that runs it at every start."""
    return unit_of(_PACKAGE)
