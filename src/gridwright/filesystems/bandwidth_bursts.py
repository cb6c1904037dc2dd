"""How long an instance's bandwidth to its volumes bursts, from data/bandwidth-bursts.csv."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from gridwright.catalog import InstanceType


@dataclass(frozen=True, slots=True)
class BandwidthBurst:
    """Above its baseline, an instance passes its listed maximum for `burst_s` seconds.

    `refill_s`: so long it takes at least until it can do so again, with nothing above the baseline meanwhile.
    Where 30 minutes are promised in 24 hours, that is the rest of the 24 hours.
    """

    burst_s: float
    refill_s: float
    source: str


@cache
def _bursts() -> dict[str, BandwidthBurst]:
    text = resources.files("gridwright.filesystems").joinpath("data/bandwidth-bursts.csv").read_text("utf-8")
    return {
        row["provider"]: BandwidthBurst(
            float(row["burst_s"]), float(row["refill_s"]), f"{row['source']}, {row['date']}"
        )
        for row in csv.DictReader(text.splitlines())
    }


def bandwidth_burst(instance: InstanceType) -> BandwidthBurst | None:
    """Return the burst of its bandwidth to volumes; None where it has none, or no fact says how long."""
    ebs = instance.ebs
    if ebs is None or not ebs.dedicated or ebs.maximum_bytes_per_s <= ebs.baseline_bytes_per_s:
        return None
    return _bursts().get(instance.provider)
