"""Judges each step of a sweep: whether as many jobs at once still get on as they must.

A verdict is found from all steps so far, since what one stream reaches alone, and what fewer streams
reach, is what others are held against. More steps make it stricter, never milder.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.runs.stream_sweep.record import SweepStep

OF_ALONE = 0.9
"""Without a requirement: the part of the CPU/real ratio of one stream alone that must be kept. A job then
takes at most a ninth longer than alone. It is ours: no paper gives one."""
GREW = 1.1
"""How much longer a launch may take of the whole run than with fewer streams: above it, real time has grown
faster than work. Two runs of the same differ by a few percent, see docs/performance.md."""
MOST_UNJUDGED = 3
"""How often a number of streams is run when it is disturbed each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRule:
    """What ends a sweep; `within_s` in seconds, None for no limit."""

    ratio: float | None = None
    """The CPU/real ratio that the grid spec requires."""
    tests: Mapping[str, float] = field(default_factory=dict)
    """The same by test."""
    most: int
    """Streams."""
    within_s: float | None = None
    agree: int = 2
    """How many steps must say the same of a number of streams; 1 where they are predicted, without noise."""
    allow_disturbed: bool = False

    @property
    def by_default(self) -> bool:
        """Whether the grid spec requires no ratio, so that one stream alone sets it."""
        return self.ratio is None and not self.tests

    def words(self) -> str:
        """The stop rule in a sentence or two."""
        if self.by_default:
            first = (
                f"the CPU/real ratio falls below {OF_ALONE:g} of what one stream reaches alone "
                "(the grid spec requires none)"
            )
        else:
            named = [f"{ratio:g} of {test}" for test, ratio in self.tests.items()]
            required = [*([f"{self.ratio:g}"] if self.ratio is not None else []), *named]
            first = f"the CPU/real ratio falls below {', '.join(required)}, as the grid spec requires"
        said = f"Streams are raised until {first}, real time grows faster than work, or launches fail"
        runs = f"; {self.agree} runs must agree" if self.agree > 1 else ""
        limits = f" No more than {self.most:,} streams at once are tried"
        if self.within_s is not None:
            limits += f", and no step begins that would end after {self.within_s / 60:,.0f} min"
        return f"{said}{runs}.{limits}."


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """Whether a step held, None where it is not judged, and why not."""

    held: bool | None
    why: str | None = None
    ratio: float | None = None
    """CPU/real ratio with the time in a scheduler's queue beyond that of one stream."""
    slow: bool = False
    """Whether real time grew faster than work."""


def required_ratio(steps: Sequence[SweepStep], rule: SweepRule) -> float | None:
    """The ratio below which a step has fallen; None while one stream alone was not measured."""
    if not rule.by_default:
        return rule.ratio
    alone = [step.ratio for step in steps if step.streams == 1 and step.ratio is not None and _whole(step)]
    # What disturbs launches slows them: the best of several is the least disturbed.
    return OF_ALONE * max(alone) if alone else None


def verdict(step: SweepStep, steps: Sequence[SweepStep], rule: SweepRule) -> StepVerdict:
    """Judge one of `steps` beside all others."""
    if step.status != "complete" or not step.launches:
        return StepVerdict(None, f"it is {step.status}")
    ratio = _ratio(step, steps)
    if step.disturbed is not None and not rule.allow_disturbed:
        return StepVerdict(None, f"disturbed: {step.disturbed}", ratio)
    if step.failed:
        of = "the launch" if step.launches == 1 else f"{step.failed} of {step.launches} launches"
        return StepVerdict(False, f"{of} failed: {step.failure or 'no reason known'}", ratio)
    if ratio is None:
        return StepVerdict(None, "no CPU/real ratio was measured")
    slow = _slow(step, steps)
    why = _short(step, ratio, steps, rule) or slow
    return StepVerdict(why is None, why, ratio, slow=why is not None and why is slow)


def _short(step: SweepStep, ratio: float, steps: Sequence[SweepStep], rule: SweepRule) -> str | None:
    """Which ratio is below what is required; None if none is. One stream alone keeps all of its own."""
    required = required_ratio(steps, rule)
    if required is not None and ratio < required and not (rule.by_default and step.streams == 1):
        return below(ratio, required)
    for test, least in rule.tests.items():
        if test in step.tests and step.tests[test] < least:
            return f"CPU/real of {test} was {step.tests[test]:.3f}, below {least:g}"
    return None


def below(ratio: float, required: float) -> str:
    """That a ratio is below the least, which the grid spec or one stream alone sets."""
    return f"CPU/real was {ratio:.3f}, below {required:.3f}"


def _slow(step: SweepStep, steps: Sequence[SweepStep]) -> str | None:
    """That real time has grown faster than work; None if it has not."""
    best, own = _fewer_streams(step, steps), period(step)
    if best is None or own is None or own <= GREW * best:
        return None
    return f"real time grew faster than work: {own:.3g} s per launch after {best:.3g} with fewer streams"


def queued_extra(step: SweepStep, steps: Sequence[SweepStep]) -> float:
    """Mean seconds of a launch in its scheduler's queue, beyond those of one stream alone."""
    alone = [x.queued_s_mean for x in steps if x.streams == 1 and x.queued_s_mean is not None and _whole(x)]
    if step.queued_s_mean is None or not alone:
        return 0.0
    return max(0.0, step.queued_s_mean - min(alone))


def _ratio(step: SweepStep, steps: Sequence[SweepStep]) -> float | None:
    """A launch in the queue waits for a core, as one does that shares its core without a scheduler."""
    if step.ratio is None or not step.real_s_mean:
        return step.ratio
    return step.ratio * step.real_s_mean / (step.real_s_mean + queued_extra(step, steps))


def _whole(step: SweepStep) -> bool:
    return step.status == "complete" and not step.failed


def period(step: SweepStep) -> float | None:
    """Seconds from the end of a launch to that of the next of any stream, while all streams run.

    Little's law: what is there at once, over the time that each takes. The wall time would tell of the
    tail, too, in which streams have run out of launches.
    """
    if not step.real_s_mean:
        return None
    return (step.real_s_mean + (step.between_s_mean or 0.0)) / step.streams


def _fewer_streams(step: SweepStep, steps: Sequence[SweepStep]) -> float | None:
    """The shortest period of a launch that fewer streams had, as means of their steps."""
    periods: dict[int, list[float]] = {}
    for other in steps:
        if other.streams < step.streams and _whole(other) and (each := period(other)) is not None:
            periods.setdefault(other.streams, []).append(each)
    return min((statistics.fmean(those) for those in periods.values()), default=None)
