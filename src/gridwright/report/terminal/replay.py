"""A replay beside the jobs that it replays, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from gridwright.report.figures import count, plain
from gridwright.report.terminal.frame import framed_table, printed
from gridwright.report.workload.tables import ratio
from gridwright.runs.replayed import ReplayedJob


@printed
def replay_text(console: Console, jobs: Sequence[ReplayedJob]) -> None:
    """Print a row for each job: how long it took, and how long its replay."""
    table = framed_table(
        "Replay (medians over launches that ran to their end)",
        ["job"],
        ["launches", "job real s", "replay real s", "replay CPU s", "replay / job"],
    )
    for job in jobs:
        table.add_row(
            Text(job.test, overflow="fold"),
            count(job.launches),
            plain(job.job_real_s),
            plain(job.real_s),
            plain(job.cpu_s),
            ratio(job.ratio),
        )
    console.print(table)
