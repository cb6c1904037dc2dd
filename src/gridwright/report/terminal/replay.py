"""A replay beside the jobs that it replays, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gridwright.report.figures import count, plain
from gridwright.report.table import Column, columns_of, rows_table
from gridwright.report.terminal.frame import framed, printed
from gridwright.report.workload.tables import ratio
from gridwright.runs.replayed import ReplayedJob


@printed
def replay_text(console: Console, jobs: Sequence[ReplayedJob]) -> None:
    """Print a row for each job: how long it took, and how long its replay."""
    columns = columns_of(
        [Column("job", words=True, wrap="fold")],
        ["launches", "job real s", "replay real s", "replay CPU s", "replay / job"],
    )
    rows = (
        (
            job.test,
            count(job.launches),
            plain(job.job_real_s),
            plain(job.real_s),
            plain(job.cpu_s),
            ratio(job.ratio),
        )
        for job in jobs
    )
    title = "Replay (medians over launches that ran to their end)"
    console.print(framed(rows_table(title, columns, rows)))
