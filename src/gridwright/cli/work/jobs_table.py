"""Jobs as a table, in which elements of an array that are alike share a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from gridwright.schedulers.job import Job, JobState
from gridwright.units import format_bytes

if TYPE_CHECKING:
    from gridwright.report.table import Table

_STYLES = {
    JobState.RUNNING: "cyan",
    JobState.COMPLETED: "green",
    JobState.FAILED: "bold red",
    JobState.OUT_OF_MEMORY: "bold red",
    JobState.TIMED_OUT: "bold red",
    JobState.NODE_FAILED: "bold red",
    JobState.CANCELLED: "yellow",
}
_DASH = "–"  # noqa: RUF001 - an en dash is what an absent figure prints as


def jobs_table(jobs: Sequence[Job], now: float) -> Table:
    """One line for each job, or for elements of an array that are alike; `now` in seconds since 1970."""
    from gridwright.report.table import Cell, columns_of, rows_table

    rows = []
    for alike in fold(jobs):
        first = alike[0]
        nodes = {job.node for job in alike if job.node is not None}
        row = (
            identifiers(alike),
            printable(_name(first)),
            Cell(first.state.value, style=_STYLES.get(first.state, "")),
            first.queue or _DASH,
            str(first.cores),
            format_bytes(first.memory_bytes) if first.memory_bytes is not None else _DASH,
            _elapsed(alike, now),
            (nodes.pop() if len(nodes) == 1 else f"{len(nodes)} nodes") if nodes else _DASH,
            printable(first.reason or ""),
        )
        rows.append(row)
    columns = columns_of(["job", "name", "state", "queue"], ["cores", "memory", "time"], "node", "why")
    return rows_table("", columns, rows)


def _name(job: Job) -> str:
    """Its name, with that of its flow before it."""
    return job.name if job.flow is None else f"{job.flow.partition('/')[0]}/{job.name}"


def fold(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """Jobs together that differ in nothing that is shown but their indices and times."""

    def shown(job: Job) -> tuple[object, ...]:
        array = job.id.partition("_")
        return (array[0] if array[1] else job.id, job.state, job.reason, job.exit_status, job.restarts)

    for array, group in groupby(jobs, key=lambda job: job.id.partition("_")[0]):
        kinds: dict[tuple[object, ...], list[Job]] = {}
        for job in group:
            kinds.setdefault((array, *shown(job)), []).append(job)
        yield from kinds.values()


def identifiers(jobs: Sequence[Job]) -> str:
    """The identifiers of jobs of one array: 17_3, 17_[1-40], 17_[1-3,7]."""
    if len(jobs) == 1:
        return jobs[0].id
    array = jobs[0].id.partition("_")[0]
    indices = sorted(int(job.id.partition("_")[2]) for job in jobs)
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in ranges[:4]]
    more = [f"... {len(jobs)} in all"] if len(ranges) > len(shown) else []
    return f"{array}_[{','.join([*shown, *more])}]"


def printable(text: str) -> str:
    """Text for a terminal: what is no printable character becomes a replacement character."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _elapsed(jobs: Sequence[Job], now: float) -> str:
    """How long they ran, from the first start to the last end."""
    started = [job.started for job in jobs if job.started is not None]
    if not started:
        return _DASH
    ended = [job.ended if job.ended is not None else now for job in jobs if job.started is not None]
    return duration(max(0.0, max(ended) - min(started)))


def duration(seconds: float) -> str:
    """A time for people: 0.3 s, 42 s, 3 min 20 s, 2 h 05 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"
