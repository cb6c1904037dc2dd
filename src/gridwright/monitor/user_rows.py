"""The users that `top` shows, with what their jobs do together (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gridwright.monitor.job_rows import SUM, THERE
from gridwright.monitor.rates import Key
from gridwright.monitor.rows import SeenNode, whole
from gridwright.monitor.user_sums import JOBS, METRICS, OF_USERS, OWNER, UNKNOWN, user_values

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
            _row(user, held, untold, len(jobs.get(user, ())) + hidden.get(user, 0.0))
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


def _row(user: str, held: Mapping[str, float], untold: Collection[tuple[str, str]], jobs: float) -> UserLoad:
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
