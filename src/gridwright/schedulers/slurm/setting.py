"""A line of `slurm.conf` and its companions, and why it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """A line `name=value`, and above it why."""

    name: str
    value: object
    why: str = ""


@dataclass(frozen=True, slots=True)
class ConfigurationSection:
    """Settings under a heading."""

    heading: str
    settings: Sequence[Setting]
