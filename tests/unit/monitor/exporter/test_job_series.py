"""The number of jobs with series is bounded, and no byte is lost or counted twice by that."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.monitor.exporter.exposition import TextFormat
from gridwright.monitor.exporter.page_program import MOST_JOBS, OTHER, JobSeries, MetricsPage
from gridwright.monitor.frame import frame_of
from gridwright.monitor.job_sources import JobSources
from gridwright.monitor.readings import NodeSamples, Reading, Snapshot
from tests.support.as_user import ALICE, MALLORY

READ, PROCESSES = "gridwright_job_read_bytes_total", "gridwright_job_processes"


def sample(jobs: dict[str, int]) -> list[Reading]:
    return [
        reading
        for job, value in jobs.items()
        for reading in (Reading(READ, (job,), value, 1.0), Reading(PROCESSES, (job,), 1, 1.0))
    ]


def told(series: JobSeries, jobs: dict[str, int], metric: str = READ) -> dict[str, float]:
    return {
        each.labels[0]: each.value for each in series.bounded_series(sample(jobs)) if each.metric == metric
    }


def test_few_jobs_are_told_as_they_are_and_others_of_the_node_too() -> None:
    load = Reading("node_load1", (), 1.0, 1.0)
    assert JobSeries().bounded_series([load, *sample({"1": 5})]) == [load, *sample({"1": 5})]


def test_the_jobs_that_moved_most_have_series_of_their_own() -> None:
    series = JobSeries(most=2)
    assert told(series, {"1": 10, "2": 30, "3": 20}) == {"2": 30, "3": 20, OTHER: 0}
    # Job 1 has moved 90 more since then, and is far ahead of job 3 by now.
    assert told(series, {"1": 100, "2": 30, "3": 20}) == {"1": 100, "2": 30, OTHER: 0}
    assert told(series, {"1": 100, "2": 30, "3": 25}) == {"1": 100, "2": 30, OTHER: 5}


def test_gauges_of_the_others_are_summed_up_now() -> None:
    assert told(JobSeries(most=1), {"1": 10, "2": 30, "3": 20}, PROCESSES) == {"2": 1, OTHER: 2}


def test_other_labels_of_jobs_are_summed_up_each_for_itself() -> None:
    waits = "gridwright_job_waiting_seconds_total"

    def told_waits(series: JobSeries, seconds: float) -> dict[tuple[str, ...], float]:
        readings = [
            Reading(waits, (job, how), seconds, 1.0) for job in ("1", "2") for how in ("disk", "memory")
        ]
        bounded = series.bounded_series([*readings, *sample({"1": 9, "2": 1})])
        return {reading.labels: reading.value for reading in bounded if reading.metric == waits}

    series = JobSeries(most=1)
    told_waits(series, 5.0)
    assert told_waits(series, 7.0) == {
        ("1", "disk"): 7.0,
        ("1", "memory"): 7.0,
        (OTHER, "disk"): 2.0,
        (OTHER, "memory"): 2.0,
    }


def test_a_job_that_is_called_like_the_sum_is_in_the_sum() -> None:
    series = JobSeries(most=5)
    told(series, {OTHER: 7, "1": 1})
    assert told(series, {OTHER: 9, "1": 1}) == {"1": 1, OTHER: 2}


def test_a_new_job_among_the_others_counts_from_its_beginning() -> None:
    series = JobSeries(most=1)
    told(series, {"1": 100})
    assert told(series, {"1": 100, "2": 40}) == {"1": 100, OTHER: 40}


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 1000), min_size=1),
        min_size=2,
        max_size=12,
    )
)
def test_what_all_series_rise_by_is_what_all_jobs_rise_by(steps: list[dict[str, int]]) -> None:
    """As Prometheus counts: what a series rises by between two scrapes that both have it."""
    series = JobSeries(most=2)
    totals: dict[str, int] = {}
    before: dict[str, float] = {}
    own = told_rise = real_rise = 0.0
    for number, step in enumerate(steps):
        new = {job for job in step if job not in totals}
        for job, risen in step.items():
            totals[job] = totals.get(job, 0) + risen
        now = told(series, totals)
        assert len(now) <= 3
        if number:
            real_rise += sum(step.values())
            told_rise += sum(value - before[job] for job, value in now.items() if job in before)
            # A series that begins has done before what its first value says, if its job is new, too.
            own += sum(now[job] for job in now if job not in before and job in new)
            # One that begins with an old job had done the last of it in no series.
            own += sum(
                step.get(job, 0) for job in now if job not in before and job not in new and job != OTHER
            )
            own += now[OTHER] if OTHER in now and OTHER not in before else 0
        before = now
    assert told_rise + own == real_rise


def numbered(uid: int, job: str) -> subprocess.Popen[bytes]:
    """A process of a user that says that it is of a job."""
    return subprocess.Popen(["sleep", "300"], user=uid, group=uid, extra_groups=[], env={"SLURM_JOB_ID": job})


def snapshot(readings: list[Reading], at_s: float) -> Snapshot:
    return Snapshot("n1", "m", at_s, at_s, 4, 4, tuple(readings))


@pytest.mark.root
def test_numbers_that_mallory_invents_push_out_none_of_alices_jobs() -> None:
    running = [
        numbered(ALICE, "4242"),
        *(numbered(MALLORY, str(1000 + each)) for each in range(MOST_JOBS + 5)),
    ]
    try:
        sources, found = JobSources(), []
        for _ in range(3):
            time.sleep(0.3)
            found.append(sources.readings())
    finally:
        for each in running:
            each.kill()
            each.wait()
    assert len({each.labels[0] for each in found[-1]} - {"4242"}) >= MOST_JOBS + 5
    series = JobSeries()
    own = {each.labels[0] for each in series.bounded_series(found[-1]) if each.metric == PROCESSES}
    assert "4242" in own
    assert (len(own), series.left_out > 0) == (MOST_JOBS + 1, True)
    page = MetricsPage()
    page.take(snapshot(found[-1], 10.0), 0.1)
    text = b"".join(page.text(TextFormat.PLAIN)).decode()
    assert f"gridwright_exporter_series_left_out {series.left_out}" in text.splitlines()
    assert "user=" not in text
    seen = NodeSamples("n1", snapshot(found[-2], 9.0), snapshot(found[-1], 10.0))
    assert "4242" in {row.job for row in frame_of([seen]).jobs}


def test_a_job_is_of_who_is_in_its_control_group_not_of_who_names_it(tmp_path: Path) -> None:
    sources = JobSources(proc=tmp_path, cgroups=tmp_path)
    lines = {
        1: "0::/user.slice/user-2002.slice/job_7/x\n",
        2: "0::/system.slice/slurmstepd.scope/job_8/step_0\n",
        3: "0::/system.slice/slurmstepd.scope/job_7/step_0\n",
    }
    for pid, line in lines.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(line)
    assert [pid for pid in lines if sources._waits.is_in_group_of("7", pid)] == [3]
