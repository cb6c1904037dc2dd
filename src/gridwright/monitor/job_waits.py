"""How long the processes of jobs wait for I/O, by the best that the node tells of it.

- `pressure`: the scheduler has a control group for each job, and the kernel counts in its `io.pressure` the
  time in which at least one task waited (Documentation/accounting/psi.rst). Exact, threads included.
- `delay`: the kernel counts the waits of tasks (kernel.task_delayacct); of each process its first thread, and
  the waits of several processes add up.
- `state`: whether a process's first thread waited in the kernel (state D) at the time of a sample.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.filesystems.reading import Reading
from gridwright.interference.processes import TICK_S
from gridwright.kernel_files import text_of

_AGAIN_S = 10.0
"""A job whose control group was not found is looked at again: its first process may be outside of it. Time
between two looks doubles, since many jobs never have one."""
_TREES = ("", "unified")
"""Where version 2 is mounted: alone, or beside version 1."""


@dataclass(slots=True)
class _Waiting:
    """What is known of one job."""

    group: Path | None = None
    due_s: float = 0.0
    """When it is looked for again."""
    rest_s: float = _AGAIN_S
    seen_s: float = 0.0
    """Waited, by its state when it was looked at."""
    last_s: float = 0.0


@dataclass(slots=True)
class JobWaits:
    """Tells the waits of jobs; remembers where their control groups are."""

    proc: Path
    cgroups: Path
    _jobs: dict[str, _Waiting] = field(default_factory=dict)
    _counts_delays: bool | None = None

    def reading(self, job: str, pids: Sequence[int], delay_ticks: int, waiting: int, at: float) -> Reading:
        """How long a job has waited since some moment."""
        known = self._jobs.setdefault(job, _Waiting(due_s=at, last_s=at))
        known.seen_s += at - known.last_s if waiting else 0.0
        known.last_s = at
        if known.group is None and at >= known.due_s and pids:
            known.group = self._group_of(pids[-1])
            known.due_s, known.rest_s = at + known.rest_s, 2 * known.rest_s
        metric = "gridwright_job_waiting_seconds_total"
        if known.group is not None and (stalled := _stalled_s(known.group / "io.pressure")) is not None:
            return Reading(metric, (job, "pressure"), stalled, at)
        if self._delays_are_counted():
            return Reading(metric, (job, "delay"), delay_ticks * TICK_S, at)
        return Reading(metric, (job, "state"), known.seen_s, at)

    def keep(self, jobs: set[str]) -> None:
        """Forget all others."""
        for gone in self._jobs.keys() - jobs:
            del self._jobs[gone]

    def is_in_group_of(self, job: str, pid: int) -> bool:
        """Whether a process is in a control group that the scheduler has for just this job.

        Users have groups of their own below `user.slice` alone, and may call these what they like.
        """
        lines = (text_of(self.proc / str(pid) / "cgroup") or "").splitlines()
        paths = [line.split(":", 2)[2] for line in lines if line.count(":") >= 2]
        return any(f"/job_{job}/" in f"{path}/" and "/user.slice/" not in path for path in paths)

    def _group_of(self, pid: int) -> Path | None:
        """The control group of a whole job that a process is in: Slurm's are called `job_` and a number."""
        for line in (text_of(self.proc / str(pid) / "cgroup") or "").splitlines():
            number, _, path = line.split(":", 2) if line.count(":") >= 2 else ("", "", "")
            found = re.search(r"^(.*/job_[0-9]+)(?:/|$)", path)
            if number != "0" or found is None:
                continue
            for tree in _TREES:
                group = self.cgroups / tree / found[1].lstrip("/")
                if (group / "io.pressure").exists():
                    return group
        return None

    def _delays_are_counted(self) -> bool:
        if self._counts_delays is None:
            switch = text_of(self.proc / "sys/kernel/task_delayacct")
            # Before Linux 5.14 there was no such switch, and delays were counted wherever it was built so.
            self._counts_delays = switch != "0"
        return self._counts_delays


def _stalled_s(path: Path) -> float | None:
    found = re.search(r"^some .*total=([0-9]{1,20})", text_of(path) or "", re.MULTILINE)
    return int(found[1]) / 1e6 if found else None
