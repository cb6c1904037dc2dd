"""Looks up the instance types of a grid's nodes in the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.doctor.observation import Observation
from gridwright.errors import GridwrightError

if TYPE_CHECKING:
    from gridwright.catalog import InstanceType


def instance_of(observation: Observation, node: str) -> InstanceType | None:
    """The instance type that the spec has for a node; None where it names none, or one that is not known."""
    group = observation.group_of(node) or observation.machine_group_of(node)
    if observation.spec is None or group is None or group.instance is None:
        return None
    from gridwright.catalog import load_catalog

    try:
        return load_catalog().instance(group.instance, observation.spec.provider)
    except GridwrightError:
        return None
