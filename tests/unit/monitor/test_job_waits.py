"""How long a job waits is told by the best that its node knows of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.interference.processes import TICK_S
from gridwright.monitor.frame import frame_of
from gridwright.monitor.job_sources import JobWaits
from gridwright.monitor.readings import NodeSamples, Reading, Snapshot
from gridwright.monitor.views import views

SLURM = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"
BESIDE_V1 = "9:name=systemd:/\n0::/slurm/uid_1000/job_7/step_batch\n"


def told(waits: JobWaits, job: str, at: float, *, delay: int = 0, waiting: int = 0) -> Reading:
    return waits.reading(job, [10], delay, waiting, at)


@pytest.mark.parametrize(
    ("line", "group"),
    [
        (SLURM, "cgroup/system.slice/slurmstepd.scope/job_7"),
        (BESIDE_V1, "cgroup/unified/slurm/uid_1000/job_7"),
    ],
)
def test_pressure_of_the_control_group_of_a_whole_job_comes_first(
    tmp_path: Path, line: str, group: str
) -> None:
    (tmp_path / "proc/10").mkdir(parents=True)
    (tmp_path / "proc/10/cgroup").write_text(line)
    (tmp_path / group).mkdir(parents=True)
    pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1\n"
    (tmp_path / group / "io.pressure").write_text(pressure)
    waits = JobWaits(tmp_path / "proc", tmp_path / "cgroup")
    for job in ("7", "7_3"):
        found = told(waits, job, 1.0, delay=99)
        assert (found.labels, found.value) == ((job, "pressure"), 2.5)
    (tmp_path / "proc/10/cgroup").write_text(line.replace("job_7", "jobs"))
    assert told(waits, "8", 1.0).labels == ("8", "delay"), "a group of several jobs is nobody's"


def test_without_one_it_is_the_delays_that_the_kernel_counts_else_the_looks(tmp_path: Path) -> None:
    switch = tmp_path / "sys/kernel/task_delayacct"
    switch.parent.mkdir(parents=True)
    switch.write_text("1\n")
    found = told(JobWaits(tmp_path, tmp_path), "7", 1.0, delay=50)
    assert (found.labels, found.value) == (("7", "delay"), 50 * TICK_S)
    switch.write_text("0\n")
    waits = JobWaits(tmp_path, tmp_path)
    assert told(waits, "7", 10.0, waiting=1).value == 0
    assert told(waits, "7", 11.0, waiting=1).value == 1
    found = told(waits, "7", 13.0, waiting=0)
    assert (found.labels, found.value) == (("7", "state"), 1)
    waits.retain_only(set())
    assert told(waits, "7", 14.0, waiting=1).value == 0


def test_a_share_by_looks_alone_is_marked_and_of_several_nodes_the_longest_counts() -> None:
    def snapshot(node: str, at: float, waited: float, how: str) -> Snapshot:
        readings = (
            Reading("gridwright_job_processes", ("7",), 1, at),
            Reading("gridwright_job_waiting_seconds_total", ("7", how), waited, at),
        )
        return Snapshot(node, node, at, at, 1, 1, readings)

    def shown(how: str) -> str:
        samples = [
            NodeSamples(node, snapshot(node, 1.0, 0.0, how), snapshot(node, 3.0, waited, how))
            for node, waited in (("n1", 1.0), ("n2", 0.5))
        ]
        (view,) = [each for each in views(frame_of(samples)) if each.caption == "Jobs"]
        return view.rows[0].cells[[column.title for column in view.columns].index("waits")].text

    assert [shown(how) for how in ("pressure", "delay", "state")] == ["50%", "50%", "~50%"]
