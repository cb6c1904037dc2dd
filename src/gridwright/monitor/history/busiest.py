"""The jobs and users that move most keep a series each, and all others are summed up: sums stay exact (pure).

What a value stands for beside its own second goes with it into the sum: see `OpenMinute.put`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from gridwright.monitor.job_rows import MOST_JOBS, SUM
from gridwright.monitor.rates import Key
from gridwright.monitor.readings import LABELS

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


def is_sum(key: Key) -> bool:
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
