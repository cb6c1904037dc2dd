"""A sweep over numbers of streams: its steps, the rule that ends it, its record, and its answer in words.

The record is `sweep.json`, and what `--sweep --json` prints.

Keys carry their unit. A figure that was not measured is null.

A verdict is found from all steps so far, since what one stream reaches alone, and what fewer streams
reach, is what others are held against. More steps make it stricter, never milder.

Streams are doubled until a number does not hold, then numbers between are tried. Noise can spoil a step:
one that does not hold is run again, and so is the number that is the answer; what most say counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar, cast

from pydantic import ConfigDict, Field

from gridwright.atomic import write_atomically
from gridwright.errors import environment_error
from gridwright.runs.phase_record import Status
from gridwright.runs.records import SCHEMA, FindingRecord, Record, load_record
from gridwright.units import counted

SweepEnd = Literal["knee", "most", "time", "disturbed", "interrupted", "failed"]
"""Why it ended: the answer was found; no more streams were allowed; the next step would have ended too late;
a number of streams was disturbed each time; it was interrupted; a step could not be run."""
Binding = Literal["cores", "memory", "data", "work", "util", "other"]
"""What holds jobs back beyond what a grid carries; `other` is neither a core nor memory nor a library."""


class SweepStep(Record):
    """One run of the workload with a number of streams, as it was measured or predicted."""

    streams: int
    attempt: int
    """From 1: how often this number of streams was run until then."""
    run: str | None = None
    """Its run directory, relative to that of the sweep; null where it was predicted."""
    status: Status
    launches: int
    failed: int = 0
    failure: str | None = None
    """Why the first launch failed."""
    short_of_memory: bool = False
    """Whether a launch failed for lack of memory."""
    wall_s: float | None
    """From the first start to the last end."""
    real_s_mean: float | None
    between_s_mean: float | None = None
    """From the end of a launch to the start of the next of its stream."""
    queued_s_mean: float | None = None
    """From handing a launch's job in to the launch's start; null where launches are no jobs."""
    ratio: float | None
    """CPU/real ratio as it is judged: the mean of single launches or that of the sums, whichever is lower."""
    tests: dict[str, float] = Field(default_factory=dict)
    """The same by test, of those that a ratio is required of."""
    shares: dict[str, float] = Field(default_factory=dict)
    """The real time of all launches by cause."""
    resources: dict[str, float] = Field(default_factory=dict)
    """Predicted: the real time of all launches by the resource that bound."""
    disturbed: str | None = None
    """Who disturbed it; null where nobody did."""


class CurvePoint(Record):
    """All steps with one number of streams together: medians over those that are judged."""

    streams: int
    steps: int
    """How many are judged."""
    ratio: float | None
    """CPU/real ratio; time in a scheduler's queue beyond that of one stream alone counts as waiting."""
    launches_per_hour: float | None
    """While all streams run."""
    wall_s: float | None
    waits_s: dict[str, float]
    """Seconds per launch by cause."""
    held: bool | None
    """Whether the requirement held; null where no steps, or too few, could be judged."""
    why: str | None
    """Why it did not hold, or was not judged."""


class StreamSweepRecord(Record):
    """How many jobs a grid carries at once, and what was measured or predicted to say so."""

    schema_: int = Field(default=SCHEMA, alias="schema")
    command: Literal["workload", "predict"]
    grid: str
    run: str | None
    """Null where it was predicted."""
    status: Status
    matrix: str
    scale: str | None
    rule: str
    """The stop rule, in words."""
    required_ratio: float | None
    """The CPU/real ratio below which the sweep ends."""
    required_by: Literal["spec", "default"]
    most_streams: int
    within_s: float | None
    carries: int | None
    """Streams: jobs at once; 0 where one alone is too many, null where nothing was proven."""
    at_least: bool
    """Whether more than `carries` may be carried: the sweep ended before it came to the end of it."""
    confirmed: bool
    """Whether enough steps say of `carries` that it holds."""
    falls_at: int | None
    """The fewest streams with which the requirement does not hold."""
    binds: Binding | None
    resource: str | None = None
    """Predicted: the resource that binds, as `gridwright predict --explain` names it."""
    ended_by: SweepEnd | None
    """Null while it goes on."""
    answer: str
    """In a sentence."""
    curve: list[CurvePoint]
    steps: list[SweepStep]
    findings: list[FindingRecord] = Field(default_factory=list)
    assumptions: list[str] = Field(default_factory=list)
    """Of a predicted one: what its figures rest on."""
    allow_disturbed: bool = False

    model_config = ConfigDict(extra="allow", populate_by_name=True)


