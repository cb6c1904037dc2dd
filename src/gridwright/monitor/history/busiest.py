"""The jobs that move most keep a series each, and all others are summed up: sums stay exact (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from gridwright.monitor.rates import Key
from gridwright.monitor.rows import MOST_JOBS

OTHERS = "other"
"""The label of the sum."""
FAMILIES = ("gridwright_job_",)
"""Metrics whose series come and go with what their first label names. Where such a series has no value, and
the node was seen, it is 0."""
MOVED = ("_read_bytes_total", "_written_bytes_total")

Value = tuple[Key, float, int]


@cache
def family_of(metric: str) -> str | None:
    """The family that a metric is of; None for one of none."""
    return next((each for each in FAMILIES if metric.startswith(each)), None)


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
            if key[0].endswith(MOVED):
                moved = self._moved.setdefault(family, {})
                moved[key[1]] = moved.get(key[1], 0.0) + value
            if self._is_kept(family, key[1]):
                yield key, value, back
            else:
                total, most = others.get((key[0], OTHERS), (0.0, 0))
                others[key[0], OTHERS] = total + value, max(most, back)
        yield from ((key, total, back) for key, (total, back) in others.items())

    def _choose(self, values: Sequence[Value]) -> None:
        there: dict[str, dict[str, float]] = {}
        for key, _, _ in values:
            if (family := family_of(key[0])) is not None:
                before = self._moved.get(family, {})
                there.setdefault(family, {})[key[1]] = before.get(key[1], 0.0)
        self._kept = {family: busiest(moved, self.most) - {OTHERS} for family, moved in there.items()}
        self._moved = {}

    def _is_kept(self, family: str, name: str) -> bool:
        kept = self._kept.setdefault(family, set())
        if name not in kept and len(kept) < self.most and name != OTHERS:
            kept.add(name)
        return name in kept
