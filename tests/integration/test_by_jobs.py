"""Questions to nodes as jobs, of a scheduler whose jobs are processes of this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from gridwright.commands import CommandOutput
from gridwright.grid import grid
from gridwright.grid.grid import Grid, ask_by_jobs
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.job import JobRequest, NodeState
from gridwright.schedulers.scheduler import Scheduler
from gridwright.services.connections import Listener
from gridwright.spec import parse_spec


class Jobs:
    """Starts jobs at once, but for those on nodes that are busy."""

    def __init__(self, busy: Collection[str] = ()) -> None:
        self.busy = busy
        self.requests: list[JobRequest] = []
        self.cancelled: list[str] = []

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        self.requests += requests
        for request in requests:
            if request.node not in self.busy:
                subprocess.Popen(list(request.command), env=dict(request.environment), cwd=request.directory)
        return [f"job-{request.node}" for request in requests]

    def cancel(self, identifiers: Collection[str]) -> None:
        self.cancelled += identifiers


def ask(jobs: Jobs, state: Path, nodes: Sequence[str], *command: str, seconds: float = 10.0) -> Any:
    return ask_by_jobs(cast("Scheduler", jobs), state, nodes, command, stdin=b"a question", timeout_s=seconds)


def test_each_node_answers_with_status_output_and_errors(tmp_path: Path) -> None:
    jobs = Jobs()
    answers = ask(jobs, tmp_path / "state", ["n1", "n2"], "sh", "-c", "cat; echo 'a word' >&2; exit 3")
    assert answers == dict.fromkeys(["n1", "n2"], CommandOutput(3, b"a question", b"a word\n"))
    assert [request.node for request in jobs.requests] == ["n1", "n2"]
    assert jobs.cancelled == []
    assert list((tmp_path / "state" / "ask").iterdir()) == []


def test_a_job_that_does_not_end_in_time_is_silence_and_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "START_S", 0.5)
    jobs = Jobs(busy=["n2"])
    answers = ask(jobs, tmp_path, ["n1", "n2"], "true", seconds=2.0)
    assert answers["n1"] is not None and answers["n1"].status == 0
    assert answers["n2"] is None
    assert jobs.cancelled == ["job-n2"]
    assert list((tmp_path / "ask").iterdir()) == []


class Refusing:
    """A head node whose nodes let nobody log in."""

    name = "head"
    nodes_share_python = False
    sees_state = True

    def ssh(self, words: Sequence[str], port: int | None = None) -> list[str]:
        script = "import sys; print('Permission denied (publickey).', file=sys.stderr); sys.exit(255)"
        return [sys.executable, "-c", script, *words]

    def listen(self) -> tuple[Listener, str]:
        raise NotImplementedError


SPEC = """\
nodes: {{compute: {{hosts: "n[1-3]"}}}}
filesystems: {{disk: {{type: local, path: /data}}}}
scheduler: {{type: slurm}}
state: {state}
"""


def test_nodes_that_let_nobody_log_in_are_asked_by_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = Jobs()
    up = {
        "n1": True,
        "n2": True,
        "n3": False,
    }
    states = [
        NodeState(
            name=name, up=is_up, state="idle", cores=1, memory_bytes=1, free_cores=1, free_memory_bytes=1
        )
        for name, is_up in up.items()
    ]
    monkeypatch.setattr(Grid, "states", states)
    monkeypatch.setattr(Grid, "scheduler", jobs)
    grid = Grid.open(parse_spec(SPEC.format(state=tmp_path / "state")))
    grid.__dict__["head"] = cast("HeadNode", Refusing())
    assert grid.ask(["n1", "n2", "n3"], [sys.executable, "-c", "pass"], by_jobs=False) == {}
    assert jobs.requests == []
    answers = grid.ask(["n1", "n2", "n3"], [sys.executable, "-c", "print(input())"], stdin=b"facts")
    assert {node: answer and answer.stdout for node, answer in answers.items()} == {
        "n1": b"facts\n",
        "n2": b"facts\n",
        "n3": None,
    }
