"""What jobs used: as accountings tell it, and summed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.schedulers.job import JobState
from gridwright.schedulers.slurm.accounting import parse_completion_usage, parse_sacct_usage
from gridwright.schedulers.slurm.scheduler import parse_times
from gridwright.schedulers.usage import JobUsage, core_hours_by_day, parse_elapsed, usage_group, usage_groups

RECORDED = Path(__file__).parents[2] / "fixtures" / "slurm" / "22.05" / "jobcomp.txt"


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def used(**values: Any) -> JobUsage:
    return JobUsage(**{"id": "1", "name": "a", "state": JobState.COMPLETED} | values)


def test_the_recorded_file_of_jobcomp_is_read() -> None:
    jobs = [parse_completion_usage(line) for line in RECORDED.read_text(errors="replace").splitlines()]
    assert None not in jobs
    first = jobs[0]
    assert first is not None
    assert (first.id, first.name, first.state, first.user) == ("1207", "sh", JobState.FAILED, "root")
    assert (first.queue, first.node, first.cores, first.account) == ("batch", "n1", 1, None)
    assert (first.submitted, first.started, first.ended) == (1795271732.0, 1795271733.0, 1795271733.0)
    array = (
        RECORDED.read_text(errors="replace")
        .splitlines()[0]
        .replace("DerivedExitCode", "ArrayJobId=1200 ArrayTaskId=7 DerivedExitCode")
    )
    element = parse_completion_usage(array)
    assert element is not None and element.id == "1200_7"


def test_a_directory_that_looks_like_fields_is_not_taken_for_them() -> None:
    line = (
        "JobId=7 UserId=ann(1000) GroupId=ann(1000) Name=x JobState=COMPLETED Partition=batch TimeLimit=60 "
        "StartTime=2026-11-21T14:35:33 EndTime=2026-11-21T14:36:33 NodeList=n[1-2] NodeCnt=2 ProcCnt=8 "
        "WorkDir=/a ReservationName= Account=thief SubmitTime=1 b ReservationName= Tres=cpu=8 Account=sales "
        "QOS= WcKey= Cluster=c SubmitTime=2026-11-21T14:30:33 EligibleTime=2026-11-21T14:31:33 "
        "DerivedExitCode=0:0 ExitCode=0:0 "
    )
    job = parse_completion_usage(line, threads=2)
    assert job is not None
    assert (job.user, job.account, job.cores, job.elapsed_s, job.waited_s) == ("ann", "sales", 4, 60, 240)
    assert parse_completion_usage("no line of it") is None


SACCT = [
    "17|a|b~0123456789abcdef.0|ann|sales|batch|COMPLETED|n1|8|1000|1060|1100|4700|01:30:00.5|1G|||",
    "17.batch|batch|||||COMPLETED|n1|8|1100|1100|1100|4700|01:30:00||512M|fs/disk=2G,mem=1K|fs/disk=100M",
    "17.0|srun|||||COMPLETED|n1|8|1100|1100|1100|4700|00:00:00.5||700000K|fs/disk=1G|fs/disk=24M",
    "18_3|fold|ben|||NODE_FAIL|n2|2|1000|1000|1100|1200|00:10|500M|||",
    "18_[4-9]|fold|ben||batch|PENDING||2|1000|1000|Unknown|Unknown|00:00|500M|||",
    "19|gone|ben||batch|CANCELLED by 1000|None assigned|1|1000|1000|1300|1300|00:00:00|0|||",
    "20|runs|ben||batch|RUNNING|n1|1|1000|1000|1300|Unknown|00:00:00|0|||",
]
"""What `sacct -P` prints in our format, after its manual: a name may hold the separator."""


def test_what_sacct_prints_is_read_with_the_steps_of_each_job() -> None:
    first, second, third = parse_sacct_usage(SACCT, threads=2)
    assert (first.id, first.name, first.user, first.account) == ("17", "a|b", "ann", "sales")
    assert (first.cores, first.elapsed_s, first.waited_s) == (4, 3600, 40)
    assert (first.cpu_s, first.memory_bytes) == (5400.5, 2**30)
    assert first.memory_peak_bytes == 700_000 * 1024
    assert (first.read_bytes, first.written_bytes) == (3 * 2**30, 124 * 2**20)
    assert (second.id, second.state, second.account) == ("18_3", JobState.NODE_FAILED, None)
    assert (third.state, third.started, third.elapsed_s, third.waited_s) == (
        JobState.CANCELLED,
        None,
        0,
        None,
    )


def test_lines_of_another_form_are_an_error_of_the_environment() -> None:
    with pytest.raises(GridwrightError) as caught:
        parse_sacct_usage(["17|a"])
    assert caught.value.status == 3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:01", 1), ("01:02.500", 62.5), ("1:00:00", 3600), ("2-01:00:00", 176_400), ("", None), ("x", None)],
)
def test_processor_times_of_sacct_are_read(text: str, seconds: float | None) -> None:
    assert parse_elapsed(text) == seconds


def test_processor_times_of_the_script_are_those_of_its_children() -> None:
    assert parse_times("0m0.010000s 0m0.020000s\n1m2.500000s 0m0.250000s\n") == 62.75
    assert parse_times("0m0,010s 0m0,020s\n0m2,5s 0m0,25s\n") == 2.75
    assert parse_times("") is None
    assert os.environ["TZ"] == "UTC"


JOBS = [
    used(
        user="ann", cores=4, submitted=0, started=100, ended=3700, cpu_s=7200, memory_peak_bytes=10, node="n1"
    ),
    used(user="ann", cores=1, submitted=0, started=200, ended=3800, node="n2", read_bytes=5),
    used(user="ben", cores=2, submitted=0, ended=90_000, state=JobState.CANCELLED),
    used(cores=8, submitted=10, eligible=50, started=60, ended=90_060, cpu_s=0.0, state=JobState.FAILED),
]


def test_jobs_are_summed_by_what_they_have_in_common() -> None:
    nobody, ann, ben = usage_groups(JOBS, "user", None)
    assert [each.name for each in (nobody, ann, ben)] == [None, "ann", "ben"], "the largest first"
    assert (ann.jobs, ann.completed, ann.core_hours, ann.cpu_hours) == (2, 2, 5.0, 2.0)
    assert (ann.cpu_real, ann.memory_peak_bytes, ann.read_bytes, ann.written_bytes) == (2.0, 10, 5, None)
    assert (ann.wait_mean_s, ann.wait_longest_s) == (150, 200)
    assert (ben.completed, ben.core_hours, ben.cpu_real, ben.wait_mean_s) == (0, 0, None, None)
    assert (nobody.wait_mean_s, nobody.core_hours) == (10, 200)
    assert [each.cost_usd for each in (nobody, ann, ben)] == [None, None, None]


def test_a_cost_is_known_where_every_node_has_a_price() -> None:
    prices = {"n1": 0.5, "n2": 2.0}
    ann = usage_group("ann", JOBS[:3], lambda job: prices.get(job.node or ""))
    assert ann.cost_usd == 4 * 0.5 + 1 * 2.0, "one that never ran costs nothing"
    assert usage_group("all", JOBS, lambda job: prices.get(job.node or "")).cost_usd is None


def test_core_hours_go_to_the_day_on_which_a_job_ended() -> None:
    days = core_hours_by_day(JOBS, lambda moment: f"day {moment // 86_400:.0f}", "user")
    assert days == {"ann": {"day 0": 5.0}, "ben": {"day 1": 0.0}, None: {"day 1": 200.0}}
