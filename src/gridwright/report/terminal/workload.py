"""The mixed workload on the terminal: per test, in all, and what held the cores back."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gridwright.report.figures import ABSENT, count, duration, megabytes, plain, seconds
from gridwright.report.repeats import NOTE, TITLES, repeats_rows
from gridwright.report.terminal.frame import framed_table, print_findings, printed
from gridwright.report.workload.nodes import percent
from gridwright.report.workload.tables import (
    gigabytes,
    minutes,
    ratio,
    ratio_range,
    ratio_width,
)
from gridwright.runs.workload_record import TestSummary, WorkloadRecord, WorkloadSummary
from gridwright.units import format_bytes

_FAILED_SHOWN = 5
_IN_ALL = (
    "launches", "failed", "real min", "user min", "sys min", "memory GB",
    "ratio mean", "stdev", "range", "width", "of sums",
)  # fmt: skip


@printed
def workload_text(console: Console, record: WorkloadRecord) -> None:
    """Print a table of all tests, the workload in all, failed launches, the diagnosis, the findings."""
    if record.tests:
        console.print(_tests(record))
    if len(record.nodes) > 1:
        console.print(_nodes(record))
    console.print(_in_all(record.summary))
    console.print(_extent(record), markup=False)
    if record.repeats:
        console.print(_repeats(record))
        console.print(NOTE, style="dim")
    _print_failed(console, record)
    _print_refused(console, record)
    if record.summary.diagnosis:
        console.print(record.summary.diagnosis, markup=False)
    print_findings(console, record.findings)


def _tests(record: WorkloadRecord) -> Table:
    table = framed_table(
        "Tests (means over launches that ran to their end; MB = 10^6 bytes)",
        ["test", "class", "bound by"],
        ["launches", "failed", "real s", "user s", "sys s", "memory MB", "CPU/real"],
    )
    for test in record.tests:
        table.add_row(*_test_row(test))
    return table


def _test_row(test: TestSummary) -> list[str | Text]:
    return [
        # A name from outside may look like markup.
        Text(test.test, overflow="fold"),
        test.class_,
        test.bound_by or ABSENT,
        count(test.launches),
        Text(count(test.failed), "bold red") if test.failed else "0",
        plain(test.real_s_mean),
        plain(test.user_s_mean),
        plain(test.system_s_mean),
        megabytes(test.peak_memory_bytes_mean),
        ratio(test.ratio_mean),
    ]


def _nodes(record: WorkloadRecord) -> Table:
    table = framed_table(
        "Nodes side by side",
        ["node", "bound by"],
        ["launches", "failed", "lost", "real min", "user min", "sys min", "CPU", "ratio mean", "of sums"],
    )
    for node in record.nodes:
        table.add_row(
            Text(node.node, overflow="fold"),
            node.bound_by or ABSENT,
            count(node.launches),
            Text(count(node.failed), "bold red") if node.failed else "0",
            Text(count(node.lost), "bold red") if node.lost else "0",
            minutes(node.real_s),
            minutes(node.user_s),
            minutes(node.system_s),
            percent(node.cpu_percent_mean),
            ratio(node.ratio_mean),
            ratio(node.ratio_of_sums),
        )
    return table


def _in_all(summary: WorkloadSummary) -> Table:
    table = framed_table(
        "In all (CPU/real: of single launches, and of the sums)",
        [],
        _IN_ALL,
    )
    table.add_row(
        count(summary.launches),
        Text(count(summary.failed), "bold red") if summary.failed else "0",
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
    return table


def _repeats(record: WorkloadRecord) -> Table:
    table = framed_table("Repeats", ["test", "figure"], [title.lower() for title in TITLES])
    for first, *rest in repeats_rows(record.repeats):
        table.add_row(Text(first, overflow="fold"), *rest)
    return table


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
