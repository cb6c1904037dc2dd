"""The jobs that `top` shows, made of what nodes were read to have done between two snapshots (pure).

Rates are in bytes per second, times in seconds, parts from 0 to 1. None is what cannot be told.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.monitor.rows import SeenNode, as_part, whole


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


MOST_JOBS = 100
"""Jobs with a row of their own: nobody reads ten thousand."""


def job_rows(nodes: Sequence[SeenNode]) -> list[JobLoad]:
    """Jobs, those that move most first; beyond MOST_JOBS, one row has the sums of all others."""
    names = {labels[0] for node in nodes for labels in node.figures.labels("gridwright_job_processes")}
    rows = _rows(names, nodes)
    rows.sort(key=lambda row: (-(row.read_bytes_per_s or 0) - (row.written_bytes_per_s or 0), row.job))
    others = rows[MOST_JOBS:]
    return [*rows[:MOST_JOBS], *([_sum_of(others)] if others else [])]


def job_row(job: str, nodes: Sequence[SeenNode]) -> JobLoad | None:
    """One job, however many others move more; None where no node has a process of it."""
    (row,) = _rows([job], nodes)
    return row if row.nodes else None


def _rows(names: Collection[str], nodes: Sequence[SeenNode]) -> list[JobLoad]:
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
        directories=tuple(sorted({each for job in jobs for each in job.directories})),
    )


def _job_row(
    job: str,
    nodes: Sequence[SeenNode],
    waits: Mapping[str, tuple[float | None, str]],
    opened: Mapping[str, Collection[str]],
) -> JobLoad:
    on = [node for node in nodes if node.figures.gauge("gridwright_job_processes", job) is not None]

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
    found: dict[str, tuple[float | None, str]] = {}
    metric = "gridwright_job_waiting_seconds_total"
    for node in nodes:
        for job, how in node.figures.labels(metric):
            waited = as_part(node.figures.rate(metric, job, how))
            if waited is not None and waited >= (found.get(job, (None, ""))[0] or 0.0):
                found[job] = waited, how
    return found


def _opened(nodes: Sequence[SeenNode]) -> dict[str, set[str]]:
    """The directories of libraries in which each job has files open."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        for job, directory in node.figures.labels("gridwright_job_open_files"):
            found.setdefault(job, set()).add(directory)
    return found
