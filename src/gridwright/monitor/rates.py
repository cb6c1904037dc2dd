"""Rates out of counters that may restart, wrap, or be read by clocks that step (pure).

No figure is better than a wrong one: a counter that fell, that began anew, or whose clock did not go on has
no rate between these two readings, and has one again between the next two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gridwright.monitor.readings import Reading, Snapshot

Key = tuple[str, ...]
"""The metric, and the values of its labels."""
_BESIDE = {
    "gridwright_process_moved_bytes_total": "gridwright_others_read_bytes_total",
    "gridwright_process_cpu_seconds_total": "gridwright_others_cpu_seconds_total",
    "gridwright_job_cpu_seconds_total": "node_cpu_seconds_total",
    "gridwright_job_read_bytes_total": "node_cpu_seconds_total",
    "gridwright_job_written_bytes_total": "node_cpu_seconds_total",
}
"""Metrics that may have no series at all, and one that is read at the same time."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What two snapshots of a node tell together."""

    rates: Mapping[Key, float]
    """Counters, per second of their own source's clock."""
    gauges: Mapping[Key, float]
    """As they were read last."""
    known: frozenset[Key]
    """All that was read last, with a rate or without."""
    earlier: Mapping[Key, float] = field(default_factory=dict)
    """Gauges as they were read before that, where that is known."""
    _series: dict[str, list[Key]] = field(default_factory=dict, compare=False)
    """Labels by metric, once they were asked for."""

    def rate(self, metric: str, *labels: str) -> float | None:
        """The rate of a counter; None where there is none."""
        return self.rates.get((metric, *labels))

    def gauge(self, metric: str, *labels: str) -> float | None:
        """A gauge; None where it was not read."""
        return self.gauges.get((metric, *labels))

    def labels(self, metric: str) -> list[Key]:
        """The labels that a metric was read with last, in order."""
        if not self._series:
            for key in sorted(self.known):
                self._series.setdefault(key[0], []).append(key[1:])
        return self._series.get(metric, [])


def figures(before: Snapshot, after: Snapshot) -> Figures:
    """Rates and gauges of a node; of another boot, counters have no rates."""
    same = before.machine == after.machine
    found = rates(before.readings, after.readings) if same else {}
    # What is read less often has the rate of its own last two readings, until it is read again.
    found |= {key: rate for key, rate in rates(after.earlier, after.readings).items() if key not in found}
    return Figures(
        rates=found,
        gauges={reading.key: reading.value for reading in after.readings if not reading.is_counter},
        known=frozenset(reading.key for reading in after.readings),
        earlier={reading.key: reading.value for reading in before.readings if not reading.is_counter}
        if same
        else {},
    )


def rates(before: Iterable[Reading], after: Iterable[Reading]) -> dict[Key, float]:
    """The rate of each counter of which one can be told.

    That is of those that both have, and of those that began at zero since others of their metric were read.
    """
    earlier = {reading.key: reading for reading in before if reading.is_counter}
    last = read_at(earlier.values())
    found = {}
    for new in after:
        old = earlier.get(new.key) or begun_at_zero(new, last)
        rate = None if old is None else rate_between(old, new)
        if rate is not None:
            found[new.key] = rate
    return found


def read_at(readings: Iterable[Reading]) -> dict[str, float]:
    """When the counters of each metric were read last."""
    last: dict[str, float] = {}
    for reading in readings:
        if reading.is_counter:
            last[reading.metric] = max(reading.at_s, last.get(reading.metric, reading.at_s))
    return last


def begun_at_zero(new: Reading, read: Mapping[str, float]) -> Reading | None:
    """What a counter was when others of its metric were read last, if it began after that."""
    last = read.get(new.metric, read.get(_BESIDE.get(new.metric, "")))
    if not new.is_counter or new.since_s is None or last is None or new.since_s < last:
        return None
    return Reading(new.metric, new.labels, 0.0, last, new.since_s)


def rate_between(old: Reading, new: Reading) -> float | None:
    """Per second; None where the counter began anew or fell meanwhile, or no time passed by its clock."""
    span, moved = new.at_s - old.at_s, new.value - old.value
    if old.since_s != new.since_s or not span > 0 or not moved >= 0:
        return None
    rate = moved / span
    return rate if math.isfinite(rate) else None
