"""The mixed workload on the terminal: per test, in all, and what held the cores back.

A replay beside the jobs that it replays, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from gridwright.report.figures import ABSENT, count, duration, plain, seconds
from gridwright.report.table import Cell, Column, Table, columns_of, rows_table
from gridwright.report.tables import REPEAT_NOTE, REPEAT_TITLES, repeats_rows
from gridwright.report.terminal.frame import framed, print_findings, printed
from gridwright.report.workload.nodes import side_by_side
from gridwright.report.workload.tables import (
    bound_name,
    gigabytes,
    minutes,
    ratio,
    ratio_range,
    ratio_width,
    tests,
)
from gridwright.runs.profiles import ReplayedJob
from gridwright.runs.workload_record import WorkloadRecord, WorkloadSummary
from gridwright.units import format_bytes

_FAILED_SHOWN = 5
_TESTS: dict[str, str | Column] = {
    "Test": Column("test", words=True, wrap="fold"),
    "Class": "class",
    "Bound by": "bound by",
    "Launches": "launches",
    "Failed": "failed",
    "Real s": "real s",
    "User s": "user s",
    "System s": "sys s",
    "Memory MB": "memory MB",
    "Ratio mean": "CPU/real",
}
_NODES: dict[str, str | Column] = {
    "Node": Column("node", words=True, wrap="fold"),
    "Bound by": "bound by",
    "Launches": "launches",
    "Failed": "failed",
    "Lost under": "lost",
    "Real min": "real min",
    "User CPU min": "user min",
    "System CPU min": "sys min",
    "CPU": "CPU",
    "Ratio mean": "ratio mean",
    "Ratio of the sums": "of sums",
}
_IN_ALL = (
    "launches", "failed", "real min", "user min", "sys min", "memory GB",
    "ratio mean", "stdev", "range", "width", "of sums",
)  # fmt: skip


@printed
def workload_text(console: Console, record: WorkloadRecord) -> None:
    """Print a table of all tests, the workload in all, failed launches, the diagnosis, the findings."""
    if (table := tests(record.tests, bound_name)) is not None:
        title = "Tests (means over launches that ran to their end; MB = 10^6 bytes)"
        console.print(framed(table.only(_TESTS, title)))
    if len(record.nodes) > 1:
        nodes = side_by_side(record.nodes, bound_name)
        console.print(framed(nodes.only(_NODES, nodes.caption)))
    console.print(framed(_in_all(record.summary)))
    console.print(_extent(record), markup=False)
    if record.repeats:
        console.print(framed(_repeats(record)))
        console.print(REPEAT_NOTE, style="dim")
    _print_failed(console, record)
    _print_refused(console, record)
    if record.summary.diagnosis:
        console.print(record.summary.diagnosis, markup=False)
    print_findings(console, record.findings)


def _in_all(summary: WorkloadSummary) -> Table:
    figures = (
        count(summary.launches),
        Cell(count(summary.failed), "failed" if summary.failed else None),
        minutes(summary.real_s),
        minutes(summary.user_s),
        minutes(summary.system_s),
        gigabytes(summary.peak_memory_bytes),
        ratio(summary.ratio_mean),
        ratio(summary.ratio_stdev),
        ratio_range(summary),
        ratio_width(summary),
        ratio(summary.ratio_of_sums),
    )
    title = "In all (CPU/real: of single launches, and of the sums)"
    return rows_table(title, columns_of((), _IN_ALL), [figures])


def _repeats(record: WorkloadRecord) -> Table:
    test = Column("test", words=True, wrap="fold")
    columns = columns_of((test, "figure"), [title.lower() for title in REPEAT_TITLES])
    return rows_table("Repeats", columns, repeats_rows(record.repeats))


def _extent(record: WorkloadRecord) -> str:
    """How the workload was run, in a line; what is not known is left out."""
    summary = record.summary
    parts = [
        ("matrix", record.matrix or ABSENT),
        ("scale", record.scale or ABSENT),
        ("seed", ABSENT if record.seed is None else str(record.seed)),
        ("blocks", ABSENT if record.block_bytes is None else format_bytes(record.block_bytes)),
        ("streams", count(record.streams)),
        ("wall time", duration(summary.wall_s)),
        ("at once until the tail", plain(summary.mean_concurrency_until_tail)),
    ]
    if summary.cached_read_bytes is not None:
        parts.append(("read from the page cache", format_bytes(summary.cached_read_bytes)))
    if summary.queued_s_mean is not None:
        parts.append(("launch to launch", seconds(summary.harness_s_mean)))
        parts.append(("of that from job to launch", seconds(summary.queued_s_mean)))
    return ", ".join(f"{name} {text}" for name, text in parts if text != ABSENT)


def _print_failed(console: Console, record: WorkloadRecord) -> None:
    failed = [launch for launch in record.launches if not launch.ok]
    for launch in failed[:_FAILED_SHOWN]:
        reason = launch.reason or "no reason known"
        log = f" (log: {launch.log})" if launch.log else ""
        console.print(
            f"failed: {launch.test} (launch {launch.number}): {reason}{log}", style="red", markup=False
        )
    if len(failed) > _FAILED_SHOWN:
        console.print(f"{len(failed) - _FAILED_SHOWN} more failed; the report names them", style="red")


def _print_refused(console: Console, record: WorkloadRecord) -> None:
    for each in record.refused:
        console.print(f"refused: {each.log}: {each.reason}\n  {each.remedy}", style="red", markup=False)


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
