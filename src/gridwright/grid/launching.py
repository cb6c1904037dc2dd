"""Starts a program on each node: by the scheduler, or through ssh where there is none."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from gridwright.atomic import open_log
from gridwright.errors import GridwrightError
from gridwright.grid.node_python import with_python
from gridwright.schedulers.head_node import HeadNode, for_remote_shell
from gridwright.schedulers.job import Job, JobRequest, JobState
from gridwright.schedulers.scheduler import Scheduler
from gridwright.schedulers.ssh_head import why_no_ssh

_LOG = logging.getLogger("gridwright.grid")
NAME = "gridwright-iotest"
END_S = 5.0
"""How long a worker that was told to leave may take until its job is cancelled."""
_LOOK_S = 0.2
_SSH = ("-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=10")


class NodeLauncher(Protocol):
    """Starts one worker on each node.

    Failure contract. Every method returns within a bounded time. `start` raises GridwrightError where
    workers cannot be started at all; what becomes of each is for `ended` to tell. `ended` raises
    GridwrightError where nothing can be said now; it can be called again. `stop` raises nothing, and
    can be called at any time.
    """

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        """Have each node (the key) run its command; `logs` is a directory of the run for what is said.

        `inputs` is what commands read on stdin, such as secrets; jobs read none.
        """

    def ended(self) -> dict[str, str]:
        """Nodes whose command runs no more, and why, in words: "its job 17 timed out"."""

    def waiting(self) -> dict[str, str]:
        """Nodes whose command does not run yet, and why, in words."""

    def stop(self) -> None:
        """End what still runs."""


class SchedulerLauncher:
    """One job on each node, which has the node for itself."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        directory: str,
        environment: Mapping[str, str],
        cores: Mapping[str, int],
    ) -> None:
        """`directory` and `environment` are those of the jobs, `cores` those of each node."""
        self._scheduler = scheduler
        self._directory = directory
        self._environment = environment
        self._cores = cores
        self._jobs: dict[str, str] = {}

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        """Submit one job for each node, which has a log of its own. Raises GridwrightError."""
        if inputs:
            raise ValueError("what a job reads is in a file that its node sees")
        requests = [
            JobRequest(
                command=command,
                directory=self._directory,
                environment=self._environment,
                name=NAME,
                cores=self._cores.get(node, 1),
                node=node,
                exclusive=True,
            )
            for node, command in commands.items()
        ]
        self._jobs = dict(zip(commands, self._scheduler.submit(requests), strict=True))

    def ended(self) -> dict[str, str]:
        """Nodes whose job has ended. Raises GridwrightError."""
        return {node: _end(job) for node, job in self._look().items() if job.state.final}

    def waiting(self) -> dict[str, str]:
        """Nodes whose job waits. Raises GridwrightError."""
        return {
            node: f"its job {job.id} waits{f': {job.reason}' if job.reason else ''}"
            for node, job in self._look().items()
            if job.state == JobState.WAITING
        }

    def stop(self) -> None:
        """Give the jobs a moment to end by themselves, and cancel the others."""
        deadline = time.monotonic() + END_S
        with contextlib.suppress(GridwrightError):
            while True:
                left = [job.id for job in self._look().values() if not job.state.final]
                if not left:
                    return
                if time.monotonic() > deadline:
                    self._scheduler.cancel(left)
                    return
                time.sleep(_LOOK_S)

    def _look(self) -> dict[str, Job]:
        if not self._jobs:
            return {}
        jobs = {job.id: job for job in self._scheduler.jobs(list(self._jobs.values()))}
        return {node: jobs[identifier] for node, identifier in self._jobs.items() if identifier in jobs}


def _end(job: Job) -> str:
    how = job.state.value.replace("-", " ")
    if job.state == JobState.COMPLETED:
        how = "ended"
    elif job.state == JobState.FAILED and job.exit_status is not None:
        how = f"failed with exit status {job.exit_status}"
    reason = f" ({job.reason})" if job.reason else ""
    return f"its job {job.id} {how}{reason}" + (f"; see {job.log}" if job.log else "")


def _readable(content: bytes) -> IO[bytes]:
    """A file in memory, to be read from its beginning."""
    file = os.fdopen(os.memfd_create("input"), "w+b")
    file.write(content)
    file.seek(0)
    return file


class SshLauncher:
    """One ssh to each node, run on the head node; its log says what went wrong."""

    def __init__(
        self,
        head: HeadNode,
        pythons: Mapping[str, str] | None = None,
        port: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`pythons` has the Python of each node; `port` gives the one that nodes are to reach, if any."""
        self._head = head
        self._pythons = pythons or {}
        self._port = port
        self._logs = Path()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._failed: dict[str, str] = {}

    def start(
        self, commands: Mapping[str, Sequence[str]], logs: Path, inputs: Mapping[str, bytes] | None = None
    ) -> None:
        """Start one ssh for each node; `ended` reports one that cannot be started."""
        self._logs = logs
        for node, command in commands.items():
            words = with_python(self._pythons.get(node, sys.executable), command)
            argv = self._head.ssh([*_SSH, "--", node, for_remote_shell(words)], self._port())
            _LOG.info("starting %s on %s", shlex.join(command), node)
            try:
                with open_log(self._log(node)) as log, _readable((inputs or {}).get(node, b"")) as stdin:
                    self._running[node] = subprocess.Popen(
                        argv,
                        stdin=stdin,
                        stdout=log,
                        stderr=log,
                        # A terminal's interrupt goes to the command, which tells the workers itself.
                        start_new_session=True,
                    )
            except OSError as error:
                self._failed[node] = f"ssh cannot be started: {error.strerror}"

    def ended(self) -> dict[str, str]:
        """Nodes whose ssh has ended."""
        ended = {
            node: f"its ssh ended with exit status {process.returncode}{self._last_words(node)}"
            for node, process in self._running.items()
            if process.poll() is not None
        }
        return self._failed | ended

    def waiting(self) -> dict[str, str]:
        """None: ssh starts at once, or ends."""
        return {}

    def stop(self) -> None:
        """Give each ssh a moment to end with its worker, and kill the others."""
        deadline = time.monotonic() + END_S
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1.0)

    def _log(self, node: str) -> Path:
        return self._logs / f"iotest-{node}.log"

    def _last_words(self, node: str) -> str:
        try:
            why = why_no_ssh(self._log(node).read_text(errors="replace"))
        except OSError:
            return ""
        return f": {why}" if why else ""
