"""Ends of alice's jobs that mallory writes, in names of its own jobs: accounting shows names as they are."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gridwright.cli.work.usage import UsageFlags, run_usage
from gridwright.schedulers.grid_engine.system import row_of
from gridwright.schedulers.job import JobState
from gridwright.schedulers.slurm.accounting import (
    _PICK,
    believed_row,
    believed_usage,
    parse_completion,
    parse_completion_usage,
)
from gridwright.schedulers.usage import JobUsage
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


NOW = 1_795_271_000.0
"""When the file is read; its lines have times before, in hours."""


def ended(
    job: int,
    user: str,
    start: float,
    end: float,
    *,
    cores: int = 4,
    name: str = "x",
    submit: float | None = None,
) -> str:
    """A line of a job; times are hours before NOW."""

    def at(hours: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW - hours * 3600))

    return (
        f"JobId={job} UserId={user} GroupId={user} Name={name} JobState=COMPLETED Partition=batch TimeLimit=1"
        f" StartTime={at(start)} EndTime={at(end)} NodeList=n1 NodeCnt=1 ProcCnt={cores}"
        " WorkDir=/x ReservationName= Tres=cpu=1 Account= QOS= WcKey= Cluster=c"
        f" SubmitTime={at(start if submit is None else submit)} EligibleTime={at(start)} DerivedExitCode=0:0"
        " ExitCode=0:0 "
    )


MINE, HERS = "alice(2001)", "mallory(2002)"
TRUE = [ended(7, MINE, 20, 18), ended(8, HERS, 20, 17), ended(9, MINE, 17, 2, cores=2), ended(12, MINE, 3, 1)]


def believed(text: str) -> list[JobUsage]:
    return believed_usage([f" {each}" for each in text.splitlines()], 1, 8, NOW)


def hours(jobs: list[JobUsage]) -> dict[str | None, float]:
    found: dict[str | None, float] = {}
    for each in jobs:
        if not each.refused:
            found[each.user] = found.get(each.user, 0.0) + each.core_s / 3600
    return found


@pytest.mark.parametrize(
    ("forged", "position"),
    [
        pytest.param(ended(10, MINE, 16, 0, cores=4000), 4, id="more cores than there are"),
        pytest.param(ended(8, MINE, 16, 0), 4, id="the number of a job of another user"),
        pytest.param(ended(7, MINE, 20, 0), 4, id="a second run before the first had ended"),
        pytest.param(ended(9, MINE, 1.5, 0, cores=8), 4, id="other cores of a number"),
        pytest.param(ended(10, MINE, 16, -5), 4, id="an end after now"),
        pytest.param(ended(10, MINE, 200, 100), 2, id="an end long before those around it"),
        pytest.param(ended(10, MINE, 20, 3), 1, id="an end long after those around it"),
        pytest.param(ended(10, MINE, 16, 0, submit=10), 4, id="a start before it was submitted"),
    ],
)
def test_core_hours_that_mallory_writes_for_alice_do_not_count(forged: str, position: int) -> None:
    lines = TRUE[:position] + ended(30, HERS, 1, 0, name=f"x\n{forged}\ny").split("\n") + TRUE[position:]
    jobs = believed("\n".join(lines))
    assert hours(jobs) == hours(believed("\n".join(TRUE)))
    assert [each.user for each in jobs if each.refused] == ["alice"]
    assert all(each.forgeable for each in jobs)


def test_runs_of_a_requeued_job_and_a_clock_that_is_put_back_count() -> None:
    jobs = believed("\n".join([*TRUE, ended(7, MINE, 1.2, 1.1), ended(13, HERS, 2, 1.9)]))
    assert not any(each.refused for each in jobs)
    assert {each.id: round(each.elapsed_s / 360) for each in jobs if each.id in ("7", "13")} == {
        "7": 1,
        "13": 1,
    }


def test_a_number_that_an_older_line_gives_to_another_user_is_marked(tmp_path: Path) -> None:
    file = tmp_path / "jobcomp"
    lines = [ended(7, MINE, 2000, 1999), ended(7, HERS, 3, 2), ended(9, HERS, 3, 1)]
    file.write_text("\n".join(lines) + "\n")
    day = time.strftime("%Y-%m-%d", time.localtime(NOW - 86_400))
    picked = subprocess.run(
        ["awk", "-v", f"since={day}", _PICK, file], capture_output=True, text=True, check=True
    )
    assert picked.stdout.splitlines() == [f"!{lines[1]}", f" {lines[2]}"]
    assert [each.refused for each in believed_usage(picked.stdout.splitlines(), 1, 8, NOW)] == [False, True]


def test_own_jobs_are_those_of_the_record(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    (identifier,) = grid.submit()
    grid.begin()
    grid.end(0)
    grid.job(identifier)
    monkeypatch.setattr("gridwright.schedulers.slurm.accounting._usage_from_file", lambda *_: [])
    own = grid.scheduler.usage(0.0, NOW * 2)
    assert [each.id for each in own] == [identifier]
    forged = [
        JobUsage(
            id=identifier, name="x", state=JobState.COMPLETED, started=0.0, ended=own[0].ended, forgeable=True
        ),
        JobUsage(id="4000", name="x", state=JobState.COMPLETED, ended=own[0].ended, forgeable=True),
    ]
    monkeypatch.setattr("gridwright.schedulers.slurm.accounting._usage_from_file", lambda *_: forged)
    assert grid.scheduler.usage(0.0, NOW * 2) == [forged[1], *own]


def test_the_command_says_what_can_be_forged_and_what_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = "\n".join([*TRUE, ended(10, MINE, 16, 0, cores=4000)])
    grid = SimpleNamespace(
        usage=lambda since, until: believed(forged),
        spec=SimpleNamespace(name="g", scheduler=SimpleNamespace(remembers_jobs_s=None, type="slurm")),
    )
    monkeypatch.setattr("gridwright.cli.work.usage.open_grid", lambda _: grid)
    monkeypatch.setattr("gridwright.cli.work.usage._prices", lambda _: None)
    run_usage(UsageFlags(since="1d", json=True))
    said = capsys.readouterr()
    printed = json.loads(said.out)
    assert printed["forgeable"] is True
    assert printed["refused"] == [{"id": "10", "user": "alice", "core_hours": 64_000.0}]
    assert "every user can write lines" in said.err
    assert "1 lines of that file (64,000.0 core-hours, for alice) are not counted" in said.err
