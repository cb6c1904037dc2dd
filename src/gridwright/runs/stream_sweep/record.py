"""The record of a sweep over numbers of streams: `sweep.json`, and what `--sweep --json` prints.

Keys carry their unit. A figure that was not measured is null.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from gridwright.runs.phase_record import Status
from gridwright.runs.records import SCHEMA, FindingRecord, Record

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
