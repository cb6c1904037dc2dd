"""Reads the log of a real SAS job as one launch, so that it is judged like the workload's own tests."""

from __future__ import annotations

import os
from pathlib import Path

from gridwright.errors import Finding, GridwrightError, input_error
from gridwright.runs.launch_record import LaunchRecord, StepRecord
from gridwright.workload.sas_log.findings import findings_of
from gridwright.workload.sas_log.lines import scan_lines
from gridwright.workload.sas_log.notes import TimingNote
from gridwright.workload.sas_log.reader import LogReader

_BLOCK_BYTES = 512
"""What Linux counts as a block of a process (getrusage(2), ru_inblock)."""


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
        raise _no_times(path, reader.notes_seen)
    totals = job.totals()
    ended, ambiguous = job.dates.end_time(totals.real_s if job.has_ended else None)
    real_s, user_s, system_s = totals.real_s, totals.all_user_s, totals.system_s
    cpu_s = None if user_s is None else user_s + (system_s or 0.0)
    launch = LaunchRecord(
        number=number,
        # A file name can hold bytes that are no text, which no JSON could carry.
        test=job.own_name or os.fsencode(_stem(path)).decode("utf-8", "replace"),
        class_="command",
        stream=1,
        node=node,
        started=None if ended is None or real_s is None else ended - real_s,
        ended=ended,
        real_s=real_s,
        user_s=user_s,
        system_s=system_s,
        peak_memory_bytes=totals.memory_bytes,
        device_read_bytes=_bytes(totals.read_blocks),
        device_written_bytes=_bytes(totals.written_blocks),
        cpu_real_ratio=cpu_s / real_s if cpu_s is not None and real_s else None,
        ok=job.failure is None,
        reason=job.failure,
        steps=[_step_record(note, session) for note, session in job.kept_steps()],
    )
    name = path.name
    return launch, findings_of(name, job, totals, reader.sessions, ambiguous=ambiguous)


def _bytes(blocks: int | None) -> int | None:
    return None if blocks is None else blocks * _BLOCK_BYTES


def _stem(path: Path) -> str:
    """The name of a log without what tells that it is packed, and that it is a log."""
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def _no_times(path: Path, notes: int) -> GridwrightError:
    if notes == 0:
        return input_error(
            'this is no SAS log: it has no line that begins with "NOTE:"',
            where=str(path),
            remedy="Name the log of a SAS job that ran.",
        )
    return input_error(
        f"this is a SAS log without times: none of its {notes} notes is such as "
        '"NOTE: PROCEDURE SORT used (Total process time):", in English, Chinese or Japanese',
        where=str(path),
        remedy="Run the job with the option FULLSTIMER (STIMER at least), and in one of these languages.",
    )


def _step_record(note: TimingNote, session: str | None) -> StepRecord:
    return StepRecord(
        procedure=note.name,
        real_s=note.real_s,
        user_s=note.all_user_s,
        system_s=note.system_s,
        peak_memory_bytes=note.memory_bytes,
        line=note.line,
        session=session,
    )
