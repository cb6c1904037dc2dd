"""The jobs that `top` shows, their users, and what processes of no job use (pure).

Made of what nodes were read to have done between two snapshots. What the jobs of each user did on a node are
sums over all jobs, before any of these is left out. Rates are in bytes per second, times in seconds, parts
from 0 to 1. None is what cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gridwright.monitor.readings import Key
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


OWNER = "gridwright_job_user"
JOBS = "gridwright_user_jobs"
UNKNOWN = "unknown"
"""The user of jobs whose processes had ended before it was looked whose they are."""
OF_USERS = {
    "gridwright_job_cpu_seconds_total": "gridwright_user_cpu_seconds_total",
    "gridwright_job_read_bytes_total": "gridwright_user_read_bytes_total",
    "gridwright_job_written_bytes_total": "gridwright_user_written_bytes_total",
    THERE: JOBS,
}
"""Sums, by what they are sums of; of jobs it is their number."""
METRICS = tuple(OF_USERS.values())
"""CPU time, bytes read, bytes written, and the number of jobs."""


def user_values(values: Iterable[tuple[Key, float, int]]) -> list[tuple[Key, float, int]]:
    """Sums by user. Each value has the seconds with it for which it stands: one sum for each number of these.

    What stands for its own second alone comes first.
    """
    of_jobs = [each for each in values if each[0][0] in OF_USERS or each[0][0] == OWNER]
    owners = {key[1]: key[2] for key, _, _ in of_jobs if key[0] == OWNER}
    sums: dict[tuple[Key, int], float] = {}
    for key, value, back in of_jobs:
        metric = OF_USERS.get(key[0])
        if metric is not None:
            name = (metric, owners.get(key[1], UNKNOWN)), back
            sums[name] = sums.get(name, 0.0) + (1.0 if metric == JOBS else value)
    return [(key, sums[key, back], back) for key, back in sorted(sums, key=lambda each: each[1])]


MOST_USERS = 100
"""Users with a row of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLoad:
    """What the jobs of a user do on all nodes; `cpus` is CPU time per second, rates are bytes per second.

    None is what one of these jobs does not tell.
    """

    user: str
    jobs: int
    """A job on several nodes counts once, but for those of which a node tells a sum alone."""
    cpus: float | None
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None

    @property
    def moved_bytes_per_s(self) -> float:
        """Bytes read and written per second, as far as they are known."""
        return (self.read_bytes_per_s or 0.0) + (self.written_bytes_per_s or 0.0)


def user_rows(nodes: Sequence[SeenNode]) -> list[UserLoad]:
    """Users, those that move most first; beyond MOST_USERS, one row has the sums of all others."""
    sums: dict[str, dict[str, float]] = {}
    untold: set[tuple[str, str]] = set()
    jobs: dict[str, set[str]] = {}
    hidden: dict[str, float] = {}
    for node in nodes:
        owners = {labels[0]: labels[1] for labels in node.figures.labels(OWNER) if len(labels) == 2}
        named: dict[str, set[str]] = {}
        for (job,) in node.figures.labels(THERE):
            if job != SUM:
                named.setdefault(owners.get(job, UNKNOWN), set()).add(job)
        untold |= _incomplete_sums(node, named)
        for (metric, user), value in _sums_by_user(node).items():
            held = sums.setdefault(user, {})
            held[metric] = held.get(metric, 0.0) + value
            if metric == JOBS:
                here = named.get(user, set())
                jobs.setdefault(user, set()).update(here)
                hidden[user] = hidden.get(user, 0.0) + max(0.0, value - len(here))
    return _bounded(
        [
            _user_load(user, held, untold, len(jobs.get(user, ())) + hidden.get(user, 0.0))
            for user, held in sums.items()
        ]
    )


def _sums_by_user(node: SeenNode) -> Mapping[tuple[str, str], float]:
    """Sums by user of a node: as it kept them, else of its jobs."""
    figures = node.figures
    if figures.labels(JOBS):
        keys = [(metric, *labels) for metric in METRICS for labels in figures.labels(metric)]
        kept = {key: figures.rates.get(key, figures.gauges.get(key)) for key in keys}
        return {(key[0], key[1]): value for key, value in kept.items() if value is not None}
    return {(key[0], key[1]): value for key, value, _ in user_values(_values(node))}


