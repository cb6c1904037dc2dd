"""What a snapshot adds to what was known, in the minutes that may still change (pure).

Each series has a value and the seconds for which it stands. A source that is read less often than once a
second tells of seconds that have passed, up to a minute: so the minute before this one is open, too. The jobs
and users that move most keep a series each, and all others are summed up, so that sums stay exact; what a
value stands for beside its own second goes with it into the sum: see `OpenMinute.put`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isnan

from gridwright.monitor.history.store import FINEST, LEVELS, UNKNOWN, BlockColumn, Labels, OpenSecond
from gridwright.monitor.job_rows import MOST_JOBS, SUM, user_values
from gridwright.monitor.readings import LABELS, Key, Reading, Snapshot, begun_at_zero, rate_between, read_at

MINUTE = LEVELS[FINEST].steps
_NOTHING = array("f", [UNKNOWN]) * MINUTE


class OpenMinute:
    """Values of each series by second. A value may stand for seconds before it, too."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.columns: dict[Key, array[float]] = {}

    @property
    def end(self) -> int:
        """The first second behind it."""
        return self.start + MINUTE

    def put(self, slot: int, values: Iterable[tuple[Key, float, int]]) -> None:
        """Note what was measured in a second, and for how many seconds before it that stands, too.

        Seconds outside this minute are left out, so that those of the next one can fill it up. A sum gets
        what is told of its parts later: one of them may stand for more seconds than the others.
        """
        at = slot - self.start
        for key, value, back in values:
            column = self.columns.get(key)
            if column is None:
                column = self.columns[key] = _NOTHING[:]
            if back == 0:
                if 0 <= at < MINUTE:
                    column[at] = value
                continue
            adds = _is_sum(key)
            for each in range(max(0, at - back), min(MINUTE, at + 1)):
                if isnan(column[each]):
                    column[each] = value
                elif adds:
                    column[each] += value

    def by_metric(self) -> Mapping[str, Mapping[Labels, BlockColumn]]:
        """All series that have a value, as columns."""
        found: dict[str, dict[Labels, BlockColumn]] = {}
        for key, values in self.columns.items():
            if not all(map(isnan, values)):
                found.setdefault(key[0], {})[key[1:]] = BlockColumn(values, values, None)
        return found


def open_minutes(seconds: Sequence[OpenSecond]) -> list[OpenMinute]:
    """The minutes that a file has as seconds, the oldest first."""
    starts = sorted({each.slot // MINUTE * MINUTE for each in seconds})
    minutes = [OpenMinute(start) for start in starts]
    for each in seconds:
        for minute in minutes:
            minute.put(each.slot, zip(each.keys, each.values, each.back, strict=True))
    return minutes


OTHERS = SUM
"""The label of the sum."""
MOVED = (
    "_read_bytes_total",
    "_written_bytes_total",
    "_write_bytes_total",
    "_moved_bytes_total",
    "_io_bytes_total",
)
"""Ends of metrics by which the busiest are found."""
_COMING_AND_GOING: Mapping[str, tuple[str, ...]] = {
    "job": ("job",),
    "jobid": ("jobid",),
    "process": ("process", "user"),
    "group": ("group",),
    "user": ("user",),
}
"""Labels whose values come and go, without end, and those that together name one; a metric is of the first
of these that it has."""
_SAYS_MORE = ("user",)
"""Labels that say more of what is named: a sum is of many, and has one of its own instead."""

Value = tuple[Key, float, int]
Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics whose series come and go together, by what some labels name."""

    label: str
    indices: tuple[int, ...]
    """Of the labels that name one, among those of the metric."""
    beside: tuple[int, ...]
    """Of those that say more of it."""
    is_zero: bool
    """Whether a series is 0 where it has no value and the node was seen."""

    def name(self, labels: Sequence[str]) -> Name:
        """What the labels name."""
        return tuple(labels[index] for index in self.indices if index < len(labels))

    @property
    def others(self) -> Name:
        """The name of the sum."""
        return (OTHERS,) * len(self.indices)

    def other(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The labels of the sum that a series is in, if it is not kept."""
        gone = {*self.indices, *self.beside}
        return tuple(OTHERS if number in gone else label for number, label in enumerate(labels))


@cache
def family_of(metric: str) -> Family | None:
    """The family that a metric is of; None for one of none."""
    names = LABELS.get(metric, ())
    for label, named in _COMING_AND_GOING.items():
        if label in names:
            # A limit of a group is none of its parts, and holds while there is the group.
            is_zero = metric.endswith("_total") or label != "group"
            indices = tuple(number for number, name in enumerate(names) if name in named)
            beside = (number for number, name in enumerate(names) if name in _SAYS_MORE)
            return Family(label, indices, tuple(each for each in beside if each not in indices), is_zero)
    return None


@cache
def _adds_up(metric: str) -> bool:
    """Whether each series of it is the sum of what jobs did, whichever these are."""
    family = family_of(metric)
    return family is not None and family.label == "user"


def _is_sum(key: Key) -> bool:
    """Whether a series is a sum over some that come and go."""
    family = family_of(key[0])
    return family is not None and (_adds_up(key[0]) or family.name(key[1:]) == family.others)


def busiest(moved: Mapping[Name, float], most: int = MOST_JOBS) -> set[Name]:
    """Names of those that moved most; the sum of others stays a sum."""
    ranked = sorted(moved, key=lambda name: (-moved[name], name))
    return {*[name for name in ranked if not _is_others(name)][:most], *filter(_is_others, ranked)}


def _is_others(name: Name) -> bool:
    return all(each == OTHERS for each in name)


@dataclass(slots=True)
class BusiestJobs:
    """Chooses for each minute, by what was moved in the minute before; who comes later has what is left."""

    most: int = MOST_JOBS
    _minute: int | None = None
    _kept: dict[str, set[Name]] = field(default_factory=dict)
    _moved: dict[str, dict[Name, float]] = field(default_factory=dict)

    def fold(self, values: Sequence[Value], minute: int) -> Iterator[Value]:
        """The same values, where those of jobs that are not chosen are in the sum of others."""
        if minute != self._minute:
            self._minute = minute
            self._choose(values)
        others: dict[tuple[Key, int], float] = {}
        for value in values:
            key, rate, back = value
            family = family_of(key[0])
            if family is None:
                yield value
                continue
            name = family.name(key[1:])
            if key[0].endswith(MOVED):
                moved = self._moved.setdefault(family.label, {})
                moved[name] = moved.get(name, 0.0) + rate
            if self._has_own_series(family.label, name):
                yield value
            else:
                other = (key[0], *family.other(key[1:])), back
                others[other] = others.get(other, 0.0) + rate
        # What stands for this second alone comes first: what stands for more is added to it.
        for (key, back), total in sorted(others.items(), key=lambda each: each[0][1]):
            yield key, total, back

    def _choose(self, values: Sequence[Value]) -> None:
        there: dict[str, dict[Name, float]] = {}
        for key, _, _ in values:
            if (family := family_of(key[0])) is not None:
                name = family.name(key[1:])
                before = self._moved.get(family.label, {})
                there.setdefault(family.label, {})[name] = before.get(name, 0.0)
        self._kept = {
            label: {each for each in busiest(moved, self.most) if not _is_others(each)}
            for label, moved in there.items()
        }
        self._moved = {}

    def _has_own_series(self, label: str, name: Name) -> bool:
        kept = self._kept.setdefault(label, set())
        if name not in kept and len(kept) < self.most and not _is_others(name):
            kept.add(name)
        return name in kept


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
