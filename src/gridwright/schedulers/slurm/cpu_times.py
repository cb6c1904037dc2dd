"""Reads the processor time of jobs that their own script wrote down, for a Slurm that keeps no database.

jobcomp/filetxt has no processor time, and sacct has it only out of slurmdbd.
"""

from __future__ import annotations

import re

from gridwright.schedulers.job_tag import JobTag
from gridwright.schedulers.slurm.job_directories import JobDirectories
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.record_rows import WHOLE

_TIME = re.compile(r"([0-9]+)m([0-9]+(?:[.,][0-9]+)?)s")
UNKNOWN = -1.0
"""Kept of a job whose script wrote nothing, since it was killed: it is not looked for again."""


def note_cpu_times(directories: JobDirectories, record: JobRecord) -> None:
    """Read the times of jobs that have ended since, each once."""
    found = []
    for submission, end in record.without_cpu_time():
        tag = JobTag(end.token, end.attempt)
        job = f"{tag}" if end.element == WHOLE else f"{tag}_{end.element}"
        run = f"{job}.{end.restarts - submission.interruptions}"
        try:
            text = (directories.runs / f"{run}.times").read_text(errors="replace")
        except OSError:
            text = ""
        seconds = parse_times(text)
        found.append((UNKNOWN if seconds is None else seconds, end.token, end.element))
    if found:
        record.keep_cpu_times(found)


def parse_times(text: str) -> float | None:
    """User and system time of the children of a shell, in seconds: the second line of `times` (POSIX)."""
    lines = text.splitlines()
    found = _TIME.findall(lines[1]) if len(lines) > 1 else []
    if len(found) != 2:
        return None
    return sum(int(minutes) * 60 + float(seconds.replace(",", ".")) for minutes, seconds in found)