def _values(node: SeenNode) -> Iterator[tuple[Key, float, int]]:
    for found in (node.figures.rates, node.figures.gauges):
        for key, value in found.items():
            yield key, value, 0


def _incomplete_sums(node: SeenNode, named: Mapping[str, Collection[str]]) -> set[tuple[str, str]]:
    """Sums that would be too small, and nobody would know: a job of that user does not tell its part."""
    return {
        (of_user, user)
        for user, jobs in named.items()
        for of_job, of_user in OF_USERS.items()
        if of_job != THERE and any(node.figures.rate(of_job, job) is None for job in jobs)
    }


def _user_load(
    user: str, held: Mapping[str, float], untold: Collection[tuple[str, str]], jobs: float
) -> UserLoad:
    cpus, read, written = (
        None if (metric, user) in untold else held.get(metric) for metric in METRICS if metric != JOBS
    )
    return UserLoad(
        user=user, jobs=round(jobs), cpus=cpus, read_bytes_per_s=read, written_bytes_per_s=written
    )


def _bounded(rows: Sequence[UserLoad]) -> list[UserLoad]:
    ranked = sorted(rows, key=lambda row: (row.user == SUM, -row.moved_bytes_per_s, row.user))
    kept = [row for row in ranked[:MOST_USERS] if row.user != SUM]
    rest = ranked[len(kept) :]
    if not rest:
        return kept
    return [
        *kept,
        UserLoad(
            user=SUM,
            jobs=sum(row.jobs for row in rest),
            cpus=whole([row.cpus for row in rest]),
            read_bytes_per_s=whole([row.read_bytes_per_s for row in rest]),
            written_bytes_per_s=whole([row.written_bytes_per_s for row in rest]),
        ),
    ]


@dataclass(frozen=True, slots=True)
class OtherProcess:
    """Processes of one name and user that are of no job; None is what cannot be told."""

    process: str
    user: str
    cpus: float | None
    """CPU time per second."""
    moved_bytes_per_s: float | None
    """To and from storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLoad:
    """What of a node no job accounts for. Rates in bytes per second; None where only root may know."""

    node: str
    machine: str
    cpus: float | None
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    written_back_bytes_per_s: float
    """By how much there was less in memory that is yet to be written: somebody wrote it earlier."""
    sees_all: bool
    """Whether all processes of its machine can be seen there: not from within a container."""
    processes: tuple[OtherProcess, ...] = ()
    """Those that moved or computed most."""


def other_rows(nodes: Sequence[SeenNode]) -> list[OtherLoad]:
    """One row for each node that answered."""
    return [_other_load(node) for node in nodes]


def _other_load(node: SeenNode) -> OtherLoad:
    figures = node.figures
    now, before = figures.gauge("node_memory_Dirty_bytes"), figures.earlier.get(("node_memory_Dirty_bytes",))
    fell = 0.0 if now is None or before is None else max(0.0, before - now)
    return OtherLoad(
        node=node.name,
        machine=node.last.machine or node.name,
        cpus=figures.rate("gridwright_others_cpu_seconds_total"),
        read_bytes_per_s=figures.rate("gridwright_others_read_bytes_total"),
        written_bytes_per_s=figures.rate("gridwright_others_written_bytes_total"),
        written_back_bytes_per_s=fell / node.seconds if node.seconds > 0 else 0.0,
        sees_all=figures.gauge("gridwright_sees_all_processes") == 1.0,
        processes=tuple(_processes(node)),
    )


def _processes(node: SeenNode) -> Iterator[OtherProcess]:
    figures = node.figures
    for labels in figures.labels("gridwright_process_moved_bytes_total"):
        moved = figures.rate("gridwright_process_moved_bytes_total", *labels)
        cpus = figures.rate("gridwright_process_cpu_seconds_total", *labels)
        if moved or cpus:
            yield OtherProcess(labels[0], labels[1], cpus, moved)
