"""The toy scheduler: each job is a directory, and a process that starts when the job is submitted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from gridwright_toy.scheduler_kind import ToySection

from gridwright.api import (
    GridwrightError,
    Job,
    JobExplanation,
    JobRequest,
    JobState,
    NodeState,
    PlacementCheck,
    Problem,
    Requirement,
    input_error,
    option_problems,
)

_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class ToyScheduler:
    """See gridwright.schedulers.scheduler.Scheduler for what each method promises."""

    def __init__(self, state: Path, section: ToySection) -> None:
        self._jobs = state / "toy-jobs"
        self._section = section

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        """Start each job; the number of its directory is its identifier."""
        problems = [each for request in requests for each in option_problems(request, self._section)]
        if any(request.array for request in requests):
            what = "the toy scheduler has no arrays"
            problems.append(Problem(what=what, where="array", remedy="submit single jobs"))
        if problems:
            raise GridwrightError(*problems)
        return [self._start(request) for request in requests]

    def _start(self, request: JobRequest) -> str:
        directory = self._new_directory()
        fields = {
            "name": request.name or Path(request.command[0]).name,
            "cores": request.cores,
            "command": list(request.command),
            "directory": request.directory,
            "environment": {
                **request.environment,
                **_places(request),
                "TOY_GREETING": self._section.greeting,
            },
        }
        (directory / "job.json").write_text(json.dumps(fields))
        command = [sys.executable, "-P", "-m", "gridwright_toy.runner", str(directory)]
        with (directory / "runner.log").open("wb") as log:
            runner = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        (directory / "runner.pid").write_text(str(runner.pid))
        return directory.name

    def _new_directory(self) -> Path:
        self._jobs.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            try:
                (self._jobs / str(number)).mkdir()
            except FileExistsError:
                number += 1
            else:
                return self._jobs / str(number)

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        """How jobs stand, as their directories tell."""
        return [_job(each) for each in self._directories(identifiers)]

    def cancel(self, identifiers: Collection[str]) -> None:
        """End the process groups of jobs that run."""
        for directory in self._directories(identifiers):
            if not (directory / "end.json").exists():
                (directory / "cancelled").touch()
                os.killpg(int((directory / "runner.pid").read_text()), signal.SIGTERM)

    def explain(self, identifier: str) -> JobExplanation:
        """No job of this scheduler ever waits."""
        job = self.jobs([identifier])[0]
        cores = Requirement(name="cores", required=str(job.cores), provided="as many as asked for", fits=True)
        here = PlacementCheck(place=os.uname().nodename, requirements=[cores])
        return JobExplanation(job=job, summary=f"Job {job.id} does not wait.", candidates=[here])

    def nodes(self) -> list[NodeState]:
        """This machine, which is always free."""
        cores = os.cpu_count() or 1
        return [
            NodeState(
                name=os.uname().nodename,
                up=True,
                state="playing",
                cores=cores,
                memory_bytes=_MEMORY,
                free_cores=cores,
                free_memory_bytes=_MEMORY,
            )
        ]

    def _directories(self, identifiers: Collection[str] | None) -> Iterator[Path]:
        known = {each.name: each for each in self._jobs.iterdir()} if self._jobs.is_dir() else {}
        for identifier in sorted(known, key=int) if identifiers is None else identifiers:
            if identifier not in known:
                raise input_error(f"there is no job {identifier}", remedy="gridwright jobs has all of them")
            yield known[identifier]


def _places(request: JobRequest) -> dict[str, str]:
    return {f"GRIDWRIGHT_{name.upper()}": directory for name, directory in request.libraries.items()}


def _job(directory: Path) -> Job:
    fields: dict[str, Any] = json.loads((directory / "job.json").read_text())
    try:
        end = json.loads((directory / "end.json").read_text())
    except FileNotFoundError:
        end = None
    return Job(
        id=directory.name,
        name=fields["name"],
        state=_state(directory, end),
        cores=fields["cores"],
        exit_status=end["status"] if end else None,
        node=os.uname().nodename,
        submitted=directory.stat().st_ctime,
        started=directory.stat().st_ctime,
        ended=end["at"] if end else None,
        log=str(directory / "output.log"),
    )


def _state(directory: Path, end: dict[str, Any] | None) -> JobState:
    if (directory / "cancelled").exists():
        return JobState.CANCELLED
    if end is None:
        return JobState.RUNNING
    return JobState.COMPLETED if end["status"] == 0 else JobState.FAILED
