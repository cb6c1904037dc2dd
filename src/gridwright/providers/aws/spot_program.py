"""The program that nodes on spot instances run: package `spot` as one file."""

from __future__ import annotations

from gridwright.node_programs.one_file import one_file, unit_of
from gridwright.spec.model import GridSpec

UNIT = "gridwright-spot.service"
_PACKAGE = "gridwright.providers.aws.spot"
_OTHERS = ("gridwright.node_programs.power", "gridwright.node_programs.scratch")


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources."""
    return one_file(_PACKAGE, "the look for EC2's notice", _OTHERS)


def unit_file() -> str:
    """The systemd unit that runs it."""
    return unit_of(_PACKAGE)


def spot_nodes(spec: GridSpec) -> list[str]:
    """Nodes that are spot instances."""
    return [each for name, group in spec.nodes.items() if group.spot for each in group.node_names(name)]
