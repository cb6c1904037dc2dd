"""All checks of the doctor: one for each row of the tuning table, and what a grid dies of."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from gridwright.nodes.check import Check
from gridwright.nodes.checks.disks import DISKS
from gridwright.nodes.checks.libraries import LIBRARIES
from gridwright.nodes.checks.machine import MACHINE
from gridwright.nodes.checks.network import NETWORK
from gridwright.nodes.checks.nodes import NODES
from gridwright.nodes.checks.placement import PLACEMENT
from gridwright.nodes.checks.shared import SHARED
from gridwright.nodes.checks.time import TIME
from gridwright.nodes.checks.tuning import tuning_topic


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, in the order in which they are shown."""
    topics = (NODES, LIBRARIES, PLACEMENT, SHARED, DISKS, MACHINE, TIME, NETWORK, tuning_topic())
    return tuple(check for topic in topics for check in topic.checks)


def needs_pairs(only: Collection[str]) -> bool:
    """Whether pairs of nodes have to try what they share, for these checks; none named is all."""
    asked = {check.name for topic in (SHARED, TIME) for check in topic.checks}
    return not only or bool(asked & set(only))
