"""Limits beyond which interference disturbs a measurement: data/limits.csv, each with its reason."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class InterferenceLimits:
    """Parts from 0 to 1, but for `traffic_floor` in bytes/s and `least_cpu` in seconds."""

    cpu: float
    unseen: float
    steal: float
    throttling: float
    traffic: float
    traffic_floor: float
    overhead: float
    memory: float
    memory_held: float
    least_cpu: float


@cache
def limits() -> InterferenceLimits:
    """The limits of this release."""
    rows = {row["name"]: float(row["limit"]) for row in table()}
    return InterferenceLimits(**{field.name: rows[field.name] for field in fields(InterferenceLimits)})


def table() -> list[dict[str, str]]:
    """The rows as they stand in the file: name, limit, unit, reason."""
    text = resources.files("gridwright.interference").joinpath("data/limits.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
