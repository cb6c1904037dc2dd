"""What a snapshot adds to what was known: a value of each series, and for which seconds it stands (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from gridwright.monitor.history.busiest import BusiestJobs
from gridwright.monitor.history.open_minute import MINUTE
from gridwright.monitor.rates import Key, begun_at_zero, rate_between, read_at
from gridwright.monitor.readings import Reading, Snapshot
from gridwright.monitor.user_sums import user_values

SAMPLER = "gridwright_sampler_cpu_seconds_total"
"""Kept for each second in which the node was sampled: where it has a value, the node was seen."""
CLOCK_S = 0.5
"""A clock that went on by so much more or less than the one that is never set was set meanwhile."""
MOST_BACK = MINUTE - 1
"""A sample that is later than this leaves a gap."""
_FORGOTTEN_S = 2 * MINUTE


@dataclass(frozen=True, slots=True)
class MeasuredSecond:
    """One second of a node."""

    slot: int
    """In seconds since 1970, by the node's clock."""
    values: tuple[tuple[Key, float, int], ...]
    """Of each series its rate or its gauge, and for how many seconds before this one that stands, too."""
    clock_was_set: bool


@dataclass(slots=True)
class _Series:
    """What is known of a series, so that thousands of them are looked up once each second."""

    key: Key
    is_counter: bool
    last: Reading
    slot: int
    """When it was last read."""


@dataclass(slots=True)
class Measurements:
    """Turns one snapshot after the other into seconds."""

    busiest: BusiestJobs = field(default_factory=BusiestJobs)
    _last: Snapshot | None = None
    _slot: int = 0
    _series: dict[tuple[str, tuple[str, ...]], _Series] = field(default_factory=dict)

    def add(self, snapshot: Snapshot) -> MeasuredSecond | None:
        """The second of this snapshot; None for a second one in the same second, and for the first of all."""
        last, slot = self._last, math.floor(snapshot.time)
        if last is not None and (last.machine != snapshot.machine or snapshot.at_s <= last.at_s):
            # Another boot: its counters and its clock began anew.
            last = None
            self._series.clear()
        clock_was_set = last is not None and _set_by(last, snapshot) > CLOCK_S
        if last is not None and not clock_was_set and slot <= self._slot:
            return None
        back = 0 if last is None or clock_was_set else min(MOST_BACK, slot - self._slot - 1)
        values = list(self._values(last, snapshot, slot, back, clock_was_set=clock_was_set))
        values += user_values(values)
        if last is not None:
            part = snapshot.cost_s / (snapshot.at_s - last.at_s)
            values.append(((SAMPLER,), part, back))
        if slot // MINUTE != self._slot // MINUTE:
            self._forget(slot)
        self._last, self._slot = snapshot, slot
        if last is None:
            return None
        return MeasuredSecond(slot, tuple(self.busiest.fold(values, slot // MINUTE)), clock_was_set)

    def _values(
        self, last: Snapshot | None, snapshot: Snapshot, slot: int, back: int, *, clock_was_set: bool
    ) -> Iterator[tuple[Key, float, int]]:
        known, read = self._series, None
        for new in snapshot.readings:
            name = new.metric, new.labels
            series = known.get(name)
            if series is None:
                series = known[name] = _Series(new.key, new.is_counter, new, slot)
                if series.is_counter:
                    # A job may have moved most of its bytes before it was first read.
                    read = read_at(last.readings) if last is not None and read is None else read
                    old = begun_at_zero(new, read or {})
                    rate = None if old is None else rate_between(old, new)
                    if old is not None and rate is not None:
                        late = round(new.at_s - old.at_s) - 1
                        yield series.key, rate, 0 if clock_was_set else max(0, min(MOST_BACK, late))
                    continue
            if not series.is_counter:
                series.slot = slot
                yield series.key, new.value, back
                continue
            old = series.last
            if new.at_s == old.at_s and new.since_s == old.since_s:
                # Its source told nothing new; the next time its rate is over both spans.
                continue
            rate, since = rate_between(old, new), slot - series.slot - 1
            series.last, series.slot = new, slot
            if rate is not None:
                yield series.key, rate, 0 if clock_was_set else max(0, min(MOST_BACK, since))

    def _forget(self, slot: int) -> None:
        """Series that were not read for minutes: jobs end."""
        self._series = {
            name: each for name, each in self._series.items() if abs(slot - each.slot) < _FORGOTTEN_S
        }


def _set_by(last: Snapshot, new: Snapshot) -> float:
    return abs((new.time - last.time) - (new.at_s - last.at_s))