_Launch = TypeVar("_Launch")


def rotations(launches: Sequence[_Launch], streams: int) -> tuple[tuple[_Launch, ...], ...]:
    """The launches of so many streams.

    Work grows as streams do, each stream does the same, and they do not run in step.
    """
    starts = [number * len(launches) // streams % len(launches) for number in range(streams)]
    return tuple((*launches[start:], *launches[:start]) for start in starts)


OF_ALONE = 0.9
"""Without a requirement: the part of the CPU/real ratio of one stream alone that must be kept. A job then
takes at most a ninth longer than alone. It is ours: no paper gives one."""
GREW = 1.1
"""How much longer a launch may take of the whole run than with fewer streams: above it, real time has grown
faster than work. Two runs of the same differ by a few percent, see docs/performance.md."""
_MOST_UNJUDGED = 3
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


def _verdict(step: SweepStep, steps: Sequence[SweepStep], rule: SweepRule) -> StepVerdict:
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
    best, own = _fewer_streams(step, steps), _period(step)
    if best is None or own is None or own <= GREW * best:
        return None
    return f"real time grew faster than work: {own:.3g} s per launch after {best:.3g} with fewer streams"


def _queued_extra(step: SweepStep, steps: Sequence[SweepStep]) -> float:
    """Mean seconds of a launch in its scheduler's queue, beyond those of one stream alone."""
    alone = [x.queued_s_mean for x in steps if x.streams == 1 and x.queued_s_mean is not None and _whole(x)]
    if step.queued_s_mean is None or not alone:
        return 0.0
    return max(0.0, step.queued_s_mean - min(alone))


def _ratio(step: SweepStep, steps: Sequence[SweepStep]) -> float | None:
    """A launch in the queue waits for a core, as one does that shares its core without a scheduler."""
    if step.ratio is None or not step.real_s_mean:
        return step.ratio
    return step.ratio * step.real_s_mean / (step.real_s_mean + _queued_extra(step, steps))


def _whole(step: SweepStep) -> bool:
    return step.status == "complete" and not step.failed


def _period(step: SweepStep) -> float | None:
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
        if other.streams < step.streams and _whole(other) and (each := _period(other)) is not None:
            periods.setdefault(other.streams, []).append(each)
    return min((statistics.fmean(those) for those in periods.values()), default=None)


_BINDS: dict[Binding, str] = {
    "cores": "the cores bind",
    "memory": "memory binds",
    "data": "library data binds",
    "work": "library work binds",
    "util": "library util binds",
    "other": "something that is no core, no memory and no library binds",
}


def jobs(number: int) -> str:
    """Such as `1 job at once`."""
    return f"{counted(number, 'job')} at once"


def streams_text(number: int) -> str:
    """Such as `1 stream`."""
    return f"{number:,} stream{'' if number == 1 else 's'}"


def binding_words(binds: Binding | None) -> str:
    """Such as `library data binds`."""
    return _BINDS[binds] if binds is not None else "it is not known what binds"


def answer(record: StreamSweepRecord) -> str:
    """What the sweep says of the grid, and why no more where that is known."""
    return " ".join(
        part for part in (_carried(record), _beyond(record), _ended(record), _disturbed(record)) if part
    )


def _carried(record: StreamSweepRecord) -> str:
    would = "carries" if record.command == "workload" else "would carry"
    if record.carries is None:
        return f"How many jobs {record.grid} {would} at once is not proven."
    if record.carries == 0:
        return f"{record.grid} {would} no job as required, not even one alone: {_bound(record)}."
    if record.falls_at is None:
        return f"{record.grid} {would} at least {jobs(record.carries)}{_once(record)}."
    least, when = ("at least ", f"with {record.falls_at:,}") if record.at_least else ("", "beyond that")
    return f"{record.grid} {would} {least}{jobs(record.carries)}{_once(record)}; {when} {_bound(record)}."


def _bound(record: StreamSweepRecord) -> str:
    more = f" ({record.resource})" if record.resource and record.binds != "cores" else ""
    return f"{binding_words(record.binds)}{more}"


def _once(record: StreamSweepRecord) -> str:
    return "" if record.confirmed else " (seen once)"


def _beyond(record: StreamSweepRecord) -> str:
    """Why the first number of streams that does not hold does not."""
    point = next((point for point in record.curve if point.streams == record.falls_at), None)
    if point is None or not point.why:
        return ""
    return f"With {streams_text(point.streams)}: {point.why}."


def _ended(record: StreamSweepRecord) -> str:
    last = record.steps[-1] if record.steps else None
    if record.ended_by == "most":
        return f"No more than {streams_text(record.most_streams)} were tried."
    if record.ended_by == "time":
        return f"The time limit of {(record.within_s or 0.0) / 60:,.0f} min left no room for another step."
    if record.ended_by == "disturbed" and last is not None:
        unjudged = next((point.why for point in record.curve if point.streams == last.streams), None)
        return f"{streams_text(last.streams)} could not be judged: {unjudged or 'disturbed'}."
    if record.ended_by == "interrupted":
        return "The sweep was interrupted."
    if record.ended_by == "failed" and last is not None:
        return f"The step with {streams_text(last.streams)} could not be run; see the findings."
    return "" if record.ended_by == "knee" else "The sweep goes on."


def _disturbed(record: StreamSweepRecord) -> str:
    """That steps were judged although they were disturbed; empty if none was."""
    disturbed = sum(step.disturbed is not None for step in record.steps)
    if not disturbed or not record.allow_disturbed:
        return ""
    were = "step was" if disturbed == 1 else "steps were"
    return f"Judged although {disturbed} {were} disturbed: it proves nothing about a quiet grid."


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
        verdicts.setdefault(step.streams, []).append(_verdict(step, steps, rule))
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


def _search(steps: Sequence[SweepStep], rule: SweepRule) -> Next | JobsCarried:
    """The next number of streams, or the answer."""
    levels = levels_of(steps, rule)
    known = so_far(levels, rule)
    streams = _next_streams(levels, known, rule)
    if isinstance(streams, JobsCarried):
        return streams
    again = next((level for level in levels if level.streams == streams), None)
    if again is not None and again.unjudged >= _MOST_UNJUDGED:
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
    queued = [_queued_extra(step, steps) for step in _judged(steps, streams, rule)]
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
    slow = all(_verdict(step, steps, rule).slow for step in fallen)
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
    return [step for step in steps if step.streams == streams and _verdict(step, steps, rule).held is False]


def _judged(steps: Sequence[SweepStep], streams: int, rule: SweepRule) -> list[SweepStep]:
    return [
        step for step in steps if step.streams == streams and _verdict(step, steps, rule).held is not None
    ]


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
            required = _search(self.steps, self.rule)
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
        each = _median(_period(step) for step, _ in judged)
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


def _at_end(record: StreamSweepRecord, status: Status) -> StreamSweepRecord:
    """The record of a sweep whose process is gone: what it had measured stands."""
    if record.status != "running" or status == "running":
        return record
    ended = record.model_copy(update={"status": status, "ended_by": "interrupted"})
    return ended.model_copy(update={"answer": answer(ended)})


SWEEP_FILE = "sweep.json"
STEPS = "steps"
"""Directory of the steps' own run directories."""


def write_sweep(run: Path, record: StreamSweepRecord) -> None:
    """Write the record as it stands. Raises GridwrightError."""
    try:
        write_atomically(run / SWEEP_FILE, record.model_dump_json(by_alias=True, indent=1) + "\n")
    except OSError as error:
        raise environment_error(
            f"the sweep's record cannot be written: {error.strerror}",
            where=str(run / SWEEP_FILE),
            remedy=f"the steps so far are in {run / STEPS}; free space, and run it again",
        ) from error


def load_sweep(run: Path, status: Status) -> StreamSweepRecord | None:
    """Load the sweep of a run whose status is known; None if it holds none.

    Raises GridwrightError if it is damaged.
    """
    found = load_record(run / SWEEP_FILE, StreamSweepRecord)
    return None if found is None else _at_end(found, status)
