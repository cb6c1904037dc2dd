"""Reads what the processes of each job have used: CPU time, memory, and bytes moved to and from storage.

A process belongs to the job that its environment names, or to that of its parent. Only root sees the
environment of other users' processes, so others see their own jobs. What processes of no job moved is told by
name and user, to root alone, in the way that proofs tell it (`gridwright.disturbance.usage`).
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.disturbance.counters import sees_all_processes
from gridwright.disturbance.processes import TICK_S, Identity, Ownership, SeenProcess, processes
from gridwright.disturbance.serving import serves_fuse
from gridwright.disturbance.usage import Usage, UsedSoFar
from gridwright.monitor.readings import Reading

_NAMES = (b"GRIDWRIGHT_JOB_ID=", b"SLURM_JOB_ID=")
"""What schedulers set for jobs: Gridwright's own for those that it handed in, Slurm's for all."""
_LOOKS = 2
"""A process gets its environment with the program that it becomes, so a new one is looked at again."""
_MOST_ENVIRONMENT = 1 << 17
_MOST_OTHERS, _KEPT_OTHERS = 10, 500
"""Names of processes of no job that are told at a time, by bytes and by CPU time, and that are remembered."""
_OTHERS_S = 60.0
"""So long is one told after it moved anything."""


@dataclass(slots=True)
class _OfJobs(Ownership):
    """Processes of jobs, and the sampler with what asked for it: all that are not foreign."""

    members: set[int] = field(default_factory=set)

    def take(self, found: dict[int, SeenProcess], now: float, proc: Path = Path("/proc")) -> set[int]:
        return {pid for pid in (*self.members, os.getpid(), os.getppid()) if pid in found}


@dataclass(frozen=True, slots=True)
class _Other:
    """Processes of no job: since when they are counted, and when their counts were seen to rise."""

    since_s: float
    moved_bytes: int = 0
    cpu_s: float = 0.0
    rose_s: float = 0.0

    def now(self, moved_bytes: int, cpu_s: float, at: float) -> _Other:
        if (moved_bytes, cpu_s) == (self.moved_bytes, self.cpu_s):
            return self
        return _Other(self.since_s, moved_bytes, cpu_s, at)


@dataclass(slots=True)
class JobSources:
    """Reads all jobs that can be seen; remembers which process is of which job."""

    proc: Path = Path("/proc")
    _jobs: dict[Identity, str] = field(default_factory=dict)
    """The job of each process; empty for those of none."""
    _looks: dict[Identity, int] = field(default_factory=dict)
    _users: dict[str, str] = field(default_factory=dict)
    _usage: Usage = field(init=False)
    _owned: _OfJobs = field(default_factory=lambda: _OfJobs(()))
    _began: float = field(default_factory=time.monotonic)
    _others: dict[tuple[str, str], _Other] = field(default_factory=dict)
    """By name and user."""
    _looked: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._usage = Usage(self._owned, serves=serves_fuse, proc=self.proc)

    def readings(self) -> Iterator[Reading]:
        """The sums of each job, now.

        Linux adds what a process used that has ended to the parent that waited for it, so sums only rise
        while the first process of a job lives. A sum that fell is told as no rate.
        """
        all_found = {each.pid: each for each in processes(self.proc)}
        found = {pid: each for pid, each in all_found.items() if not each.kernel}
        at = time.monotonic()
        self._forget(found)
        members: dict[str, list[SeenProcess]] = {}
        for process in found.values():
            if job := self._job_of(process, found):
                members.setdefault(job, []).append(process)
        self._owned.members = {each.pid for those in members.values() for each in those}
        used = self._usage.look(at, all_found)
        self._users = {job: self._users.get(job) or self._user(those[0]) for job, those in members.items()}
        for job, those in members.items():
            yield from self._sums(job, those, at)
        yield Reading("gridwright_sees_all_processes", (), float(sees_all_processes()), at)
        if self._usage.sees_traffic:
            yield from self._of_others(used, at)
        self._usage.forget(_KEPT_OTHERS)

    def _of_others(self, used: UsedSoFar, at: float) -> Iterator[Reading]:
        """What processes of no job moved since the sampler began: all together, and those that moved most."""
        read, written = used.foreign_bytes
        yield Reading("gridwright_others_cpu_seconds_total", (), used.foreign_s, at, self._began)
        yield Reading("gridwright_others_read_bytes_total", (), read, at, self._began)
        yield Reading("gridwright_others_written_bytes_total", (), written, at, self._began)
        groups = {(each.name, each.user): each for each in used.groups}
        self._others = {
            key: self._others.get(key, _Other(self._looked)).now(each.moved_bytes, each.cpu_s, at)
            for key, each in groups.items()
        }
        self._looked = at
        fresh = [each for key, each in groups.items() if at - self._others[key].rose_s <= _OTHERS_S]
        most = [*sorted(fresh, key=lambda each: -each.moved_bytes)[:_MOST_OTHERS],
                *sorted(fresh, key=lambda each: -each.cpu_s)[:_MOST_OTHERS]]  # fmt: skip
        for key in dict.fromkeys((each.name, each.user) for each in most):
            moved, cpu_s = groups[key].moved_bytes, groups[key].cpu_s
            since = self._others[key].since_s
            yield Reading("gridwright_process_moved_bytes_total", key, moved, at, since)
            yield Reading("gridwright_process_cpu_seconds_total", key, cpu_s, at, since)

    def _user(self, process: SeenProcess) -> str:
        try:
            number = (self.proc / str(process.pid)).stat().st_uid
        except OSError:
            return ""
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return str(number)

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
        moved = [pair for each in those if (pair := self._usage.moved(each)) is not None]
        if user := self._users.get(job):
            yield Reading("gridwright_job_user", (job, user), 1.0, at)
        yield Reading("gridwright_job_cpu_seconds_total", (job,), ticks * TICK_S, at)
        yield Reading("gridwright_job_resident_bytes", (job,), sum(each.memory_bytes for each in those), at)
        yield Reading("gridwright_job_processes", (job,), len(those), at)
        if len(moved) == len(those):
            # With one that may not be asked, the sum would be too small, and nobody would know.
            yield Reading("gridwright_job_read_bytes_total", (job,), sum(pair[0] for pair in moved), at)
            yield Reading("gridwright_job_written_bytes_total", (job,), sum(pair[1] for pair in moved), at)


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
