"""Reads what the processes of each job have used: CPU time, memory, and bytes moved to and from storage.

A process belongs to the job that its environment names, or to that of its parent. Only root sees the
environment of other users' processes, so others see their own jobs.
"""

from __future__ import annotations

import pwd
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.disturbance.processes import TICK_S, Identity, SeenProcess, moved_bytes, processes
from gridwright.monitor.readings import Reading

_NAMES = (b"GRIDWRIGHT_JOB_ID=", b"SLURM_JOB_ID=")
"""What schedulers set for jobs: Gridwright's own for those that it handed in, Slurm's for all."""
_LOOKS = 2
"""A process gets its environment with the program that it becomes, so a new one is looked at again."""
_MOST_ENVIRONMENT = 1 << 17


@dataclass(slots=True)
class JobSources:
    """Reads all jobs that can be seen; remembers which process is of which job."""

    proc: Path = Path("/proc")
    _jobs: dict[Identity, str] = field(default_factory=dict)
    """The job of each process; empty for those of none."""
    _looks: dict[Identity, int] = field(default_factory=dict)
    members: frozenset[int] = frozenset()
    """Processes of jobs, as of the last look."""
    _users: dict[str, str] = field(default_factory=dict)

    def readings(self) -> Iterator[Reading]:
        """The sums of each job, now.

        Linux adds what a process used that has ended to the parent that waited for it, so sums only rise
        while the first process of a job lives. A sum that fell is told as no rate.
        """
        found = {each.pid: each for each in processes(self.proc) if not each.kernel}
        at = time.monotonic()
        self._forget(found)
        members: dict[str, list[SeenProcess]] = {}
        for process in found.values():
            if job := self._job_of(process, found):
                members.setdefault(job, []).append(process)
        self.members = frozenset(each.pid for those in members.values() for each in those)
        self._users = {job: self._users.get(job) or self._user(those[0]) for job, those in members.items()}
        for job, those in members.items():
            yield from self._sums(job, those, at)

    def _forget(self, found: dict[int, SeenProcess]) -> None:
        alive = {each.identity for each in found.values()}
        self._jobs = {key: job for key, job in self._jobs.items() if key in alive}
        self._looks = {key: looks for key, looks in self._looks.items() if key in alive}

    def _job_of(self, process: SeenProcess, found: dict[int, SeenProcess]) -> str:
        """The job of a process: by its own environment, else by the nearest ancestor that has one."""
        line, seen = [process], {process.pid}
        job = self._named(process)
        while not job:
            parent = found.get(line[-1].parent)
            if parent is None or parent.pid in seen:
                break
            line.append(parent)
            seen.add(parent.pid)
            job = self._named(parent)
        return job

    def _named(self, process: SeenProcess) -> str:
        known, looks = self._jobs.get(process.identity), self._looks.get(process.identity, 0)
        if known or looks >= _LOOKS:
            return known or ""
        self._looks[process.identity] = looks + 1
        job = self._jobs[process.identity] = _job_in_environment(process.pid, self.proc)
        return job

    def _sums(self, job: str, those: list[SeenProcess], at: float) -> Iterator[Reading]:
        ticks = sum(each.own_ticks + each.children_ticks for each in those)
        moved = [pair for each in those if (pair := moved_bytes(each.pid, self.proc)) is not None]
        yield Reading("gridwright_job_cpu_seconds_total", (job,), ticks * TICK_S, at)
        yield Reading("gridwright_job_resident_bytes", (job,), sum(each.memory_bytes for each in those), at)
        yield Reading("gridwright_job_processes", (job,), len(those), at)
        if user := self._users.get(job):
            yield Reading("gridwright_job_user", (job, user), 1.0, at)
        if len(moved) == len(those):
            # With one that may not be asked, the sum would be too small, and nobody would know.
            yield Reading("gridwright_job_read_bytes_total", (job,), sum(pair[0] for pair in moved), at)
            yield Reading("gridwright_job_written_bytes_total", (job,), sum(pair[1] for pair in moved), at)

    def _user(self, process: SeenProcess) -> str:
        """Whose a process is; empty where it has ended."""
        try:
            number = (self.proc / str(process.pid)).stat().st_uid
        except OSError:
            return ""
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return str(number)


def _job_in_environment(pid: int, proc: Path) -> str:
    try:
        with (proc / str(pid) / "environ").open("rb") as file:
            words = file.read(_MOST_ENVIRONMENT).split(b"\0")
    except OSError:
        return ""
    named = {
        name: word[len(name) :].decode(errors="replace")[:64]
        for word in words
        for name in _NAMES
        if word.startswith(name)
    }
    return next((named[name] for name in _NAMES if named.get(name)), "")
