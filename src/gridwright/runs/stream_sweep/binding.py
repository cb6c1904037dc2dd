"""Finds what binds beyond the jobs that a grid carries: the wait that grew the most."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from gridwright.runs.stream_sweep.record import Binding, SweepStep
from gridwright.runs.stream_sweep.rule import SweepRule, queued_extra, verdict
from gridwright.runs.stream_sweep.search import JobsCarried

COMPUTING = "cpu"
_OF_CAUSE: Mapping[str, Binding] = {"cpu": "cores", "core": "cores", "memory": "memory", "other": "other"}


def waits(steps: Sequence[SweepStep], streams: int, rule: SweepRule) -> dict[str, float]:
    """Mean seconds of a launch by cause, over the steps with so many streams that are judged.

    Time in a scheduler's queue beyond that of one stream is time without a core.
    """
    found = _means(steps, streams, rule, lambda step: step.shares)
    queued = [queued_extra(step, steps) for step in _judged(steps, streams, rule)]
    if queued and (extra := statistics.fmean(queued)) > 0.0:
        found["core"] = found.get("core", 0.0) + extra
    return found


def binds(steps: Sequence[SweepStep], found: JobsCarried, rule: SweepRule) -> Binding | None:
    """What held the launches back where the requirement did not hold; None where it always did."""
    if found.falls_at is None:
        return None
    fallen = _fallen(steps, found.falls_at, rule)
    if any(step.short_of_memory for step in fallen):
        return "memory"
    slow = all(verdict(step, steps, rule).slow for step in fallen)
    grown = _grown(waits(steps, found.carries or 0, rule), waits(steps, found.falls_at, rule))
    # Where cores compute more slowly for each other, computing itself takes longer.
    causes = [cause for cause in grown if slow or cause != COMPUTING]
    if not causes:
        return "other" if fallen else None
    cause = max(causes, key=lambda each: grown[each])
    return _OF_CAUSE.get(cause) or cast(Binding, cause.split(maxsplit=1)[0])


def resource(steps: Sequence[SweepStep], found: JobsCarried, rule: SweepRule) -> str | None:
    """Of predicted steps: the resource that bound for longer beyond what the grid carries."""
    if found.falls_at is None:
        return None
    before, after = (
        _means(steps, streams, rule, lambda step: step.resources)
        for streams in (found.carries or 0, found.falls_at)
    )
    grown = _grown(before, after)
    return max(grown, key=lambda each: grown[each], default=None)


def _fallen(steps: Sequence[SweepStep], streams: int, rule: SweepRule) -> list[SweepStep]:
    return [step for step in steps if step.streams == streams and verdict(step, steps, rule).held is False]


def _judged(steps: Sequence[SweepStep], streams: int, rule: SweepRule) -> list[SweepStep]:
    return [step for step in steps if step.streams == streams and verdict(step, steps, rule).held is not None]


def _means(
    steps: Sequence[SweepStep], streams: int, rule: SweepRule, of: Callable[[SweepStep], Mapping[str, float]]
) -> dict[str, float]:
    """Seconds per launch of each part of its real time, over the steps that are judged."""
    known = [step for step in _judged(steps, streams, rule) if step.real_s_mean is not None]
    names = dict.fromkeys(name for step in known for name in of(step))
    return {
        name: statistics.fmean(of(step).get(name, 0.0) * (step.real_s_mean or 0.0) for step in known)
        for name in names
    }


def _grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {cause: seconds - before.get(cause, 0.0) for cause, seconds in after.items()}
