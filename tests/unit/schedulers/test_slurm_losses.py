"""What becomes of jobs when slurmctld is killed, forgets, or answers late: none is lost, none runs twice."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.commands import CommandOutput
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.schedulers.job import Job, JobOptions, JobRequest, JobState
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.scheduler import SlurmScheduler
from gridwright.spec.load import parse_spec
from tests.support.examples import examples
from tests.support.pretend_slurm import PretendSlurm

SPEC = parse_spec("""
provider: local
filesystems: {disk: {type: local, path: /data}}
scheduler: {type: slurm}
""")


class Grid:
    """A scheduler on a Slurm in memory, and a clock that tests put forward."""

    def __init__(self, state: Path, monkeypatch: pytest.MonkeyPatch, *, accounting: bool = True) -> None:
        self.clock = {"now": 1_800_000_000.0}
        monkeypatch.setattr(time, "time", lambda: self.clock["now"])
        monkeypatch.setattr(time, "monotonic", lambda: self.clock["now"])
        monkeypatch.setattr(time, "sleep", self.later)
        self.state = state
        self.slurm = PretendSlurm(self.clock, accounting=accounting)

    def later(self, seconds: float) -> None:
        self.clock["now"] += seconds

    @property
    def scheduler(self) -> SlurmScheduler:
        """Another process each time: nothing is kept but what is on disk."""
        return SlurmScheduler(SPEC, self.slurm, self.state)

    def submit(self, *requests: JobRequest) -> list[str]:
        return self.scheduler.submit(requests or [request()])

    def job(self, identifier: str) -> Job:
        (found,) = self.scheduler.jobs([identifier])
        return found

    def begin(self) -> None:
        for job in self.slurm.now.jobs:
            if job.state == "PENDING" and not job.held:
                self.slurm.begin(job)

    def end(self, status: int = 0) -> None:
        for job in self.slurm.now.jobs:
            if job.state == "RUNNING":
                self.slurm.end(job, status)


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grid:
    return Grid(tmp_path, monkeypatch)


def request(**values: Any) -> JobRequest:
    return JobRequest(**{"command": ["true"], "directory": "/", "environment": {"A": "b"}} | values)


def test_a_job_that_never_began_is_handed_in_again_and_keeps_its_identifier(grid: Grid) -> None:
    (identifier,) = grid.submit()
    grid.slurm.kill()
    assert grid.job(identifier).state is JobState.WAITING
    grid.begin()
    grid.end(3)
    job = grid.job(identifier)
    assert (job.state, job.exit_status, job.restarts) == (JobState.FAILED, 3, 0)
    assert list(grid.slurm.running.values()) == [1]


def test_a_lost_job_that_had_begun_and_ends_by_itself_has_its_own_exit_status(grid: Grid) -> None:
    (identifier,) = grid.submit(request(restart=True))
    grid.begin()
    grid.slurm.kill()
    assert grid.job(identifier).state is JobState.RUNNING
    grid.slurm.end_orphans(killed=False)
    assert grid.job(identifier).state is JobState.COMPLETED
    assert list(grid.slurm.running.values()) == [1], "it was restarted although it had completed"


@pytest.mark.parametrize("restart", [False, True])
def test_a_lost_job_that_slurmd_killed_starts_again_only_where_it_may(grid: Grid, restart: bool) -> None:
    (identifier,) = grid.submit(request(restart=restart))
    grid.begin()
    grid.slurm.kill()
    grid.job(identifier)
    grid.slurm.end_orphans(killed=True)
    assert grid.job(identifier).state is JobState.RUNNING, "whether slurmd has killed it is not known yet"
    grid.later(60)
    job = grid.job(identifier)
    if not restart:
        assert job.state is JobState.NODE_FAILED
        assert job.reason is not None
        assert "slurmctld was killed" in job.reason
        return
    assert job.state is JobState.WAITING
    grid.begin()
    grid.end()
    job = grid.job(identifier)
    assert (job.state, job.restarts) == (JobState.COMPLETED, 1)
    assert not grid.slurm.overlapped


def test_numbers_of_lost_jobs_that_had_begun_are_not_given_to_new_ones(grid: Grid) -> None:
    """A slurmd that is to start a number which it knows is drained."""
    first, second = grid.submit(request(), request(array=[1, 2, 3]))
    grid.begin()
    grid.slurm.kill()
    grid.job(first)
    (third,) = grid.submit()
    assert int(third) > int(second) + 3


def test_a_number_that_slurm_would_use_twice_is_used_up(grid: Grid) -> None:
    """The node would refuse it."""
    (first,) = grid.submit()
    grid.begin()
    grid.end()
    assert grid.job(first).state is JobState.COMPLETED
    grid.slurm.kill()
    (second,) = grid.submit()
    assert first != second
    (waiting,) = [job for job in grid.slurm.now.jobs if job.state == "PENDING"]
    assert waiting.name.startswith("true~")
    assert not [job for job in grid.slurm.of(first) if job.state == "PENDING"]
    grid.begin()
    grid.end(7)
    assert grid.job(first).exit_status == 0
    assert grid.job(second).exit_status == 7


def test_a_submission_without_an_answer_is_found_by_its_token(grid: Grid) -> None:
    grid.slurm.lose_answers = 1
    (identifier,) = grid.submit()
    grid.begin()
    grid.end()
    assert grid.job(identifier).state is JobState.COMPLETED
    assert len(grid.slurm.now.jobs) == 1


def test_a_submission_that_arrives_late_does_not_run_beside_the_one_that_replaced_it(grid: Grid) -> None:
    grid.slurm.delay_requests = 1
    (identifier,) = grid.submit()
    grid.slurm.deliver()
    assert len(grid.slurm.now.jobs) == 2
    grid.begin()
    grid.end()
    assert grid.job(identifier).state is JobState.COMPLETED
    assert list(grid.slurm.running.values()) == [1]


def test_what_nobody_took_is_handed_in_by_the_next_command(grid: Grid) -> None:
    grid.slurm.up = False
    with pytest.raises(GridwrightError) as caught:
        SlurmScheduler(SPEC, grid.slurm, grid.state).submit([request()])
    assert caught.value.status is ExitStatus.ENVIRONMENT
    grid.slurm.up = True
    assert grid.scheduler.jobs() == [], "facts of Slurm were not there, and nothing was submitted"

    grid.submit()
    grid.slurm.up = False
    with pytest.raises(GridwrightError) as caught:
        grid.submit()
    grid.slurm.up = True
    assert len(grid.scheduler.jobs()) == 1


def test_a_controller_that_goes_down_between_query_and_submission_keeps_the_job(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid.submit()
    accept = grid.slurm._accept

    def down(command: Sequence[str]) -> int:
        grid.slurm.up = False
        raise GridwrightError(*environment_problem())

    monkeypatch.setattr(grid.slurm, "_accept", down)
    with pytest.raises(GridwrightError) as caught:
        grid.submit(request(name="kept"))
    assert caught.value.status is ExitStatus.ENVIRONMENT
    monkeypatch.setattr(grid.slurm, "_accept", accept)
    grid.slurm.up = True
    grid.scheduler.jobs()
    assert [job.name for job in grid.scheduler.jobs()] == ["true", "kept"]


def environment_problem() -> list[Any]:
    from gridwright.errors import Problem

    return [Problem(what="sbatch has not answered for 20 s")]


def test_a_process_that_was_killed_before_sbatch_leaves_its_job_to_the_next(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: Any) -> int:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(grid.slurm, "_sbatch", killed)
        with pytest.raises(Killed):
            grid.submit()
    assert grid.scheduler.jobs() == [], "its process lives, as far as anybody knows, and hands it in"
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    assert grid.scheduler.jobs() == [], "it may live on its host"
    grid.later(3600)
    assert [job.state for job in grid.scheduler.jobs()] == [JobState.WAITING]
    assert len(grid.slurm.now.jobs) == 1


def test_a_submission_that_its_user_interrupts_is_taken_back(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, count = grid.slurm._accept, iter(range(9))

    def interrupted(command: Sequence[str]) -> int:
        if next(count) == 1:
            raise KeyboardInterrupt
        return accept(command)

    monkeypatch.setattr(grid.slurm, "_accept", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grid.submit(request(), request(), request())
    assert grid.scheduler.jobs() == []
    assert [job.state for job in grid.slurm.now.jobs] == ["CANCELLED"]


def test_a_cancellation_that_slurmctld_forgot_is_repeated(grid: Grid) -> None:
    (identifier,) = grid.submit()
    grid.begin()
    grid.slurm.save()
    grid.scheduler.cancel([identifier])
    grid.slurm.kill()
    grid.slurm.alive.clear()
    grid.job(identifier)
    assert grid.job(identifier).state is JobState.CANCELLED


def test_an_element_that_is_cancelled_while_it_waits_is_cancelled_although_slurm_keeps_nothing_of_it(
    grid: Grid,
) -> None:
    (array,) = grid.submit(request(array=[1, 2, 3]))
    grid.scheduler.cancel([f"{array}_2"])
    grid.slurm.run(["scancel", "-Q", f"{array}_3"])
    states = [(job.state, job.reason) for job in grid.scheduler.jobs([array])]
    assert states == [
        (JobState.WAITING, "jobs with a higher priority come first"),
        (JobState.CANCELLED, "its user cancelled it"),
        (JobState.CANCELLED, "it was cancelled in Slurm before it began"),
    ]


def test_a_job_that_has_ended_stays_so_when_slurmctld_brings_it_back(grid: Grid) -> None:
    (identifier,) = grid.submit()
    grid.slurm.save()
    grid.begin()
    grid.end(5)
    assert grid.job(identifier).exit_status == 5
    grid.slurm.kill()
    grid.later(1)
    grid.submit()
    assert grid.job(identifier).exit_status == 5
    grid.begin()
    assert grid.slurm.running[next(iter(grid.slurm.running))] == 1


def test_a_job_that_slurmctld_starts_again_while_it_runs_does_not_run_twice(grid: Grid) -> None:
    """It had saved the job before it started it."""
    (identifier,) = grid.submit()
    grid.slurm.save()
    grid.begin()
    grid.slurm.kill()
    grid.begin()
    assert not grid.slurm.overlapped
    assert not grid.job(identifier).state.final
    grid.slurm.end_orphans(killed=False)
    assert grid.job(identifier).state is JobState.COMPLETED
    assert list(grid.slurm.running.values()) == [1]


def test_a_job_that_slurmctld_starts_again_after_it_has_ended_keeps_its_end(grid: Grid) -> None:
    (identifier,) = grid.submit()
    grid.slurm.save()
    grid.begin()
    grid.end(4)
    grid.slurm.kill()
    grid.begin()
    assert grid.job(identifier).exit_status == 4
    assert list(grid.slurm.running.values()) == [1]


def test_a_job_that_slurmctld_misses_on_its_node_has_ended_as_its_script_says(grid: Grid) -> None:
    (identifier,) = grid.submit()
    grid.begin()
    grid.slurm.save()
    (job,) = grid.slurm.now.jobs
    grid.slurm.end(job, 6)
    grid.slurm.kill()
    (job,) = grid.slurm.now.jobs
    grid.slurm._stop(job, "NODE_FAIL", 0)
    assert grid.job(identifier).state is JobState.FAILED
    assert grid.job(identifier).exit_status == 6


def test_an_end_that_the_queue_has_forgotten_comes_from_the_accounting(grid: Grid) -> None:
    one, array = grid.submit(request(), request(array=[4, 5]))
    grid.begin()
    grid.end(9)
    grid.slurm.forget_ended()
    grid.later(4000)
    assert [(job.id, job.exit_status) for job in grid.scheduler.jobs()] == [
        (one, 9),
        (f"{array}_4", 9),
        (f"{array}_5", 9),
    ]


def test_without_accounting_the_script_tells_how_a_job_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = Grid(tmp_path, monkeypatch, accounting=False)
    (identifier,) = grid.submit()
    grid.begin()
    grid.end(137)
    grid.slurm.forget_ended()
    grid.later(4000)
    job = grid.job(identifier)
    assert (job.state, job.exit_status, job.signal) == (JobState.FAILED, None, 9)


def test_without_accounting_a_job_that_left_no_trace_was_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = Grid(tmp_path, monkeypatch, accounting=False)
    (identifier,) = grid.submit()
    grid.slurm.now.jobs.clear()
    grid.later(4000)
    job = grid.job(identifier)
    assert job.state is JobState.CANCELLED
    assert grid.slurm.now.jobs == []


def test_after_a_job_that_failed_a_dependent_one_is_cancelled_although_slurm_has_forgotten_it(
    grid: Grid,
) -> None:
    """Slurm takes a dependency on a job that it does not know for satisfied."""
    (first,) = grid.submit()
    grid.begin()
    grid.end(1)
    grid.slurm.forget_ended()
    grid.later(4000)
    (second,) = grid.submit(request(after=[first]))
    grid.begin()
    job = grid.job(second)
    assert job.state is JobState.CANCELLED
    assert job.reason == f"job {first}, which it waited for, did not complete"
    assert len(grid.slurm.running) == 1


def test_the_record_keeps_no_environment_of_jobs_that_have_ended(grid: Grid) -> None:
    (identifier,) = grid.submit()
    path = next(grid.state.glob("slurm/*/slurm.sqlite"))
    assert path.stat().st_mode & 0o777 == 0o600
    with JobRecord(path) as record:
        assert record.by_identifier(identifier).request.environment == {"A": "b"}  # type: ignore[union-attr]
    grid.begin()
    grid.end()
    grid.job(identifier)
    with JobRecord(path) as record:
        assert record.by_identifier(identifier).request.environment == {}  # type: ignore[union-attr]


def wait(grid: Grid) -> None:
    """Long enough for nodes to register with a new slurmctld, which kills what it does not know."""
    grid.later(40)
    grid.slurm.end_orphans(killed=True)


def forget(grid: Grid) -> None:
    grid.slurm.forget_ended()
    grid.later(4000)
    grid.slurm.end_orphans(killed=True)


STEPS: dict[str, Callable[[Grid], object]] = {
    "submit": lambda grid: grid.submit(),
    "array": lambda grid: grid.submit(request(array=[1, 2])),
    "restart": lambda grid: grid.submit(request(restart=True)),
    "begin": Grid.begin,
    "end": Grid.end,
    "save": lambda grid: grid.slurm.save(),
    "kill": lambda grid: grid.slurm.kill(),
    "look": lambda grid: grid.scheduler.jobs(),
    "wait": wait,
    "orphans are killed": lambda grid: grid.slurm.end_orphans(killed=True),
    "orphans end": lambda grid: grid.slurm.end_orphans(killed=False),
    "lose answer": lambda grid: setattr(grid.slurm, "lose_answers", 1),
    "late": lambda grid: setattr(grid.slurm, "delay_requests", 1),
    "deliver": lambda grid: grid.slurm.deliver(),
    "forget": forget,
}


@pytest.fixture
def directories(tmp_path: Path) -> Iterator[Path]:
    return (tmp_path / str(number) for number in range(100_000))


@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=25))
def test_every_job_ends_exactly_once_whatever_happens(
    directories: Iterator[Path], monkeypatch: pytest.MonkeyPatch, steps: list[str]
) -> None:
    with monkeypatch.context() as patched:
        grid = Grid(next(directories), patched)
        ended: dict[str, Job] = {}
        for step in steps:
            STEPS[step](grid)
            if step == "look":
                for job in grid.scheduler.jobs():
                    if job.id in ended:
                        assert job == ended[job.id], "what has ended changes no more"
                    elif job.state.final:
                        ended[job.id] = job
        for _ in range(6):
            grid.slurm.deliver()
            grid.scheduler.jobs()
            grid.begin()
            grid.slurm.end_orphans(killed=True)
            grid.end()
            grid.later(60)
        jobs = grid.scheduler.jobs()
        submitted = steps.count("submit") + 2 * steps.count("array") + steps.count("restart")
        assert len(jobs) == submitted
        assert {job.state.final for job in jobs} <= {True}, [job.reason for job in jobs]
        assert len({job.id for job in jobs}) == submitted
        assert not grid.slurm.overlapped
        if "kill" not in steps or "restart" not in steps:
            assert set(grid.slurm.running.values()) <= {1}


def sent(grid: Grid) -> list[list[str]]:
    """The calls of sbatch that submitted something."""
    return [[*each] for each in grid.slurm.commands if each[0] == "sbatch" and "--test-only" not in each]


def dependencies(grid: Grid) -> list[str | None]:
    return [
        next((word.partition("=")[2] for word in each if word.startswith("--dependency=")), None)
        for each in sent(grid)
    ]


def test_jobs_of_one_call_wait_for_each_other_by_slurms_numbers(grid: Grid) -> None:
    first, second, third = grid.submit(
        request(name="a", array=[1, 2]),
        request(name="b", array=[1, 2], after=["each:#0"]),
        request(name="c", after=["any:#0", "not-ok:#1"]),
    )
    assert dependencies(grid) == [None, f"aftercorr:{first}", f"afterany:{first},afternotok:{second}"]
    explained = grid.scheduler.explain(third).candidates[0].requirements
    named = [each.name for each in explained if each.name.startswith("after")]
    assert named == [f"after any:{first}", f"after not-ok:{second}"]


def test_a_call_of_which_slurm_would_refuse_a_part_submits_nothing(grid: Grid) -> None:
    with pytest.raises(GridwrightError) as refused:
        grid.submit(request(), request(after=["#0"], options=JobOptions(qos="nope")))
    assert refused.value.status is ExitStatus.INPUT
    assert "quality of service" in str(refused.value)
    assert sent(grid) == []
    assert grid.scheduler.jobs() == []


def test_a_job_that_was_lost_waits_again_for_the_jobs_of_its_call(grid: Grid) -> None:
    first, second = grid.submit(request(name="a"), request(name="b", after=["any:#0"]))
    grid.slurm.kill()
    assert [job.state for job in grid.scheduler.jobs([first, second])] == [JobState.WAITING] * 2
    (number,) = [job.number for job in grid.slurm.now.jobs if job.name.startswith("a~")]
    assert dependencies(grid)[-1] == f"afterany:{number}"


@pytest.mark.parametrize(
    ("kind", "status", "runs"),
    [("any", 0, True), ("any", 3, True), ("not-ok", 3, True), ("not-ok", 0, False), ("ok", 3, False)],
)
def test_a_job_that_has_ended_is_judged_by_our_record(grid: Grid, kind: str, status: int, runs: bool) -> None:
    (first,) = grid.submit()
    grid.begin()
    grid.end(status)
    assert grid.job(first).state.final
    grid.slurm.forget_ended()
    (second,) = grid.submit(request(after=[f"{kind}:{first}"]))
    assert dependencies(grid) == [None, None], "Slurm takes a job that it has forgotten for completed"
    job = grid.job(second)
    if runs:
        assert job.state is JobState.WAITING
        return
    assert job.state is JobState.CANCELLED
    why = "after whose failure it was to start, completed" if kind == "not-ok" else "did not complete"
    assert f"job {first}, " in str(job.reason) and why in str(job.reason)


def test_an_element_whose_counterpart_has_failed_is_cancelled_and_the_others_go_on(grid: Grid) -> None:
    (first,) = grid.submit(request(array=[1, 2, 3]))
    grid.begin()
    for job in grid.slurm.now.jobs:
        if job.index in (1, 2):
            grid.slurm.end(job, job.index - 1)
    assert [job.state.final for job in grid.scheduler.jobs([first])] == [True, True, False]
    grid.slurm.forget_ended()
    (second,) = grid.submit(request(array=[1, 2, 3], after=[f"each:{first}"]))
    assert dependencies(grid)[-1] == f"aftercorr:{first}"
    states = {job.id: job for job in grid.scheduler.jobs([second])}
    assert states[f"{second}_2"].state is JobState.CANCELLED
    assert f"job {first}_2, which it waited for" in str(states[f"{second}_2"].reason)
    assert not states[f"{second}_1"].state.final
    assert not states[f"{second}_3"].state.final


def test_a_directory_that_the_head_node_does_not_see_is_refused(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = grid.slurm.run

    def look(command: Sequence[str], **values: Any) -> Any:
        if command[0] == "/bin/sh" and any(word == "d/laptop" for word in command):
            return CommandOutput(0, b"d/laptop\0w/nowhere\0", b"")
        return run(command, **values)

    monkeypatch.setattr(grid.slurm, "run", look)
    with pytest.raises(GridwrightError) as refused:
        grid.submit(request(directory="/laptop", options=JobOptions(stdout="/nowhere/out")))
    assert {(each.where, each.what.partition(":")[0]) for each in refused.value.problems} == {
        ("directory", "nodes do not see the directory /laptop"),
        ("stdout", "nodes cannot write into /nowhere"),
    }
    assert sent(grid) == []


@pytest.mark.parametrize(
    "said", ["Required node not available (down, drained or reserved)", "Requested nodes are busy"]
)
def test_jobs_that_would_only_wait_for_nodes_are_submitted(
    grid: Grid, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    run = grid.slurm.run

    def try_out(command: Sequence[str], **values: Any) -> Any:
        if "--test-only" in command:
            return CommandOutput(1, b"", f"allocation failure: {said}\n".encode())
        return run(command, **values)

    monkeypatch.setattr(grid.slurm, "run", try_out)
    grid.submit(request(), request(after=["#0"]))
    assert len(sent(grid)) == 2


def test_jobs_of_a_call_that_slurmctld_did_not_take_are_handed_in_later_and_wait_as_they_should(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = grid.slurm.run

    def once(command: Sequence[str], **values: Any) -> Any:
        if command[0] == "sbatch" and "--test-only" not in command and sent(grid):
            grid.slurm.up = False
        return run(command, **values)

    monkeypatch.setattr(grid.slurm, "run", once)
    with pytest.raises(GridwrightError) as away:
        grid.submit(request(name="a"), request(name="b", after=["any:#0"]), request(name="c", after=["#1"]))
    assert away.value.status is ExitStatus.ENVIRONMENT
    monkeypatch.setattr(grid.slurm, "run", run)
    grid.slurm.up = True
    for _ in range(3):
        jobs = grid.scheduler.jobs()
    assert [job.name for job in jobs] == ["a", "b", "c"]
    numbers = {job.name[0]: job.number for job in grid.slurm.now.jobs}
    assert sorted(numbers) == ["a", "b", "c"]
    assert dependencies(grid)[-2:] == [f"afterany:{numbers['a']}", f"afterok:{numbers['b']}"]
