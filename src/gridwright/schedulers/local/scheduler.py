"""The local scheduler behind the protocol that all schedulers share."""

from __future__ import annotations

import socket
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from gridwright.schedulers.job import Explanation, Job, JobRequest, JobState, NodeState
from gridwright.schedulers.local.explanation import explain, reasons
from gridwright.schedulers.local.heartbeat import see_to_runner
from gridwright.schedulers.local.names import Key
from gridwright.schedulers.local.queries import affairs, find_keys, read_jobs
from gridwright.schedulers.local.site import site_of
from gridwright.schedulers.local.store import Store
from gridwright.schedulers.local.submission import check_requests, insert, user_name
from gridwright.spec.model import GridSpec


class LocalScheduler:
    """Runs jobs on this machine. Every method also sees to it that a runner is there if there is work."""

    def __init__(self, spec: GridSpec, state: Path) -> None:
        """`state` is the grid's state directory. Raises GridwrightError for a grid of several machines."""
        self._site = site_of(spec)
        self._state = state
        self._opened: Store | None = None

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store(self._state)
            if self._opened.site() != self._site:
                with self._opened.speaking(), self._opened.changing():
                    self._opened.put_setting("site", self._site.to_json())
        return self._opened

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        """Hand in jobs, all or none; see Scheduler."""
        store = self._store
        with store.speaking():
            with store.changing():
                checked = check_requests(requests, self._site, store)
                identifiers = insert(store, checked, self._site)
            see_to_runner(self._state)
        return identifiers

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        """How jobs stand; see Scheduler."""
        store = self._store
        with store.speaking():
            keys = None if identifiers is None else find_keys(store, identifiers)
            self._attend()
            found = read_jobs(store, keys)
            if not any(job.state is JobState.WAITING for job in found):
                return found
            why = reasons(affairs(store, self._site, time.time()))
        return [
            replace(job, reason=why.get(int(job.id.partition("_")[0]), job.reason))
            if job.state is JobState.WAITING
            else job
            for job in found
        ]

    def cancel(self, identifiers: Collection[str]) -> None:
        """End jobs; see Scheduler."""
        store = self._store
        why = f"cancelled by {user_name()}"
        with store.speaking():
            with store.changing():
                for key in find_keys(store, identifiers):
                    self._cancel(key, why)
                store.put_setting("cancellations", int(store.setting("cancellations")) + 1)
            see_to_runner(self._state)

    def _cancel(self, key: Key, why: str) -> None:
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

    def explain(self, identifier: str) -> Explanation:
        """Hold what a job needs against what there is; see Scheduler."""
        store = self._store
        with store.speaking():
            (key,) = find_keys(store, [identifier])
            self._attend()
            return explain(store, self._site, key, time.time())

    def nodes(self) -> list[NodeState]:
        """The one node there is; see Scheduler."""
        store = self._store
        with store.speaking():
            self._attend()
            running = affairs(store, self._site, time.time()).running
        cores = sum(held.demand.cores for held in running)
        memory = sum(held.demand.memory_bytes for held in running)
        return [
            NodeState(
                name=socket.gethostname(),
                up=True,
                state="busy" if cores >= self._site.cores else "mixed" if cores else "idle",
                cores=self._site.cores,
                memory_bytes=self._site.memory_bytes,
                free_cores=max(0, self._site.cores - cores),
                free_memory_bytes=max(0, self._site.memory_bytes - memory),
            )
        ]

    def _attend(self) -> None:
        if self._store.has_unfinished():
            see_to_runner(self._state)
