"""How workers are started: what is handed to the scheduler and to ssh, and how their ends are told."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error
from gridwright.grid import launching
from gridwright.grid.launching import SchedulerLauncher, SshLauncher
from gridwright.schedulers.job import Job, JobExplanation, JobRequest, JobState, NodeState
from gridwright.services.connections import Listener
from tests.support.command import wait_until


class Queue:
    """A scheduler whose jobs stand as the test says."""

    def __init__(self) -> None:
        self.requests: list[JobRequest] = []
        self.standing: dict[str, Job] = {}
        self.cancelled: list[str] = []
        self.away = False

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        self.requests += requests
        identifiers = [str(7 + number) for number in range(len(requests))]
        for identifier in identifiers:
            self.standing[identifier] = Job(id=identifier, name="x", state=JobState.RUNNING)
        return identifiers

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        if self.away:
            raise environment_error("slurmctld does not answer")
        return [job for name, job in self.standing.items() if identifiers is None or name in identifiers]

    def cancel(self, identifiers: Collection[str]) -> None:
        self.cancelled += identifiers

    def explain(self, identifier: str) -> JobExplanation:
        raise NotImplementedError

    def nodes(self) -> list[NodeState]:
        return []

    def now(self, identifier: str, **values: object) -> None:
        self.standing[identifier] = replace(self.standing[identifier], **values)  # type: ignore[arg-type]


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def launcher(queue: Queue, tmp_path: Path) -> SchedulerLauncher:
    made = SchedulerLauncher(queue, directory="/", environment={"PATH": "/bin"}, cores={"n1": 16})
    made.start({"n1": ["python", "--node", "n1"], "n2": ["python", "--node", "n2"]}, tmp_path)
    return made


def test_each_node_gets_one_job_of_its_own(queue: Queue, launcher: SchedulerLauncher) -> None:
    first, second = queue.requests
    assert (first.node, first.cores, first.exclusive) == ("n1", 16, True)
    assert (second.node, second.cores, list(second.command)) == ("n2", 1, ["python", "--node", "n2"])
    assert first.restart is False, "a worker that died has nothing to come back to"
    assert launcher.ended() == {}


def test_an_end_is_told_in_words(queue: Queue, launcher: SchedulerLauncher) -> None:
    queue.now("7", state=JobState.NODE_FAILED, reason="Not responding", log="/state/7.log")
    queue.now("8", state=JobState.FAILED, exit_status=3)
    assert launcher.ended() == {
        "n1": "its job 7 node failed (Not responding); see /state/7.log",
        "n2": "its job 8 failed with exit status 3",
    }


def test_a_job_that_waits_says_why(queue: Queue, launcher: SchedulerLauncher) -> None:
    queue.now("8", state=JobState.WAITING, reason="Resources")
    assert launcher.waiting() == {"n2": "its job 8 waits: Resources"}


def test_what_does_not_end_by_itself_is_cancelled(
    queue: Queue, launcher: SchedulerLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "END_S", 0.3)
    queue.now("7", state=JobState.COMPLETED)
    launcher.stop()
    assert queue.cancelled == ["8"]


def test_a_scheduler_that_is_away_does_not_keep_a_test_from_ending(
    queue: Queue, launcher: SchedulerLauncher
) -> None:
    queue.away = True
    began = time.monotonic()
    launcher.stop()
    assert time.monotonic() - began < launching.END_S / 2


class FakeHead:
    """A head node whose ssh is a program of the test's."""

    name = "head"
    nodes_share_python = True
    sees_state = True

    def __init__(self, ssh: Sequence[str]) -> None:
        self._ssh = ssh
        self.asked: list[list[str]] = []
        self.ports: list[int | None] = []

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        raise NotImplementedError

    def argv(self, command: Sequence[str]) -> list[str]:
        raise NotImplementedError

    def ssh(self, words: Sequence[str], port: int | None = None) -> list[str]:
        self.asked.append(list(words))
        self.ports.append(port)
        return [*self._ssh, *words]

    def listen(self) -> tuple[Listener, str]:
        raise NotImplementedError


def test_every_word_reaches_the_other_side_as_it_is(tmp_path: Path) -> None:
    head = FakeHead([sys.executable, "-c", "import time; time.sleep(60)"])
    launcher = SshLauncher(head)
    command = ["python", "-m", "x", "--credentials", "/a b/$(reboot);'\"*"]
    launcher.start({"n1": command}, tmp_path)
    try:
        (asked,) = head.asked
        assert asked[-2] == "n1"
        assert asked[-3] == "--", "a node's name is never an option"
        assert shlex.split(asked[-1]) == command
        assert launcher.ended() == {}
        assert launcher.waiting() == {}
    finally:
        for process in launcher._running.values():
            process.kill()
        launcher.stop()


def test_the_last_words_of_an_ssh_are_told(tmp_path: Path) -> None:
    script = "import sys; print('ssh: connect to host n1: No route to host', file=sys.stderr); sys.exit(255)"
    launcher = SshLauncher(FakeHead([sys.executable, "-c", script]))
    launcher.start({"n1": ["x"]}, tmp_path)
    ended = wait_until(lambda: launcher.ended() or None, seconds=10, what="an end", last=launcher.ended)
    assert ended == {"n1": "its ssh ended with exit status 255: ssh: connect to host n1: No route to host"}


def test_what_a_program_reads_and_the_way_back_go_with_its_ssh(tmp_path: Path) -> None:
    head = FakeHead([sys.executable, "-c", "import sys; print(sys.stdin.read(), end='')"])
    launcher = SshLauncher(head, {"n1": "/part/bin/python"}, lambda: 40123)
    launcher.start({"n1": [sys.executable, "-m", "x"]}, tmp_path, {"n1": b"a secret"})
    wait_until(lambda: launcher.ended() or None, seconds=10, what="an end", last=launcher.ended)
    assert (tmp_path / "iotest-n1.log").read_text() == "a secret"
    assert head.ports == [40123]
    assert shlex.split(head.asked[0][-1]) == ["/part/bin/python", "-m", "x"]


def test_an_ssh_that_is_not_there_is_told(tmp_path: Path) -> None:
    launcher = SshLauncher(FakeHead(["/nowhere/ssh"]))
    launcher.start({"n1": ["x"]}, tmp_path)
    assert launcher.ended() == {"n1": "ssh cannot be started: No such file or directory"}
    launcher.stop()
