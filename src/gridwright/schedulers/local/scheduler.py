"""The local scheduler behind the protocol that all schedulers share."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gridwright.schedulers.job import Job, JobExplanation, JobRequest, JobState, NodeState
from gridwright.schedulers.local.exit_records import RunnerTrouble, read_trouble
from gridwright.schedulers.local.explanation import explain, reasons
from gridwright.schedulers.local.identifiers import JobKey
from gridwright.schedulers.local.machine_resources import machine_resources
from gridwright.schedulers.local.queries import find_keys, queue_snapshot, read_jobs
from gridwright.schedulers.local.runner_lock import ensure_runner
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.local.submission import check_requests, insert
from gridwright.spec.model import GridSpec
from gridwright.trusted import user_name


class LocalScheduler:
    """Runs jobs on this machine. Every method also starts a runner where there is work and none runs."""

    def __init__(self, spec: GridSpec, state: Path) -> None:
        """`state` is the grid's state directory. Raises GridwrightError for a grid of several machines."""
        self._machine = machine_resources(spec)
        self._section = spec.scheduler
        self._state = state
        self._opened: Store | None = None

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store(self._state)
            if self._opened.site() != self._machine:
                with self._opened.translated_errors(), self._opened.transaction():
                    self._opened.put_setting("site", self._machine.to_json())
        return self._opened

    @property
    def _seen(self) -> Store:
        """The store; nothing is made for who looks."""
        return self._opened or Store(self._state, looks=True)

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        """Submit jobs, all or none; see Scheduler."""
        store = self._store
        with store.translated_errors():
            with store.transaction():
                checked = check_requests(requests, self._machine, store, self._section)
                identifiers = insert(store, checked, self._machine)
            ensure_runner(self._state)
        return identifiers

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        """How jobs stand; see Scheduler."""
        store = self._seen
        with store.translated_errors():
            keys = None if identifiers is None else find_keys(store, identifiers)
            self._ensure_runner(store)
            found = read_jobs(store, keys)
            trouble = read_trouble(self._state)
            why: dict[int, str] = {}
            if not trouble.note and any(job.state is JobState.WAITING for job in found):
                why = reasons(queue_snapshot(store, self._machine, time.time()))
        return [_with_reason(job, why, trouble) for job in found]

    def cancel(self, identifiers: Collection[str]) -> None:
        """End jobs; see Scheduler."""
        store = self._store
        why = f"cancelled by {user_name(os.getuid())}"
        with store.translated_errors():
            with store.transaction():
                for key in find_keys(store, identifiers):
                    self._cancel(key, why)
                store.put_setting("cancellations", int(store.setting("cancellations")) + 1)
            ensure_runner(self._state)

    def _cancel(self, key: JobKey, why: str) -> None:
        self._store.change(
            "UPDATE tasks SET state='cancelled', reason=?, ended=? "
            "WHERE job=? AND idx BETWEEN ? AND ? AND state='waiting'",
            (why, time.time(), *key.tasks),
        )
        self._store.change(
            "UPDATE tasks SET cancel=? "
            "WHERE job=? AND idx BETWEEN ? AND ? AND state='running' AND cancel IS NULL",
            (why, *key.tasks),
        )

    def explain(self, identifier: str) -> JobExplanation:
        """Hold what a job needs against what there is; see Scheduler."""
        store = self._seen
        with store.translated_errors():
            (key,) = find_keys(store, [identifier])
            self._ensure_runner(store)
            explanation = explain(store, self._machine, key, time.time())
        note = read_trouble(self._state).note
        if note and explanation.job.state is JobState.WAITING:
            return replace(explanation, summary=f"Job {explanation.job.id} waits: {note}.")
        return explanation

    def nodes(self) -> list[NodeState]:
        """The one node there is; see Scheduler."""
        store = self._seen
        with store.translated_errors():
            self._ensure_runner(store)
            running = queue_snapshot(store, self._machine, time.time()).running
        cores = sum(allocation.demand.cores for allocation in running)
        memory = sum(allocation.demand.memory_bytes for allocation in running)
        return [
            NodeState(
                name=socket.gethostname(),
                up=True,
                state="busy" if cores >= self._machine.cores else "mixed" if cores else "idle",
                cores=self._machine.cores,
                memory_bytes=self._machine.memory_bytes,
                free_cores=max(0, self._machine.cores - cores),
                free_memory_bytes=max(0, self._machine.memory_bytes - memory),
            )
        ]

    def _ensure_runner(self, store: Store) -> None:
        if store.has_unfinished():
            ensure_runner(self._state)


def _with_reason(job: Job, why: Mapping[int, str], trouble: RunnerTrouble) -> Job:
    """A job with what keeps it from starting, or from being recorded, in words."""
    if job.state is JobState.WAITING:
        return replace(job, reason=trouble.note or why.get(int(job.id.partition("_")[0]), job.reason))
    if trouble.note and job.state is JobState.RUNNING and job.id in trouble.unrecorded:
        return replace(job, reason=f"has ended, and is recorded later: {trouble.note}")
    return job
