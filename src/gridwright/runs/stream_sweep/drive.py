"""Runs a sweep step by step until its rule ends it, and makes its record.

Finds what binds beyond the jobs that a grid carries: the wait that grew the most.

Decides which number of streams is run next, from what is known of those that were.

Streams are doubled until a number does not hold, then numbers between are tried. Noise can spoil a step: one
that does not hold is run again, and so is the number that is the answer; what most say counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from gridwright.runs.phase_record import Status
from gridwright.runs.records import FindingRecord
from gridwright.runs.stream_sweep.record import Binding, CurvePoint, StreamSweepRecord, SweepEnd, SweepStep
from gridwright.runs.stream_sweep.rule import (
    MOST_UNJUDGED,
    StepVerdict,
    SweepRule,
    below,
    period,
    queued_extra,
    required_ratio,
    verdict,
)
from gridwright.runs.stream_sweep.words import answer

FINENESS = 16
"""Numbers of streams are told apart to a sixteenth of them, from 32 on; below that each is tried."""


@dataclass(frozen=True, slots=True)
class StreamsTried:
    """What the steps with one number of streams say."""

    streams: int
    verdicts: tuple[StepVerdict, ...]

    @property
    def held(self) -> int:
        """Steps that held."""
        return sum(each.held is True for each in self.verdicts)

    @property
    def fell(self) -> int:
        """Steps that did not."""
        return sum(each.held is False for each in self.verdicts)

    @property
    def unjudged(self) -> int:
        """Steps that are not judged."""
        return len(self.verdicts) - self.held - self.fell

    def state(self, agree: int) -> Literal["fell", "confirmed", "held", "open"]:
        """What is known of it where `agree` steps must say the same."""
        if self.fell >= agree:
            return "fell"
        if self.held >= agree:
            return "confirmed"
        return "held" if self.held and not self.fell else "open"


@dataclass(frozen=True, slots=True)
class Next:
    """So many streams are to be run next."""

    streams: int


@dataclass(frozen=True, slots=True)
class JobsCarried:
    """The answer: `carries` holds, `falls_at` does not; None where there is no such number.

    `ended_by` is None for an answer so far.
    """

    carries: int | None
    falls_at: int | None
    confirmed: bool
    ended_by: Literal["knee", "most", "disturbed"] | None


def levels_of(steps: Sequence[SweepStep], rule: SweepRule) -> list[StreamsTried]:
    """All numbers of streams that were run, fewest first."""
    verdicts: dict[int, list[StepVerdict]] = {}
    for step in steps:
        verdicts.setdefault(step.streams, []).append(verdict(step, steps, rule))
    return [StreamsTried(streams, tuple(verdicts[streams])) for streams in sorted(verdicts)]


def so_far(levels: Sequence[StreamsTried], rule: SweepRule) -> JobsCarried:
    """The answer where a sweep ends now."""
    states = {level.streams: level.state(rule.agree) for level in levels}
    falls = min((streams for streams, state in states.items() if state == "fell"), default=None)
    held = [
        streams
        for streams, state in states.items()
        if state in ("held", "confirmed") and (falls is None or streams < falls)
    ]
    carries = max(held, default=0 if falls == 1 else None)
    return JobsCarried(carries, falls, carries == 0 or states.get(carries or 0) == "confirmed", None)


def search(steps: Sequence[SweepStep], rule: SweepRule) -> Next | JobsCarried:
    """The next number of streams, or the answer."""
    levels = levels_of(steps, rule)
    known = so_far(levels, rule)
    streams = _next_streams(levels, known, rule)
    if isinstance(streams, JobsCarried):
        return streams
    again = next((level for level in levels if level.streams == streams), None)
    if again is not None and again.unjudged >= MOST_UNJUDGED:
        return JobsCarried(known.carries, known.falls_at, known.confirmed, "disturbed")
    return Next(streams)


def _next_streams(levels: Sequence[StreamsTried], known: JobsCarried, rule: SweepRule) -> int | JobsCarried:
    """The number of streams to measure next, or the answer."""
    below = [level for level in levels if known.falls_at is None or level.streams < known.falls_at]
    undecided = [level.streams for level in below if level.state(rule.agree) == "open"]
    if undecided:
        return undecided[0]
    # Where one stream alone sets what is required, chance must not set it.
    if not levels or (rule.by_default and levels[0].held < rule.agree and known.falls_at != 1):
        return 1
    carries, falls = known.carries or 0, known.falls_at
    if falls is None and carries < rule.most:
        return min(2 * carries, rule.most)
    if falls is not None and falls - carries > max(1, carries // FINENESS):
        return (carries + falls) // 2
    if not known.confirmed:
        return carries
    return JobsCarried(carries, falls, True, "most" if falls is None else "knee")


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


Measure = Callable[[int, int], SweepStep]
"""Runs the workload with so many streams, for the so manieth time from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOf:
    """What is swept: stands in the record as it is."""

    command: Literal["workload", "predict"]
    grid: str
    run: str | None = None
    matrix: str
    scale: str | None


