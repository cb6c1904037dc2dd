"""The jobs that `top` shows, made of what nodes were read to have done between two snapshots (pure).

Rates are in bytes per second, times in seconds, parts from 0 to 1. None is what cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gridwright.monitor.rows import SeenNode, as_part, whole

Ranked = TypeVar("Ranked")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLoad:
    """A job on all nodes where it was seen. `cpus` is CPU time per second."""

    job: str
    nodes: tuple[str, ...]
    cpus: float | None
    memory_bytes: float
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    processes: int
    user: str = ""
    """Whose it is; empty where that is not known."""
    waiting: float | None = None
    """Part of the time in which it waited for I/O; of several nodes, that of the one that waited most."""
    waiting_by: str = ""
    """How that is known: `pressure`, `delay` or `state`; see `job_waits.py`."""
    directories: tuple[str, ...] = ()
    """Of libraries, where it has files open."""
    more_on: tuple[str, ...] = ()
    """Nodes that have kept the sum of some jobs alone, of which this may be one."""
    more_bytes_per_s: float = 0.0
    """How much more at most it read and wrote there: the whole of these sums."""

    @property
    def may_be_more(self) -> bool:
        """Whether what it moved may be more than these figures say, by what can be seen in them."""
        moved = (self.read_bytes_per_s or 0.0) + (self.written_bytes_per_s or 0.0)
        return self.more_bytes_per_s > SEEN_PART * moved


SEEN_PART = 0.005
"""Half of the last of the three digits that figures have."""
MOST_JOBS = 100
"""Jobs with a row of their own: nobody reads ten thousand."""
THERE = "gridwright_job_processes"
"""What is told of every job that is there."""
SUM = "other"
"""The job, or the user, that stands for all that a node has kept together."""
CPU_TIME = "gridwright_job_cpu_seconds_total"
IN_SUM = "gridwright_job_seconds_in_sum"
"""Of a history: how long at most a job was in the sum of a node within the time of a picture."""


def job_rows(nodes: Sequence[SeenNode]) -> list[JobLoad]:
    """Jobs, those that move most first; beyond MOST_JOBS, one row has the sums of all others.

    Users take turns for these rows, so that one with any number of jobs takes none of another's.
    """
    names = {labels[0] for node in nodes for labels in node.figures.labels(THERE)}
    rows = _rows(names, nodes)
    rows.sort(key=lambda row: (-(row.read_bytes_per_s or 0) - (row.written_bytes_per_s or 0), row.job))
    own = {row.job for row in by_turns(rows, lambda row: row.user)[:MOST_JOBS]}
    others = [row for row in rows if row.job not in own]
    return [*(row for row in rows if row.job in own), *([_sum_of(others)] if others else [])]


def by_turns(ranked: Iterable[Ranked], user: Callable[[Ranked], str]) -> list[Ranked]:
    """The first of each user, then the second of each, and so on, each time in the order given."""
    turns: dict[str, int] = {}
    found = []
    for each in ranked:
        of = user(each)
        turns[of] = turn = turns.get(of, 0) + 1
        found.append((turn, each))
    return [each for _, each in sorted(found, key=lambda each: each[0])]


def job_row(job: str, nodes: Sequence[SeenNode]) -> JobLoad | None:
    """One job, however many others move more; None where no node has a process of it."""
    (row,) = _rows([job], nodes)
    return row if row.nodes else None


def _rows(names: Collection[str], nodes: Sequence[SeenNode]) -> list[JobLoad]:
    rows = _loads(names, nodes)
    sums = [(node, _moved_in_sum(node)) for node in nodes if node.figures.gauge(THERE, SUM)]
    return [_with_sums(row, sums) for row in rows] if sums else rows


def _moved_in_sum(node: SeenNode) -> float:
    rates = (node.figures.rate(f"gridwright_job_{way}_bytes_total", SUM) for way in ("read", "written"))
    return sum(rate or 0.0 for rate in rates)


def _with_sums(row: JobLoad, sums: Sequence[tuple[SeenNode, float]]) -> JobLoad:
    """A row that says where the job may be in a sum."""
    there = {*row.nodes}
    more = [
        (node.name, moved)
        for node, moved in sums
        if row.job != SUM and (node.name not in there or node.figures.gauge(IN_SUM, row.job))
    ]
    return replace(
        row,
        more_on=tuple(name for name, _ in more),
        more_bytes_per_s=sum(moved for _, moved in more),
    )


def _loads(names: Collection[str], nodes: Sequence[SeenNode]) -> list[JobLoad]:
    owners = [labels for node in nodes for labels in node.figures.labels("gridwright_job_user")]
    # Of jobs that a history has only the sum of, it knows no user.
    users = {labels[0]: labels[1] for labels in owners if len(labels) == 2}
    waits, opened = _waits(nodes), _opened(nodes)
    return [replace(_job_row(job, nodes, waits, opened), user=users.get(job, "")) for job in names]


def _sum_of(jobs: Sequence[JobLoad]) -> JobLoad:
    return JobLoad(
        job=f"{len(jobs)} others",
        nodes=tuple(dict.fromkeys(node for job in jobs for node in job.nodes)),
        cpus=whole([job.cpus for job in jobs]),
        memory_bytes=sum(job.memory_bytes for job in jobs),
        read_bytes_per_s=whole([job.read_bytes_per_s for job in jobs]),
        written_bytes_per_s=whole([job.written_bytes_per_s for job in jobs]),
        processes=sum(job.processes for job in jobs),
        directories=tuple(sorted({directory for job in jobs for directory in job.directories})),
    )


def _job_row(
    job: str,
    nodes: Sequence[SeenNode],
    waits: Mapping[str, tuple[float | None, str]],
    opened: Mapping[str, Collection[str]],
) -> JobLoad:
    on = [node for node in nodes if node.figures.gauge(THERE, job) is not None]

    def rate(name: str) -> float | None:
        return whole([node.figures.rate(f"gridwright_job_{name}_total", job) for node in on])

    def gauge(name: str) -> float:
        return sum(node.figures.gauge(f"gridwright_job_{name}", job) or 0.0 for node in on)

    return JobLoad(
        job=job,
        nodes=tuple(node.name for node in on),
        cpus=rate("cpu_seconds"),
        memory_bytes=gauge("resident_bytes"),
        read_bytes_per_s=rate("read_bytes"),
        written_bytes_per_s=rate("written_bytes"),
        processes=int(gauge("processes")),
        waiting=waits.get(job, (None, ""))[0],
        waiting_by=waits.get(job, (None, ""))[1],
        directories=tuple(sorted(opened.get(job, ()))),
    )


def _waits(nodes: Sequence[SeenNode]) -> dict[str, tuple[float | None, str]]:
    """The part of the time in which each job waits for I/O, and how that is known."""
    waits: dict[str, tuple[float | None, str]] = {}
    metric = "gridwright_job_waiting_seconds_total"
    for node in nodes:
        for job, how in node.figures.labels(metric):
            waited = as_part(node.figures.rate(metric, job, how))
            if waited is not None and waited >= (waits.get(job, (None, ""))[0] or 0.0):
                waits[job] = waited, how
    return waits


def _opened(nodes: Sequence[SeenNode]) -> dict[str, set[str]]:
    """The directories of libraries in which each job has files open."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        for job, directory in node.figures.labels("gridwright_job_open_files"):
            found.setdefault(job, set()).add(directory)
    return found
