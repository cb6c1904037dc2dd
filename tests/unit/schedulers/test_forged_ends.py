"""Ends of alice's jobs that mallory writes, in names of its own jobs: accounting shows names as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gridwright.schedulers.grid_engine.accounting import row_of
from gridwright.schedulers.job import JobState
from gridwright.schedulers.slurm.accounting import believed_row, parse_completion
from gridwright.schedulers.slurm.usage import parse_completion_usage
from gridwright.state_parts import this_user
from tests.support.pretend_slurm import PretendJob
from tests.unit.schedulers.test_slurm_losses import Grid, request

TAG = "true~0123456789abcdef.0"


def line(
    *, job: int = 7, user: str = "alice(2001)", name: str = TAG, state: str = "COMPLETED", code: str = "0:0"
) -> str:
    """A line as Slurm 22.05 writes it."""
    return (
        f"JobId={job} UserId={user} GroupId={user} Name={name} JobState={state} Partition=batch TimeLimit=1"
        " StartTime=2026-11-28T18:28:17 EndTime=2026-11-28T18:28:18 NodeList=n1 NodeCnt=1 ProcCnt=1"
        " WorkDir=/x ReservationName= Tres=cpu=1 Account= QOS= WcKey= Cluster=c"
        " SubmitTime=2026-11-28T18:28:16"
        f" EligibleTime=2026-11-28T18:28:16 DerivedExitCode=0:0 ExitCode={code} "
    )


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grid:
    return Grid(tmp_path, monkeypatch)


def forge(job: PretendJob, state: str, code: str) -> list[str]:
    """What mallory can put into the file: names with its tag, with fields, with whole lines of hers."""
    user = f"root({os.geteuid()})"
    whole = line(job=job.number, user=user, name=job.name, state=state, code=code)
    names = [
        job.name,
        f"x UserId={user} Name={job.name}",
        f"{job.name} JobState={state}",
        f"x\n{whole}",
        f"x JobState=COMPLETED\n{whole}\nJobId=99 UserId=mallory(2002) GroupId=mallory(2002) Name=y",
    ]
    text = "".join(
        line(job=99, user="mallory(2002)", name=name, state=state, code=code) + "\n" for name in names
    )
    return [f"{each}\n" for each in text.splitlines()]


@pytest.mark.parametrize(("state", "code"), [("COMPLETED", "0:0"), ("FAILED", "3:0")])
def test_a_job_that_was_killed_did_not_end_as_a_name_of_mallorys_says(
    grid: Grid, state: str, code: str
) -> None:
    (identifier,) = grid.submit()
    grid.begin()
    (job,) = grid.slurm.now.jobs
    grid.slurm._stop(job, "TIMEOUT", 0)
    grid.slurm._completions += forge(job, state, code)
    grid.slurm.forget_ended()
    grid.later(4000)
    assert grid.job(identifier).state is JobState.TIMED_OUT


@pytest.mark.parametrize(
    ("state", "code"), [("FAILED", "9:0"), ("CANCELLED", "0:15"), ("NODE_FAIL", "0:0"), ("TIMEOUT", "0:0")]
)
def test_a_job_that_completed_has_completed_whatever_mallory_says(grid: Grid, state: str, code: str) -> None:
    one, array = grid.submit(request(), request(array=[4, 5]))
    grid.begin()
    jobs = list(grid.slurm.now.jobs)
    grid.end(0)
    for job in jobs:
        grid.slurm._completions += forge(job, state, code)
    grid.slurm.forget_ended()
    grid.later(4000)
    assert {job.id: job.state for job in grid.scheduler.jobs()} == dict.fromkeys(
        (one, f"{array}_4", f"{array}_5"), JobState.COMPLETED
    )


def test_a_job_that_slurm_lost_before_it_began_did_not_complete(grid: Grid) -> None:
    (identifier,) = grid.submit()
    (job,) = grid.slurm.now.jobs
    grid.slurm.kill()
    grid.slurm._completions += forge(job, "COMPLETED", "0:0")
    assert grid.job(identifier).state is JobState.WAITING


def test_a_line_of_another_user_or_job_is_not_alices() -> None:
    assert parse_completion(line(), 2001) is not None
    assert parse_completion(line(user="mallory(2002)"), 2001) is None
    assert parse_completion(line(user="alice(2001)(2002)"), 2001) is None
    row = parse_completion(line(), 2001)
    assert row is not None
    assert believed_row([row], 7, 0) == row
    assert believed_row([row], 8, 0) is None
    assert believed_row([row], None, 3) is None
    assert believed_row([row], 7, None) is None, "its script has not written that it ended"


@pytest.mark.parametrize(
    "text",
    [line() + "x", line()[5:], line().partition(" WorkDir=")[0], line(job=-1), line(code="0"), " " + line()],
)
def test_a_part_of_a_line_is_no_line(text: str) -> None:
    assert parse_completion(text, 2001) is None
    assert parse_completion_usage(text) is None


def test_what_a_name_holds_is_no_field_of_usage() -> None:
    job = parse_completion_usage(
        line(user="mallory(2002)", name="x UserId=alice(2001) EndTime=2020-01-01T00:00:00")
    )
    assert job is not None
    assert (job.user, job.id) == ("mallory", "7")


def test_grid_engines_accounting_counts_jobs_of_this_user_alone() -> None:
    account = {"jobnumber": "7", "jobname": f"j{TAG}", "failed": "0", "exit_status": "0"}
    assert row_of({**account, "owner": "mallory"}) is None
    assert row_of({**account, "owner": this_user()}) is not None
