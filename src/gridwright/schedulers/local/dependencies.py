"""What waiting jobs of the store wait for, and whether that has come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gridwright.schedulers.dependency import Dependency, DependencyType
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.store import Store


class UnmetDependency(NamedTuple):
    """A job that another one waits for, and how it has to end."""

    key: JobKey
    type: DependencyType

    def __str__(self) -> str:
        return str(Dependency(str(self.key), self.type))


@dataclass(frozen=True, slots=True)
class DependencyProgress:
    """How far a job has come that others wait for."""

    met: bool
    why_never: str | None = None
    """Why it will never be as it has to be; None where it may."""
    provided: str = ""
    """How it stands, in words."""


def insert_dependencies(store: Store, job: int, dependencies: Iterable[UnmetDependency]) -> None:
    """Write down what a job waits for, within a transaction."""
    store.change_many(
        "INSERT INTO dependencies (job, on_job, on_idx, type) VALUES (?, ?, ?, ?)",
        (
            (job, dependency.key.job, dependency.key.element, dependency.type.value)
            for dependency in dependencies
        ),
    )


def dependencies_of(store: Store, job: int) -> list[UnmetDependency]:
    """All that a job waits for or has waited for."""
    rows = store.all("SELECT on_job, on_idx, type FROM dependencies WHERE job=?", (job,))
    return [_read(row) for row in rows]


def unmet_dependencies(store: Store) -> dict[int, list[UnmetDependency]]:
    """What waiting jobs wait for, as far as that has not come."""
    dependencies: dict[int, list[UnmetDependency]] = {}
    known: dict[UnmetDependency, bool] = {}
    for job, *row in store.all(
        "SELECT d.job, d.on_job, d.on_idx, d.type FROM dependencies d WHERE d.job IN (SELECT t.job "
        "FROM tasks t WHERE t.state IN ('waiting', 'running') AND t.state='waiting')"
    ):
        each = _read(row)
        if each not in known:
            known[each] = dependency_progress(store, each).met
        if not known[each]:
            dependencies.setdefault(job, []).append(each)
    return dependencies


def dependency_progress(store: Store, dependency: UnmetDependency) -> DependencyProgress:
    """Whether a job that others wait for, or each of its elements, has ended as it has to."""
    left, unfinished, failed = store.one(
        "SELECT COUNT(*), TOTAL(state IN ('waiting', 'running')), "
        "MAX(CASE WHEN state NOT IN ('waiting', 'running') THEN state END) "
        "FROM tasks WHERE state<>'completed' AND job=? AND idx BETWEEN ? AND ?",
        dependency.key.tasks,
    )
    if unfinished:
        standing = "waits or runs" if left == 1 else f"{left:.0f} not yet"
    else:
        standing = failed or "completed"
    if dependency.type is DependencyType.ANY:
        return DependencyProgress(not unfinished, None, standing)
    if dependency.type is DependencyType.NOT_OK:
        never = f"job {dependency.key}, after whose failure it was to start, completed"
        return DependencyProgress(not unfinished and bool(failed), None if left else never, standing)
    if dependency.type is DependencyType.EACH:
        return DependencyProgress(not left, None, standing)
    never = f"job {dependency.key}, which it waited for, did not complete: {failed}"
    return DependencyProgress(not left, never if failed else None, failed or standing)


def ended_elements(store: Store, job: int, dependency: UnmetDependency) -> dict[int, str]:
    """The final states of those elements that waiting elements of an array wait for, by their index."""
    return dict(
        store.all(
            "SELECT o.idx, o.state FROM tasks m JOIN tasks o ON o.job=? AND o.idx=m.idx "
            "WHERE m.job=? AND m.state='waiting' AND o.state NOT IN ('waiting', 'running')",
            (dependency.key.job, job),
        )
    )


def _read(row: Iterable[object]) -> UnmetDependency:
    job, index, kind = row
    return UnmetDependency(JobKey(int(str(job)), int(str(index))), DependencyType(str(kind)))
