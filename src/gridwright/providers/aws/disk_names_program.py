"""The program that names volumes of pairs on their servers, and what it is told."""

from __future__ import annotations

from gridwright.node_programs.one_file import one_file
from gridwright.providers.aws.layout import AwsLayout

_PACKAGE = "gridwright.providers.aws.disk_names"
_OTHERS = (
    "gridwright.providers.aws.claim",
    "gridwright.node_programs.scratch",
    "gridwright.node_programs.lustre_targets",
)


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources; it asks which machine it is on as the claim does."""
    return one_file(_PACKAGE, "the look for names of volumes", list(_OTHERS))


def named_disks(layout: AwsLayout) -> dict[str, list[dict[str, str]]]:
    """Names and tags of the volumes of each server in a pair, by server."""
    return {
        each.name: [
            {"path": one.path, "slot": one.slot, "target": one.name} for one in layout.volumes_of(each.name)
        ]
        for each in layout.machines
        if each.pair
    }
