"""Runs a sweep step by step until its rule ends it, and makes its record."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from gridwright.runs.phase_record import Status
from gridwright.runs.records import FindingRecord
from gridwright.runs.stream_sweep.binding import binds, resource, waits
from gridwright.runs.stream_sweep.record import CurvePoint, StreamSweepRecord, SweepEnd, SweepStep
from gridwright.runs.stream_sweep.rule import SweepRule, below, period, required_ratio
from gridwright.runs.stream_sweep.search import JobsCarried, Next, StreamsTried, levels_of, search, so_far
from gridwright.runs.stream_sweep.words import answer

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
            wanted = search(self.steps, self.rule)
            if isinstance(wanted, JobsCarried):
                self.ended_by = wanted.ended_by
            elif self._too_late(wanted, now() - begun):
                self.ended_by = "time"
            else:
                attempt = 1 + sum(step.streams == wanted.streams for step in self.steps)
                step = measure(wanted.streams, attempt)
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

    def _too_late(self, wanted: Next, elapsed_s: float) -> bool:
        """Whether a step would end after the time limit, if launches keep their pace."""
        if self.rule.within_s is None or not self.steps:
            return False
        nearest = min(
            (step for step in self.steps if step.wall_s and step.launches),
            key=lambda step: abs(step.streams - wanted.streams),
            default=None,
        )
        if nearest is None or not nearest.wall_s:
            return elapsed_s > self.rule.within_s
        expected = nearest.wall_s / nearest.streams * wanted.streams
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
        wanted = required_ratio(self.steps, self.rule)
        if tried.fell and ratio is not None and wanted is not None and ratio < wanted:
            return below(ratio, wanted)
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
