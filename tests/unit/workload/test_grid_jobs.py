"""The jobs of a run: whatever a scheduler says or not, each ends once and none is waited for in vain."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import ExitStatus, Finding, GridwrightError, environment_error, input_error
from gridwright.runs.workload_events import ChoreDone, WorkloadEvent
from gridwright.schedulers.job import Job, JobExplanation, JobRequest, JobState, NodeState
from gridwright.workload.exchange import EVENTS, RESULT, STARTED, ExchangeDirectory
from gridwright.workload.messages import JobStart
from gridwright.workload.on_grid import jobs as module
from gridwright.workload.on_grid.jobs import GridJob, GridJobs, SchedulerCalls

DONE = ChoreDone(exit=ExitStatus.DONE, removed=["x"])


class Scripted:
    """A scheduler whose jobs stand as a test says."""

    def __init__(self) -> None:
        self.known: dict[str, Job] = {}
        self.requests: list[JobRequest] = []
        self.calls: list[str] = []
        self.cancelled: set[str] = set()
        self.up = True
        self.fail: Callable[[str], None] = lambda _: None

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        self._call("submit")
        made = []
        for request in requests:
            self.requests.append(request)
            identifier = str(len(self.requests))
            self.known[identifier] = Job(id=identifier, name=request.name, state=JobState.WAITING)
            made.append(identifier)
        self.fail("submitted")
        return made

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        self._call("jobs")
        return [job for name, job in self.known.items() if identifiers is None or name in identifiers]

    def cancel(self, identifiers: Collection[str]) -> None:
        self._call("cancel")
        self.cancelled |= set(identifiers)

    def explain(self, identifier: str) -> JobExplanation:
        raise NotImplementedError

    def nodes(self) -> list[NodeState]:
        self._call("nodes")
        return [
            NodeState(
                name="n1", up=self.up, state="x", cores=1, memory_bytes=1, free_cores=1, free_memory_bytes=1
            )
        ]

    def _call(self, name: str) -> None:
        self.calls.append(name)
        self.fail(name)

    def set(self, identifier: str, state: JobState, **fields: Any) -> None:
        self.known[identifier] = replace(self.known[identifier], state=state, **fields)


class Bench:
    """A scripted scheduler, the jobs on it, and what was told."""

    def __init__(self, place: Path) -> None:
        self.scheduler = Scripted()
        self.findings: list[Finding] = []
        self.exchange = ExchangeDirectory.create(place)
        self.calls = SchedulerCalls(lambda: self.scheduler, self.findings.append, patience_s=0.5)
        self.jobs = GridJobs(self.exchange, self.calls, self.tell)
        self.ended: list[str] = []
        self.lost: list[tuple[str, str, bool]] = []

    def tell(self, event: WorkloadEvent) -> None:
        if isinstance(event, Finding):
            self.findings.append(event)

    def add(self, name: str, quiet_s: float = 100.0) -> GridJob[ChoreDone]:
        job: GridJob[ChoreDone] = GridJob(
            name,
            JobRequest(command=["true"], directory="/", environment={}),
            leaves=ChoreDone,
            quiet_s=quiet_s,
            begun=lambda _: None,
            ended=lambda job: self.ended.append(job.name),
            lost=lambda job, node, begun: self.lost.append((job.name, node, begun)),
        )
        self.jobs.add(job)
        return job

    def begin(self, job: GridJob[ChoreDone], node: str) -> None:
        self.exchange.append(job.name, STARTED, JobStart(node, 1.0, 7))

    def until(self, look: Callable[[], object], seconds: float = 5.0) -> None:
        deadline = time.monotonic() + seconds
        while not look():
            assert time.monotonic() < deadline, (self.ended, self.lost, self.scheduler.calls[-5:])
            self.jobs.turn()
            time.sleep(0.002)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(module, "_POLL_S", (0.01, 0.02))
    monkeypatch.setattr(module, "_VISIBLE_S", 0.05)
    monkeypatch.setattr("gridwright.workload.on_grid.jobs._RETRY_S", 0.01)
    return Bench(tmp_path)


def test_all_that_is_ready_is_handed_in_at_once_under_names_of_its_own(bench: Bench) -> None:
    jobs = [bench.add(f"{number:04d}") for number in range(50)]
    bench.until(lambda: all(job.id for job in jobs))
    assert bench.scheduler.calls.count("submit") == 1
    assert len({request.name for request in bench.scheduler.requests}) == 50
    assert all(bench.exchange.run_id in request.name for request in bench.scheduler.requests)


def test_a_result_ends_a_job_before_its_scheduler_knows(bench: Bench) -> None:
    job = bench.add("0001")
    bench.until(lambda: job.id)
    bench.exchange.write("0001", RESULT, DONE)
    bench.until(lambda: bench.ended)
    assert job.result == DONE
    assert bench.jobs.ended
    assert bench.exchange.names(RESULT) == set()


@pytest.mark.parametrize(
    ("state", "fields", "words"),
    [
        (JobState.OUT_OF_MEMORY, {"reason": "oom"}, "more memory than it may: oom"),
        (JobState.TIMED_OUT, {}, "at its time limit"),
        (JobState.CANCELLED, {"reason": "by root"}, "was cancelled: by root"),
        (JobState.FAILED, {"exit_status": 127}, "exit status 127"),
        (JobState.FAILED, {"signal": 9}, "signal 9"),
        (JobState.COMPLETED, {"exit_status": 0}, "without a result"),
    ],
)
def test_a_job_without_a_result_ends_with_the_reason_of_its_scheduler(
    bench: Bench, state: JobState, fields: dict[str, Any], words: str
) -> None:
    job = bench.add("0001")
    bench.until(lambda: job.id)
    bench.scheduler.set("1", state, **fields)
    bench.until(lambda: bench.ended)
    assert job.result is None
    assert words in job.reason


def test_a_result_of_another_release_is_named_with_its_job(bench: Bench) -> None:
    bench.add("0001")
    bench.until(lambda: bench.scheduler.known)
    bench.exchange.write("0001", RESULT, {"exit": 0, "removed": "x"})
    with pytest.raises(
        GridwrightError, match="the job 0001 left what is not as agreed: removed: it is no list"
    ):
        bench.until(lambda: bench.ended)


def test_an_event_of_another_release_is_named_with_its_job_and_an_unknown_kind_left_out(
    bench: Bench,
) -> None:
    bench.add("0001")
    bench.until(lambda: bench.scheduler.known)
    finding = {"event": "finding", "level": "info", "name": "seen", "text": "x", "remedy": "y"}
    bench.exchange.append("0001", EVENTS, {"event": "of the future"}, finding)
    bench.until(lambda: bench.findings)
    assert [each.name for each in bench.findings] == ["seen"]
    bench.exchange.append("0001", EVENTS, {"event": "ready"})
    with pytest.raises(GridwrightError, match="the job 0001 left what is not as agreed"):
        bench.until(lambda: bench.ended)


def test_a_result_that_is_seen_late_still_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_VISIBLE_S", 0.5)
    job = bench.add("0001")
    bench.until(lambda: job.id)
    bench.scheduler.set("1", JobState.COMPLETED, exit_status=0)
    bench.until(lambda: job.missing_since)
    bench.exchange.write("0001", RESULT, DONE)
    bench.until(lambda: bench.ended)
    assert job.result == DONE


def test_a_node_that_is_lost_is_counted_once_however_it_is_noticed(bench: Bench) -> None:
    job = bench.add("0001")
    bench.until(lambda: job.id)
    bench.begin(job, "n1")
    bench.scheduler.set("1", JobState.RUNNING, node="n1")
    bench.until(lambda: job.job and job.job.state == JobState.RUNNING and job.on)
    bench.begin(job, "n2")  # the new start is seen before the scheduler tells of it
    bench.until(lambda: bench.lost)
    bench.scheduler.set("1", JobState.RUNNING, node="n2", restarts=1)
    bench.until(lambda: job.job and job.job.restarts == 1)
    bench.scheduler.set("1", JobState.WAITING, node=None, restarts=2)
    bench.until(lambda: len(bench.lost) == 2)
    bench.scheduler.set("1", JobState.RUNNING, node="n3", restarts=2)
    bench.begin(job, "n3")
    bench.until(lambda: job.on == "n3")
    assert bench.lost == [("0001", "n1", True), ("0001", "n2", True)]
    assert (job.restarts, job.lost_on) == (2, ["n1", "n2"])


def test_a_job_that_was_lost_before_it_began_names_the_node_too(bench: Bench) -> None:
    job = bench.add("0001")
    bench.until(lambda: job.id)
    bench.scheduler.set("1", JobState.RUNNING, node="n1")
    bench.until(lambda: job.job and job.job.node)
    bench.scheduler.set("1", JobState.WAITING, node=None, restarts=1)
    bench.until(lambda: bench.lost)
    assert bench.lost == [("0001", "n1", False)]


def test_a_job_that_is_given_up_with_its_node_is_handed_in_three_times(bench: Bench) -> None:
    job = bench.add("0001")
    for number in (1, 2, 3):
        bench.until(lambda number=number: job.id == str(number))  # type: ignore[misc]
        bench.scheduler.set(str(number), JobState.NODE_FAILED, node=f"n{number}")
        bench.until(lambda number=number: len(job.lost_on) == number)  # type: ignore[misc]
    bench.until(lambda: bench.ended)
    assert job.node_lost
    assert job.lost_on == ["n1", "n2", "n3"]
    assert len({request.name for request in bench.scheduler.requests}) == 3


def test_a_submission_without_an_answer_is_looked_for_before_it_is_repeated(bench: Bench) -> None:
    first = [True]

    def fail(call: str) -> None:
        if call == "submitted" and first.pop() if first else False:
            raise environment_error("cut")

    bench.scheduler.fail = fail
    job = bench.add("0001")
    bench.until(lambda: job.id)
    assert len(bench.scheduler.requests) == 1
    silent, back = bench.findings
    assert {silent.name, back.name} == {"workload-scheduler-silent"}
    assert (silent.level, back.level) == ("warning", "info")
    assert "its service is silent: cut" in silent.text
    assert "answers again" in back.text


def test_a_submission_that_did_not_arrive_is_repeated(bench: Bench) -> None:
    first = [True]

    def fail(call: str) -> None:
        if call == "submit" and first and first.pop():
            raise environment_error("cut")

    bench.scheduler.fail = fail
    job = bench.add("0001")
    bench.until(lambda: job.id)
    assert len(bench.scheduler.requests) == 1
    assert job.submissions == 1


@pytest.mark.parametrize("error", [environment_error("no answer"), input_error("no node has 1000 cores")])
def test_a_scheduler_that_stays_silent_is_given_up_and_a_wrong_request_is_not_repeated(
    bench: Bench, error: GridwrightError
) -> None:
    def fail(_: str) -> None:
        raise error

    bench.scheduler.fail = fail
    bench.add("0001")
    with pytest.raises(GridwrightError, match=str(error).partition("\n")[0]):
        bench.until(lambda: False, seconds=3)
    assert bench.scheduler.calls.count("submit") == 1, "nothing is handed in twice"


def test_a_node_that_hangs_is_not_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CANCELLED_S", 0.1)
    job = bench.add("0001", quiet_s=0.1)
    bench.until(lambda: job.id)
    bench.begin(job, "n1")
    bench.scheduler.set("1", JobState.RUNNING, node="n1")
    bench.until(lambda: bench.ended)
    assert bench.scheduler.cancelled == {"1"}
    assert job.reason.startswith("node n1 does not answer")


def test_a_job_that_waits_long_and_then_starts_does_not_hang(bench: Bench) -> None:
    job = bench.add("0001", quiet_s=0.2)
    bench.until(lambda: job.id)
    deadline = time.monotonic() + 0.4
    bench.until(lambda: time.monotonic() > deadline)
    bench.scheduler.set("1", JobState.RUNNING, node="n1")
    bench.until(lambda: job.job and job.job.state == JobState.RUNNING)
    bench.begin(job, "n1")
    bench.until(lambda: job.on)
    deadline = time.monotonic() + 0.1
    bench.until(lambda: time.monotonic() > deadline)
    assert bench.scheduler.cancelled == set()


def test_a_job_that_its_scheduler_forgot_is_not_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UNKNOWN_S", 0.1)
    job = bench.add("0001")
    bench.until(lambda: job.id)
    bench.scheduler.known.clear()
    bench.until(lambda: bench.ended)
    assert "no longer knows" in job.reason


def test_a_grid_without_nodes_is_given_up_and_a_busy_one_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAITING_S", 0.05)
    monkeypatch.setattr(module, "_NO_NODES_S", 0.2)
    job = bench.add("0001")
    bench.until(lambda: job.id)
    bench.scheduler.set("1", JobState.WAITING, reason="Resources")
    bench.until(lambda: bench.findings)
    assert bench.findings[0].name == "workload-waiting"
    assert "Resources" in bench.findings[0].text
    assert not bench.jobs.gone
    bench.scheduler.up = False
    bench.until(lambda: bench.jobs.gone)


def test_everything_is_cancelled_in_one_call_and_what_was_not_handed_in_is_forgotten(bench: Bench) -> None:
    jobs = [bench.add(f"{number:04d}") for number in range(4)]
    bench.until(lambda: all(job.id for job in jobs))
    late = bench.add("late")
    bench.jobs.cancel()
    bench.until(lambda: bench.scheduler.cancelled)
    assert bench.scheduler.cancelled == {"1", "2", "3", "4"}
    assert bench.scheduler.calls.count("cancel") == 1
    bench.until(lambda: "late" in bench.ended)
    assert late.id is None
    for identifier in "1234":
        bench.scheduler.set(identifier, JobState.CANCELLED)
    bench.until(lambda: bench.jobs.ended)
    assert {job.reason for job in jobs} == {"interrupted"}


def test_a_job_that_was_only_cut_off_is_not_run_twice_to_its_end(bench: Bench) -> None:
    job = bench.add("0001")
    bench.until(lambda: job.id)
    bench.begin(job, "n1")
    bench.scheduler.set("1", JobState.RUNNING, node="n1")
    bench.until(lambda: job.on)
    bench.begin(job, "n2")
    bench.until(lambda: bench.lost)
    bench.exchange.write("0001", RESULT, DONE)  # of n1, which had been cut off
    bench.until(lambda: bench.scheduler.cancelled)
    assert bench.scheduler.cancelled == {"1"}
    assert bench.ended == ["0001"]
