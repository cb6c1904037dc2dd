"""A grid on this machine with a queue of its own, and the processes that belong to it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.head_node import LocalHeadNode
from gridwright.schedulers.job import Job, JobRequest, JobState
from gridwright.schedulers.local.launcher import PROGRAM
from gridwright.schedulers.scheduler import Scheduler
from gridwright.spec import load_spec
from tests.support.command import wait_until

LIBRARIES = ("data", "work", "util")


@dataclass(frozen=True, slots=True)
class LocalGrid:
    """A grid spec in a directory, with its libraries and its state below."""

    directory: Path

    @classmethod
    def create(
        cls, directory: Path, *, cores: int = 2, memory: str = "2 GiB", queues: str = "batch: {}"
    ) -> LocalGrid:
        directory.mkdir(exist_ok=True)
        (directory / "grid.yaml").write_text(
            f"name: here\n"
            f"nodes: {{compute: {{cores: {cores}, memory: {memory}}}}}\n"
            f"filesystems: {{disk: {{type: local, path: {directory}}}}}\n"
            f"scheduler: {{type: local, queues: {{{queues}}}}}\n"
            f"state: {directory / 'state'}\n"
        )
        for name in LIBRARIES:
            (directory / name).mkdir()
        return cls(directory)

    @property
    def file(self) -> Path:
        return self.directory / "grid.yaml"

    @property
    def state(self) -> Path:
        return self.directory / "state"

    def scheduler(self) -> Scheduler:
        spec = load_spec(self.file)
        return scheduler_kind(spec.scheduler).open(spec, LocalHeadNode())

    def request(self, *command: str, **fields: Any) -> JobRequest:
        given = {
            "command": command,
            "directory": str(self.directory),
            "environment": dict(os.environ),
            "libraries": {name: str(self.directory / name) for name in LIBRARIES},
        }
        return JobRequest(**(given | fields))

    def runners(self) -> list[psutil.Process]:
        """The runner and its keeper, as far as they run."""
        wanted = ["-m", "gridwright.schedulers.local.runner", str(self.state)]
        return [process for process in psutil.process_iter() if words(process)[2:5] == wanted]

    def launchers(self) -> list[psutil.Process]:
        """The processes that make guards."""
        return [each for each in self._native() if not _name(each).startswith("guard")]

    def guards(self) -> list[psutil.Process]:
        """The guards of jobs, as soon as they have had one."""
        return [each for each in self._native() if _name(each).startswith("guard")]

    def _native(self) -> list[psutil.Process]:
        wanted = [PROGRAM, str(self.state)]
        return [process for process in psutil.process_iter() if words(process)[3:5] == wanted]

    def processes(self) -> list[psutil.Process]:
        """All processes of its jobs that show whose they are."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                about = process.environ()
                if about.get("GRIDWRIGHT_WORK", "").startswith(str(self.directory)):
                    found.append(process)
        return found

    def private(self) -> list[Path]:
        """What is in work and util."""
        return [path for name in ("work", "util") for path in (self.directory / name).iterdir()]


def _name(process: psutil.Process) -> str:
    """What a process calls itself; empty when it has ended."""
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def words(process: psutil.Process) -> list[str]:
    """The command line of a process; empty when it has ended."""
    try:
        found: list[str] = process.cmdline()
        return found
    except psutil.Error:
        return []


def ended(scheduler: Scheduler, identifiers: Sequence[str], seconds: float = 60.0) -> list[Job]:
    """The jobs, once all have ended."""
    seen: list[Job] = []

    def look() -> list[Job] | None:
        seen[:] = scheduler.jobs(identifiers)
        return seen if all(job.state.final for job in seen) else None

    return wait_until(look, seconds=seconds, what="the ends of jobs", last=lambda: _unfinished(seen))


def _unfinished(jobs: Sequence[Job]) -> list[tuple[str, JobState, str | None]]:
    return [(job.id, job.state, job.reason) for job in jobs if not job.state.final]


@contextlib.contextmanager
def local_grid(directory: Path, **fields: Any) -> Iterator[LocalGrid]:
    """A grid that leaves no process behind."""
    grid = LocalGrid.create(directory, **fields)
    try:
        yield grid
    finally:
        began = time.monotonic()
        while (left := _left(grid)) and (passed := time.monotonic() - began) < 20:
            for process in left:
                # Guards and launchers end by themselves then, and remove their control groups.
                if passed > 5 or process not in [*grid.launchers(), *grid.guards()]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.send_signal(signal.SIGKILL)
            time.sleep(0.05)


def _left(grid: LocalGrid) -> list[psutil.Process]:
    return [*grid.runners(), *grid.launchers(), *grid.guards(), *grid.processes()]
