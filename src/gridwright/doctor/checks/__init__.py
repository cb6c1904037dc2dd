"""All checks of the doctor: one for each row of the tuning table, and those of faults that stop a grid."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from gridwright.doctor.check import Check
from gridwright.doctor.checks.disks import DISKS
from gridwright.doctor.checks.libraries import LIBRARIES, PLACEMENT
from gridwright.doctor.checks.machine import KERNELS, MACHINE, NETWORK, TIME
from gridwright.doctor.checks.nodes import NODES, SCHEDULER
from gridwright.doctor.checks.shared import SHARED
from gridwright.doctor.checks.tuning import tuning_topic


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, in the order in which they are shown."""
    topics = (
        *(NODES, SCHEDULER, LIBRARIES, PLACEMENT, SHARED, DISKS, MACHINE, KERNELS, TIME, NETWORK),
        tuning_topic(),
    )
    return tuple(check for topic in topics for check in topic.checks)


def needs_pairs(only: Collection[str]) -> bool:
    """Whether pairs of nodes have to try what they share, for these checks; none named is all."""
    asked = {check.name for topic in (SHARED, TIME) for check in topic.checks}
    return not only or bool(asked & set(only))
