"""Reads the log of a real SAS job as one launch, so that it is judged like the workload's own tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gridwright.errors import Finding, input_error
from gridwright.runs.workload_record import LaunchRecord, StepRecord
from gridwright.workload.sas_log.job import MOST_STEPS, LogReader, SasJob
from gridwright.workload.sas_log.lines import scan_lines
from gridwright.workload.sas_log.notes import (
    TimingNote,
)

_STAMP_RESOLUTION_S = 1.0


def read_sas_log(path: Path, *, number: int, node: str) -> tuple[LaunchRecord, list[Finding]]:
    """Read a SAS log as launch `number` on `node`, with what a reader of its figures should know.

    Times of day are taken as local time of this machine: a log does not tell its zone. Raises
    GridwrightError if the file cannot be read, is empty, or holds no timing note.
    """
    reader = LogReader()
    size = scan_lines(path, reader)
    reader.end()
    job = reader.job
    if size == 0:
        raise input_error("the log is empty", where=str(path), remedy="Name the log of a SAS job that ran.")
    if job.notes == 0:
        raise input_error(
            "this is no SAS log, or one without times: it has no note such as "
            '"NOTE: PROCEDURE SORT used (Total process time):"',
            where=str(path),
            remedy="Name the log of a SAS job that ran with the option FULLSTIMER (STIMER at least).",
        )
    totals = job.totals()
    ended, ambiguous = job.end_time()
    real_s, user_s, system_s = totals.real_s, totals.all_user_s, totals.system_s
    cpu_s = None if user_s is None else user_s + (system_s or 0.0)
    launch = LaunchRecord(
        number=number,
        # A file name can hold bytes that are no text, which no JSON could carry.
        test=os.fsencode(path.stem).decode("utf-8", "replace"),
        class_="command",
        stream=1,
        node=node,
        started=None if ended is None or real_s is None else ended - real_s,
        ended=ended,
        real_s=real_s,
        user_s=user_s,
        system_s=system_s,
        peak_memory_bytes=totals.memory_bytes,
        cpu_real_ratio=cpu_s / real_s if cpu_s is not None and real_s else None,
        ok=job.failure is None,
        reason=job.failure,
        steps=[_step_record(note) for note in job.kept_steps()],
    )
    return launch, _findings(path.name, job, totals, reader.sessions, ambiguous=ambiguous)


def assign_streams(launches: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """Give launches the fewest streams in which none runs beside another; keep their order.

    SAS writes its timestamps in whole seconds, so less than a second in common does not count. A
    launch without times goes to stream 1.
    """
    spans = [
        (launch.started, launch.ended, index)
        for index, launch in enumerate(launches)
        if launch.started is not None and launch.ended is not None
    ]
    streams = [1] * len(launches)
    free_from: list[float] = []
    for started, ended, index in sorted(spans):
        free = next((i for i, when in enumerate(free_from) if when <= started), len(free_from))
        free_from[free : free + 1] = [ended - _STAMP_RESOLUTION_S]
        streams[index] = free + 1
    return [
        launch.model_copy(update={"stream": stream}) for launch, stream in zip(launches, streams, strict=True)
    ]


def _step_record(note: TimingNote) -> StepRecord:
    return StepRecord(
        procedure=note.name,
        real_s=note.real_s,
        user_s=note.all_user_s,
        system_s=note.system_s,
        peak_memory_bytes=note.memory_bytes,
        line=note.line,
    )


def _findings(name: str, job: SasJob, totals: TimingNote, sessions: int, *, ambiguous: bool) -> list[Finding]:
    found = []
    if job.closing is None:
        found.append(
            Finding(
                "warning",
                "sas-log-truncated",
                f'{name} has no closing note "The SAS System used": it was cut, or its session went on; '
                "the totals are the sums of its steps, without the time between them",
                "Give the log of a batch job that has ended.",
            )
        )
    if sessions > 1:
        found.append(
            Finding(
                "warning",
                "sas-log-several-sessions",
                f"{name} holds {sessions} sessions, one after the other: only the last is counted",
                "Give each job a log of its own.",
            )
        )
    if totals.all_user_s is None:
        found.append(
            Finding(
                "warning",
                "sas-log-no-cpu-time",
                f"{name} tells no CPU time, so it has no CPU/real ratio",
                "Run the job with the option FULLSTIMER.",
            )
        )
    elif totals.system_s is None:
        found.append(
            Finding(
                "info",
                "sas-log-no-fullstimer",
                f"{name} does not part user from system CPU time: all of it stands under user",
                "Run the job with the option FULLSTIMER, which also tells memory and the time of day.",
            )
        )
    if ambiguous:
        found.append(
            Finding(
                "warning",
                "sas-log-date-ambiguous",
                f"{name} has dates that can be read with the day or the month first, so the time of its "
                "start and end is left out",
                "Run the job with an English locale, or on a day after the twelfth.",
            )
        )
    if job.step_notes > MOST_STEPS:
        found.append(
            Finding(
                "info",
                "sas-log-steps-left-out",
                f"{name} has {job.step_notes} steps: all count, the longest {MOST_STEPS} are listed",
                "Split the job, if you need every step.",
            )
        )
    return found
