"""What is left of an FSx for Lustre while one of its targets is gone."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.filesystems.fsx_lustre.model import FsxLustreFileSystem
from gridwright.filesystems.loss import DeadPart, DegradedRates, PartGroup, affected_files_part
from gridwright.filesystems.resources import Contribution


def parts(contribution: Contribution) -> Sequence[PartGroup]:
    """Its targets. AWS does not say how many of them one of its file servers has."""
    return (PartGroup("ost", "target", contribution.targets),) if contribution.targets else ()


def without(
    filesystem: FsxLustreFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
) -> DegradedRates:
    """What is left until the service has replaced the file server; files of a scratch do not come back."""
    gone, targets = len({each.number for each in dead}), contribution.targets
    durable = contribution.outlives_server
    words = (
        "clients wait until the service has replaced the file server"
        if durable
        else f"a {filesystem.deployment} keeps one copy: files with a stripe there are lost"
    )
    return DegradedRates(
        1 - gone / targets,
        "unavailable" if durable else "lost",
        affected_files_part(targets, contribution.stripes, gone),
        f"{gone} of {targets} targets gone: {words}",
    )