@dataclass(slots=True)
class StreamSweep:
    """A sweep that goes on; `record` is what it amounts to so far."""

    of: SweepOf
    rule: SweepRule
    steps: list[SweepStep] = field(default_factory=list)
    findings: list[FindingRecord] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    ended_by: SweepEnd | None = None

    def run(
        self,
        measure: Measure,
        *,
        now: Callable[[], float] = time.monotonic,
        tell: Callable[[], None] = lambda: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run steps until the end, or an order to stop.

        `now` is a clock in seconds, `tell` is called after each step. Raises what `measure` raises; the steps
        until then are kept.
        """
        begun = now()
        while self.ended_by is None:
            if stopped():
                self.ended_by = "interrupted"
                return
            required = search(self.steps, self.rule)
            if isinstance(required, JobsCarried):
                self.ended_by = required.ended_by
            elif self._too_late(required, now() - begun):
                self.ended_by = "time"
            else:
                attempt = 1 + sum(step.streams == required.streams for step in self.steps)
                step = measure(required.streams, attempt)
                self.steps.append(step)
                if step.status in ("interrupted", "failed"):
                    self.ended_by = "interrupted" if step.status == "interrupted" else "failed"
                tell()

    def record(self) -> StreamSweepRecord:
        """What is known now; `status` says whether it goes on."""
        levels = levels_of(self.steps, self.rule)
        found = so_far(levels, self.rule)
        states: dict[SweepEnd | None, Status] = {
            None: "running",
            "interrupted": "interrupted",
            "failed": "failed",
        }
        record = StreamSweepRecord(
            command=self.of.command,
            grid=self.of.grid,
            run=self.of.run,
            status=states.get(self.ended_by, "complete"),
            matrix=self.of.matrix,
            scale=self.of.scale,
            rule=self.rule.words(),
            required_ratio=required_ratio(self.steps, self.rule),
            required_by="default" if self.rule.by_default else "spec",
            most_streams=self.rule.most,
            within_s=self.rule.within_s,
            carries=found.carries,
            at_least=found.carries is not None and self.ended_by != "knee",
            confirmed=found.confirmed,
            falls_at=found.falls_at,
            binds=binds(self.steps, found, self.rule),
            resource=resource(self.steps, found, self.rule),
            ended_by=self.ended_by,
            answer="",
            curve=[self._point(tried) for tried in levels],
            steps=list(self.steps),
            findings=list(self.findings),
            assumptions=list(self.assumptions),
            allow_disturbed=self.rule.allow_disturbed,
        )
        return record.model_copy(update={"answer": answer(record)})

    def _too_late(self, required: Next, elapsed_s: float) -> bool:
        """Whether a step would end after the time limit, if launches keep their pace."""
        if self.rule.within_s is None or not self.steps:
            return False
        nearest = min(
            (step for step in self.steps if step.wall_s and step.launches),
            key=lambda step: abs(step.streams - required.streams),
            default=None,
        )
        if nearest is None or not nearest.wall_s:
            return elapsed_s > self.rule.within_s
        expected = nearest.wall_s / nearest.streams * required.streams
        return elapsed_s + expected > self.rule.within_s

    def _point(self, tried: StreamsTried) -> CurvePoint:
        """The steps with one number of streams: medians, which stand with most of them."""
        steps = [step for step in self.steps if step.streams == tried.streams]
        of = zip(steps, tried.verdicts, strict=True)
        judged = [(step, said) for step, said in of if said.held is not None]
        held = {"fell": False, "held": True, "confirmed": True, "open": None}[tried.state(self.rule.agree)]
        ratio = _median(said.ratio for _, said in judged)
        each = _median(period(step) for step, _ in judged)
        return CurvePoint(
            streams=tried.streams,
            steps=len(judged),
            ratio=ratio,
            launches_per_hour=3600.0 / each if each else None,
            wall_s=_median(step.wall_s for step, _ in judged),
            waits_s=waits(self.steps, tried.streams, self.rule),
            held=held,
            why=None if held else self._why(tried, ratio),
        )

    def _why(self, tried: StreamsTried, ratio: float | None) -> str | None:
        """Why a number of streams does not hold, or is not judged."""
        required = required_ratio(self.steps, self.rule)
        if tried.fell and ratio is not None and required is not None and ratio < required:
            return below(ratio, required)
        return next((said.why for said in reversed(tried.verdicts) if said.why is not None), None)


def _median(figures: Iterable[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return statistics.median(known) if known else None


def at_end(record: StreamSweepRecord, status: Status) -> StreamSweepRecord:
    """The record of a sweep whose process is gone: what it had measured stands."""
    if record.status != "running" or status == "running":
        return record
    ended = record.model_copy(update={"status": status, "ended_by": "interrupted"})
    return ended.model_copy(update={"answer": answer(ended)})
