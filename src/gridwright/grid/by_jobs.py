"""Asks nodes that ssh does not reach, as on many sites, by a job on each of them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gridwright.beneath import remove_tree
from gridwright.commands import CommandOutput
from gridwright.errors import GridwrightError
from gridwright.schedulers.job import JobRequest
from gridwright.schedulers.scheduler import Scheduler
from gridwright.state_parts import fresh_directory

NAME = "gridwright-ask"
START_S = 20.0
"""For a job to start on a node that is free: Slurm looks at a job when it is handed in (slurm.conf(5),
SchedulerParameters=defer is off by default)."""
_PASSED_ON = ("PATH", "HOME", "LANG")
_LOOK_S = 0.1
# The status comes last, under a name of its own: who sees it sees the whole answer.
_ANSWER = (
    'cd "$0" && node=$1 && shift && "$@" <input >"$node.out" 2>"$node.err"; echo $? >"$node.new" && '
    'mv "$node.new" "$node.status"'
)


def ask_by_jobs(
    scheduler: Scheduler,
    state: Path,
    nodes: Collection[str],
    command: Sequence[str],
    *,
    stdin: bytes,
    timeout_s: float,
) -> dict[str, CommandOutput | None]:
    """Run a command on nodes as jobs; the answer of each, None from one whose job did not end in time.

    `state` is a directory that this machine and the nodes see.
    Raises GridwrightError where no job can be handed in.
    """
    with _directory(state) as place:
        (place / "input").write_bytes(stdin)
        requests = [
            JobRequest(
                command=["sh", "-c", _ANSWER, str(place), node, *command],
                directory="/",
                environment={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                name=NAME,
                node=node,
                time_limit_s=START_S + timeout_s,
            )
            for node in nodes
        ]
        jobs = dict(zip(nodes, scheduler.submit(requests), strict=True))
        deadline = time.monotonic() + START_S + timeout_s
        answers: dict[str, CommandOutput | None] = {}
        try:
            while (left := [node for node in nodes if node not in answers]) and time.monotonic() < deadline:
                answers |= {node: answer for node in left if (answer := _answer(place, node)) is not None}
                time.sleep(_LOOK_S)
        finally:
            late = [jobs[node] for node in nodes if node not in answers]
            if late:
                with contextlib.suppress(GridwrightError):
                    scheduler.cancel(late)
        return {node: answers.get(node) for node in nodes}


@contextmanager
def _directory(state: Path) -> Iterator[Path]:
    place = fresh_directory(state, "ask")
    try:
        yield place
    finally:
        remove_tree(place)


def _answer(place: Path, node: str) -> CommandOutput | None:
    """What a job has left; None while it has not ended."""
    with contextlib.suppress(OSError, ValueError):
        status = int((place / f"{node}.status").read_text())
        return CommandOutput(
            status, (place / f"{node}.out").read_bytes(), (place / f"{node}.err").read_bytes()
        )
    return None
