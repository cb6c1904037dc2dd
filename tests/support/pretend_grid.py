"""A grid to test with where there is no scheduler: nodes are host names, and jobs run in namespaces.

`PretendScheduler` keeps to the protocol of schedulers and starts real processes. Files in its control
directory make its nodes fail: `power-off NODE` kills all jobs of a node and takes it away, `fail NODE`
does so and gives the jobs up, `deaf` makes it answer nothing, `lose` makes it lose the answer to the
next submission.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.messages import decode
from gridwright.schedulers.job import Job, JobExplanation, JobRequest, JobState, NodeState
from gridwright.workload.messages import GridRequest
from gridwright.workload.on_grid.process import GridAgent

GIB = 1 << 30
_ENTER = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
_INSIDE = ["sh", "-c", 'hostname "$0"; cd "$1"; shift; exec "$@"']


def can_pretend() -> bool:
    """Whether this user may make the namespaces."""
    with contextlib.suppress(OSError):
        return subprocess.run([*_ENTER, "true"], capture_output=True, timeout=10, check=False).returncode == 0
    return False


@dataclass(slots=True)
class _Known:
    job: Job
    request: JobRequest
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    ordered: JobState | None = None


class PretendScheduler:
    """Starts jobs on nodes that are host names of this machine; what a power-off kills is restarted."""

    def __init__(self, control: Path, nodes: dict[str, int]) -> None:
        self._control = control
        self._nodes = dict(nodes)
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        self._answer()
        with self._lock:
            identifiers = []
            for request in requests:
                identifier = str(len(self._known) + 1)
                log = str(self._control / f"{identifier}.log")
                job = Job(
                    id=identifier, name=request.name, state=JobState.WAITING, cores=request.cores,
                    memory_bytes=request.memory_bytes, submitted=time.time(), log=log,
                )  # fmt: skip
                self._known[identifier] = _Known(job, request)
                identifiers.append(identifier)
        lose = self._control / "lose"
        if lose.exists():
            lose.unlink()
            raise environment_error("the connection was cut", where="pretend")
        return identifiers

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        self._answer()
        with self._lock:
            found = [each.job for each in self._known.values()]
        (self._control / "jobs.json").write_text(
            json.dumps([[each.id, each.name, each.state, each.node] for each in found])
        )
        return [each for each in found if identifiers is None or each.id in identifiers]

    def cancel(self, identifiers: Collection[str]) -> None:
        self._answer()
        with self._lock:
            for identifier in identifiers:
                known = self._known[identifier]
                if known.job.state == JobState.WAITING:
                    self._end(known, JobState.CANCELLED)
                elif known.process is not None:
                    known.ordered = JobState.CANCELLED
                    for child in _children(known.process.pid):
                        os.kill(child, signal.SIGTERM)

    def explain(self, identifier: str) -> JobExplanation:
        return JobExplanation(job=self._known[identifier].job, summary="it is pretended")

    def nodes(self) -> list[NodeState]:
        self._answer()
        return [
            NodeState(
                name=name, up=True, state="idle", cores=cores, memory_bytes=8 * GIB,
                free_cores=cores, free_memory_bytes=8 * GIB,
            )
            for name, cores in self._nodes.items()
        ]  # fmt: skip

    def _answer(self) -> None:
        if (self._control / "deaf").exists():
            raise environment_error("the scheduler does not answer", where="pretend")

    def _run(self) -> None:
        while True:
            with self._lock:
                self._heed()
                self._reap()
                self._start()
            time.sleep(0.02)

    def _heed(self) -> None:
        for order in self._control.glob("* *"):
            word, _, node = order.name.partition(" ")
            order.unlink()
            self._nodes.pop(node, None)
            for known in self._known.values():
                if known.job.node != node or known.process is None:
                    continue
                known.process.kill()
                known.process.wait()
                known.process = None
                if word == "power-off" and known.request.restart:
                    known.job = replace(
                        known.job, state=JobState.WAITING, node=None, restarts=known.job.restarts + 1
                    )
                else:
                    self._end(known, JobState.NODE_FAILED)

    def _reap(self) -> None:
        for known in self._known.values():
            if known.process is None:
                continue
            status = known.process.poll()
            late = known.request.time_limit_s and time.monotonic() - known.began > known.request.time_limit_s
            if status is None and late:
                known.ordered = JobState.TIMED_OUT
                known.process.kill()
            elif status is not None:
                known.process = None
                state = known.ordered or (JobState.FAILED if status else JobState.COMPLETED)
                self._end(known, state, status)

    @staticmethod
    def _end(known: _Known, state: JobState, status: int | None = None) -> None:
        ended = {"state": state, "ended": time.time()}
        if status is not None:
            ended |= {"exit_status": status} if status >= 0 else {"signal": -status}
        known.job = replace(known.job, **ended)  # type: ignore[arg-type]

    def _start(self) -> None:
        for known in self._known.values():
            if known.job.state != JobState.WAITING:
                continue
            free = {name: cores - self._used(name) for name, cores in self._nodes.items()}
            node = max(free, key=lambda name: free[name], default=None)
            if node is None or free[node] < known.request.cores:
                continue
            with open(known.job.log or "", "ab") as log:  # noqa: PTH123
                known.process = subprocess.Popen(
                    [*_ENTER, *_INSIDE, node, known.request.directory, *known.request.command],
                    env=dict(known.request.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            known.began = time.monotonic()
            known.job = replace(known.job, state=JobState.RUNNING, node=node, started=time.time())

    def _used(self, node: str) -> int:
        return sum(
            each.request.cores for each in self._known.values() if each.process and each.job.node == node
        )


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def main() -> None:
    """The agent of a grid whose scheduler is pretended."""
    line = bytearray()
    while not line.endswith(b"\n"):
        line += os.read(0, 1 << 16)
    request = decode(bytes(line), GridRequest)
    control, nodes = Path(request.grid["control"]), request.grid["pretended"]
    GridAgent(request, lambda: PretendScheduler(control, nodes)).serve()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
