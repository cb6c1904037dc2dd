"""The jobs that move most keep a series each, and all others are summed up: sums stay exact (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from gridwright.monitor.job_rows import MOST_JOBS
from gridwright.monitor.rates import Key
from gridwright.monitor.readings import LABELS

OTHERS = "other"
"""The label of the sum."""
MOVED = (
    "_read_bytes_total",
    "_written_bytes_total",
    "_write_bytes_total",
    "_moved_bytes_total",
    "_io_bytes_total",
)
"""Ends of metrics by which the busiest are found."""
_COMING_AND_GOING = ("job", "jobid", "process", "group")
"""Labels whose values come and go, without end; a metric has one of them."""

Value = tuple[Key, float, int]


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics whose series come and go together, by what one label names."""

    label: str
    index: int
    """Of that label among those of the metric."""
    is_zero: bool
    """Whether a series is 0 where it has no value and the node was seen."""

    def name(self, labels: Sequence[str]) -> str:
        """What the label says."""
        return labels[self.index] if self.index < len(labels) else ""

    def other(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The labels of the sum that a series is in, if it is not kept."""
        return (*labels[: self.index], OTHERS, *labels[self.index + 1 :])


@cache
def family_of(metric: str) -> Family | None:
    """The family that a metric is of; None for one of none."""
    names = LABELS.get(metric, ())
    for label in _COMING_AND_GOING:
        if label in names:
            # A limit of a group is none of its parts, and holds while there is the group.
            is_zero = metric.endswith("_total") or label != "group"
            return Family(label, names.index(label), is_zero)
    return None


def busiest(moved: dict[str, float], most: int = MOST_JOBS) -> set[str]:
    """Names of those that moved most; the sum of others stays a sum."""
    ranked = sorted(moved, key=lambda name: (-moved[name], name))
    return {*[name for name in ranked if name != OTHERS][:most], OTHERS}


@dataclass(slots=True)
class BusiestJobs:
    """Chooses for each minute, by what was moved in the minute before; who comes later has what is left."""

    most: int = MOST_JOBS
    _minute: int | None = None
    _kept: dict[str, set[str]] = field(default_factory=dict)
    _moved: dict[str, dict[str, float]] = field(default_factory=dict)

    def fold(self, values: Sequence[Value], minute: int) -> Iterator[Value]:
        """The same values, where those of jobs that are not chosen are in the sum of others."""
        if minute != self._minute:
            self._minute = minute
            self._choose(values)
        others: dict[Key, tuple[float, int]] = {}
        for key, value, back in values:
            family = family_of(key[0])
            if family is None:
                yield key, value, back
                continue
            name = family.name(key[1:])
            if key[0].endswith(MOVED):
                moved = self._moved.setdefault(family.label, {})
                moved[name] = moved.get(name, 0.0) + value
            if self._is_kept(family.label, name):
                yield key, value, back
            else:
                other = (key[0], *family.other(key[1:]))
                total, most = others.get(other, (0.0, 0))
                others[other] = total + value, max(most, back)
        yield from ((key, total, back) for key, (total, back) in others.items())

    def _choose(self, values: Sequence[Value]) -> None:
        there: dict[str, dict[str, float]] = {}
        for key, _, _ in values:
            if (family := family_of(key[0])) is not None:
                name = family.name(key[1:])
                before = self._moved.get(family.label, {})
                there.setdefault(family.label, {})[name] = before.get(name, 0.0)
        self._kept = {label: busiest(moved, self.most) - {OTHERS} for label, moved in there.items()}
        self._moved = {}

    def _is_kept(self, label: str, name: str) -> bool:
        kept = self._kept.setdefault(label, set())
        if name not in kept and len(kept) < self.most and name != OTHERS:
            kept.add(name)
        return name in kept
