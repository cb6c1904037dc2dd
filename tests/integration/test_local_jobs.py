"""Jobs on this machine, by the real commands and by the scheduler that they use."""

from __future__ import annotations

import json
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gridwright.errors import GridwrightError
from gridwright.schedulers.job import JobState
from tests.support.command import Command, wait_until
from tests.support.local_grid import LocalGrid, ended, local_grid, words

GRACE_S = 5.0
"""Between SIGTERM and SIGKILL, as docs/jobs.md has it."""


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[LocalGrid]:
    with local_grid(tmp_path / "grid", queues="batch: {}, narrow: {cores: 1, time: 1h}") as made:
        yield made


def test_a_job_from_submit_to_its_log(gridwright: Command, grid: LocalGrid) -> None:
    submitted = gridwright(
        "submit",
        "--grid",
        grid.file,
        "--name",
        "two words",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 3",
    )
    assert (submitted.status, submitted.out, submitted.err) == (0, "1\n", "")
    waited = gridwright("wait", "1", "--grid", grid.file)
    assert waited.status == 1
    assert "exit status 3" in waited.out
    logs = gridwright("logs", "1", "--grid", grid.file)
    assert logs.out == "out\nerr\n"
    (job,) = gridwright("jobs", "--json", "--grid", grid.file).json["jobs"]
    assert (job["state"], job["exit_status"], job["name"]) == ("failed", 3, "two words")
    explained = gridwright("explain", "1", "--grid", grid.file)
    assert explained.out == "Job 1 has ended: failed, exit status 3.\n"


def test_the_grid_may_come_from_the_environment_and_is_grid_yaml_otherwise(
    gridwright: Command, grid: LocalGrid
) -> None:
    by_place = gridwright("submit", "--json", "--", "true", cwd=grid.directory)
    assert by_place.json == {"schema": 1, "command": "submit", "job": "1"}
    by_name = gridwright("wait", "1", "--json", environment={"GRIDWRIGHT_GRID": str(grid.file)})
    assert (by_name.status, by_name.json["completed"]) == (0, True)
    nowhere = gridwright("jobs")
    assert nowhere.status == 2
    assert "grid.yaml" in nowhere.err


def test_options_behind_the_command_are_the_command_s(gridwright: Command, grid: LocalGrid) -> None:
    program = "import sys; print(sys.argv[1:])"
    words = ["--until-steady", "--json", "--", "-h", "a  b", "'\"$x", "é\n"]
    gridwright("submit", "--grid", grid.file, "--", sys.executable, "-c", program, *words)
    gridwright("wait", "1", "--grid", grid.file)
    assert gridwright("logs", "1", "--grid", grid.file).out == f"{words}\n"


def test_everything_wrong_with_the_flags_is_said_at_once(gridwright: Command, grid: LocalGrid) -> None:
    unread = gridwright(
        "submit", "--grid", grid.file, "--memory", "4K", "--time", "3x", "--array", "5-1", "--", "true"
    )
    assert unread.status == 2
    assert [flag for flag in ("--memory", "--time", "--array") if flag not in unread.err] == []
    refused = gridwright(
        "submit", "--grid", grid.file, "--cores", "99", "--queue", "narow", "--after", "7", "--", "true"
    )
    assert refused.status == 2
    assert [text for text in ("--cores", "did you mean narrow?", "no job 7") if text not in refused.err] == []
    assert gridwright("jobs", "--json", "--grid", grid.file).json["jobs"] == []


def test_logs_follow_a_job_to_its_end(gridwright: Command, grid: LocalGrid) -> None:
    gridwright("submit", "--grid", grid.file, "--", "sh", "-c", "echo one; sleep 1; echo two")
    began = time.monotonic()
    followed = gridwright("logs", "-f", "1", "--grid", grid.file)
    assert followed.out == "one\ntwo\n"
    assert time.monotonic() - began < 30


def test_explain_holds_needs_against_what_there_is(gridwright: Command, grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("sleep", "60"), grid.request("true", cores=2)])
    scheduler.submit([grid.request("true", after=["2"])])
    wait_until(
        lambda: scheduler.jobs(["1"])[0].state is JobState.RUNNING or None,
        seconds=20,
        what="a start",
        last=str,
    )
    wide = gridwright("explain", "2", "--json", "--grid", grid.file).json
    assert wide["summary"] == "Job 2 waits for 2 cores: 1 of 2 are free."
    rows = {row["name"]: row for each in wide["candidates"] for row in each["requirements"]}
    assert (rows["cores"]["required"], rows["cores"]["provided"], rows["cores"]["fits"]) == (
        "2",
        "1 of 2 free",
        False,
    )
    assert rows["memory"]["fits"] is False
    after = gridwright("explain", "3", "--grid", grid.file)
    assert "Job 3 waits for job 2." in after.out
    assert "dependency" in after.out
    cancelled = gridwright("cancel", "1", "2", "--grid", grid.file)
    assert cancelled.out == "1 cancelled\n2 cancelled\n"
    states = {job.id: job.state for job in ended(scheduler, ["1", "2", "3"])}
    assert set(states.values()) == {JobState.CANCELLED}


def test_a_queue_gives_its_cores_and_another_the_rest(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    scheduler.submit(
        [
            grid.request("sleep", "1", queue="narrow"),
            grid.request("true", queue="narrow"),
            grid.request("true"),
        ]
    )
    first, second, third = ended(scheduler, ["1", "2", "3"])
    assert second.started is not None and first.ended is not None and third.ended is not None
    assert second.started >= first.ended
    assert third.ended < first.ended


def test_jobs_wait_for_an_array_and_fall_with_one_element(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    array = grid.request("sh", "-c", "test $GRIDWRIGHT_ARRAY_INDEX -ne 3", array=range(1, 6))
    (number,) = scheduler.submit([array])
    scheduler.submit([grid.request("true", after=[number]), grid.request("true", after=[f"{number}_2"])])
    scheduler.submit([grid.request("true", after=["2"])])
    jobs = {job.id: job for job in ended(scheduler, ["1", "2", "3", "4"])}
    assert [jobs[f"1_{index}"].exit_status for index in range(1, 6)] == [0, 0, 1, 0, 0]
    assert (jobs["2"].state, jobs["2"].reason) == (
        JobState.CANCELLED,
        "job 1, which it waited for, did not complete: failed",
    )
    assert jobs["3"].state is JobState.COMPLETED
    assert jobs["4"].reason == "job 2, which it waited for, did not complete: cancelled"


def test_a_cancelled_array_leaves_nothing_waiting(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("sleep", "60", array=range(50))])
    wait_until(
        lambda: any(job.state is JobState.RUNNING for job in scheduler.jobs(["1"])) or None,
        seconds=20,
        what="a start",
        last=str,
    )
    scheduler.cancel(["1"])
    jobs = ended(scheduler, ["1"], seconds=20)
    assert {job.state for job in jobs} == {JobState.CANCELLED}
    assert {job.signal for job in jobs} == {None, signal.SIGTERM}
    assert grid.processes() == []


def test_one_that_does_not_heed_sigterm_is_killed_after_a_while(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    scheduler.submit(
        [grid.request("sh", "-c", "trap '' TERM; sleep 60 & sleep 60; sleep 60", time_limit_s=0.5)]
    )
    (job,) = ended(scheduler, ["1"], seconds=30)
    assert (job.state, job.reason, job.signal) == (
        JobState.TIMED_OUT,
        "ran longer than 0.5 s",
        signal.SIGKILL,
    )
    assert job.started is not None and job.ended is not None
    assert GRACE_S <= job.ended - job.started < GRACE_S + 5
    assert grid.processes() == []


def test_one_that_cleans_up_when_its_time_is_over_may(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    script = "trap 'echo clean; exit 4' TERM; while :; do sleep 0.05; done"
    scheduler.submit([grid.request("sh", "-c", script, time_limit_s=0.5)])
    (job,) = ended(scheduler, ["1"], seconds=30)
    assert (job.state, job.exit_status) == (JobState.TIMED_OUT, 4)
    assert Path(str(job.log)).read_text().endswith("clean\n")


def test_memory_of_all_processes_together_counts(grid: LocalGrid) -> None:
    """Each of the two uses less than the limit; what they map from files does not count."""
    hold = "import time; x = bytearray(90_000_000); time.sleep(60)"
    scheduler = grid.scheduler()
    script = f"{sys.executable} -S -c '{hold}' & {sys.executable} -S -c '{hold}'"
    scheduler.submit([grid.request("sh", "-c", script, memory_bytes=150_000_000)])
    (job,) = ended(scheduler, ["1"], seconds=30)
    assert job.state is JobState.OUT_OF_MEMORY
    assert "143 MiB" in str(job.reason)
    assert grid.processes() == []


def test_what_a_job_leaves_running_ends_with_it(grid: LocalGrid) -> None:
    """Also what left its session, its process group, its environment and its output behind."""
    script = (
        "setsid env -i sleep 77.25 >/dev/null 2>&1 & nohup sleep 77.5 & sleep 0.5; "
        "(setsid env -i sleep 77.75 &) >/dev/null"
    )
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("sh", "-c", script)])
    (job,) = ended(scheduler, ["1"], seconds=30)
    assert job.state is JobState.COMPLETED
    assert [
        words(each) for each in psutil.process_iter() if words(each)[1:] in (["77.25"], ["77.5"], ["77.75"])
    ] == []


def test_private_directories_are_its_own_and_go_with_it(grid: LocalGrid) -> None:
    look = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k[:4] == 'GRID'}))"
    fill = "mkdir -p $GRIDWRIGHT_WORK/a/b; touch $GRIDWRIGHT_WORK/a/b/c; chmod 0 $GRIDWRIGHT_WORK/a/b; "
    scheduler = grid.scheduler()
    scheduler.submit(
        [
            grid.request("sh", "-c", f'{fill}{sys.executable} -S -c "$0"', look, array=[5, 6], cores=2),
            grid.request("sh", "-c", "touch $GRIDWRIGHT_UTIL/kept", keep=True),
        ]
    )
    jobs = ended(scheduler, ["1", "2"])
    assert {job.state for job in jobs} == {JobState.COMPLETED}
    names = [json.loads(Path(str(job.log)).read_text()) for job in jobs[:2]]
    assert [each["GRIDWRIGHT_ARRAY_INDEX"] for each in names] == ["5", "6"]
    assert [each["GRIDWRIGHT_JOB_ID"] for each in names] == ["1_5", "1_6"]
    assert names[0]["GRIDWRIGHT_WORK"] != names[1]["GRIDWRIGHT_WORK"]
    assert "1_5" in Path(names[0]["GRIDWRIGHT_WORK"]).name
    assert names[0]["GRIDWRIGHT_DATA"] == str(grid.directory / "data")
    assert (names[0]["GRIDWRIGHT_CORES"], names[0]["GRIDWRIGHT_MEMORY_BYTES"]) == ("2", str(2 << 30))
    kept = grid.private()
    assert sorted(path.parent.name for path in kept) == ["util", "work"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in kept] == [0o700, 0o700]


@pytest.mark.parametrize(
    ("command", "fields", "status", "reason"),
    [
        (["no-such-program"], {}, 127, "cannot be started: no-such-program: No such file or directory"),
        (["/etc/passwd"], {}, 126, "cannot be started: /etc/passwd: Permission denied"),
        (["true"], {"directory": "/no/such"}, 126, "cannot be started: /no/such: No such file or directory"),
    ],
)
def test_what_cannot_be_started_says_why(
    grid: LocalGrid, command: list[str], fields: dict[str, str], status: int, reason: str
) -> None:
    scheduler = grid.scheduler()
    scheduler.submit([grid.request(*command, **fields)])
    (job,) = ended(scheduler, ["1"], seconds=30)
    assert (job.state, job.exit_status, job.reason) == (JobState.FAILED, status, reason)
    assert Path(str(job.log)).read_text() == f"gridwright: {reason}\n"
    assert grid.private() == []


def test_a_signal_that_ends_a_job_is_kept(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("sh", "-c", "kill -SEGV $$")])
    (job,) = ended(scheduler, ["1"], seconds=30)
    assert (job.state, job.exit_status, job.signal) == (JobState.FAILED, None, signal.SIGSEGV)
    assert job.reason == "ended by signal 11 (SIGSEGV)"


def test_jobs_start_as_if_from_a_shell(grid: LocalGrid) -> None:
    """No signal is ignored, nothing is open but the standard files, and stdin is empty."""
    look = (
        "import os, signal, sys; fds = os.listdir('/proc/self/fd'); print(sorted(fds)[:3], len(fds), "
        "[s.name for s in signal.Signals if signal.getsignal(s) == signal.SIG_IGN], sys.stdin.read())"
    )
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("sh", "-c", f'trap; exec {sys.executable} -S -E -c "$0"', look)])
    (job,) = ended(scheduler, ["1"], seconds=30)
    # Python itself ignores SIGPIPE and SIGXFSZ, and has the directory open that it lists.
    assert Path(str(job.log)).read_text() == "['0', '1', '2'] 4 ['SIGPIPE', 'SIGXFSZ'] \n"


def test_the_runner_goes_when_nothing_is_left(grid: LocalGrid) -> None:
    """And so do its launcher, guards, and control groups."""
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("cat", "/proc/self/cgroup")])
    (job,) = ended(scheduler, ["1"])
    groups = [
        line.rpartition("/slot-")[0].rpartition(":")[2]
        for line in Path(str(job.log)).read_text().splitlines()
    ]
    wait_until(
        lambda: None if grid.runners() else True, seconds=20, what="the runner's end", last=grid.runners
    )
    wait_until(
        lambda: None if grid.launchers() or grid.guards() else True, seconds=20, what="their end", last=str
    )
    mounts = [
        Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines() if " cgroup" in line
    ]
    assert [group for group in filter(None, groups) for mount in mounts if (mount / group[1:]).exists()] == []
    scheduler.submit([grid.request("true")])
    ended(scheduler, ["2"])


def test_the_runner_ends_its_jobs_when_its_state_directory_is_removed(grid: LocalGrid) -> None:
    import shutil

    scheduler = grid.scheduler()
    scheduler.submit([grid.request("sleep", "60")])
    wait_until(lambda: grid.processes() or None, seconds=20, what="a start", last=str)
    shutil.rmtree(grid.state)
    wait_until(
        lambda: None if grid.processes() else True, seconds=20, what="the job's end", last=grid.processes
    )
    wait_until(
        lambda: None if grid.runners() else True, seconds=20, what="the runner's end", last=grid.runners
    )


def test_null_jobs_start_nothing(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("no-such-program", array=range(100), null=True)])
    scheduler.submit([grid.request("true", after=["1"])])
    jobs = ended(scheduler, ["1", "2"])
    assert {job.state for job in jobs} == {JobState.COMPLETED}
    assert [path.name for path in (grid.state / "logs").iterdir()] == ["2.log"]


def test_a_job_may_submit_another(gridwright: Command, grid: LocalGrid) -> None:
    from tests.support.command import GRIDWRIGHT

    scheduler = grid.scheduler()
    inner = "echo $GRIDWRIGHT_JOB_ID $GRIDWRIGHT_ARRAY_INDEX"
    outer = f"{GRIDWRIGHT} submit --grid {grid.file} -- sh -c '{inner}'"
    scheduler.submit([grid.request("sh", "-c", outer, array=[7])])
    jobs = ended(scheduler, ["1"])
    assert Path(str(jobs[0].log)).read_text() == "2\n"
    (job,) = ended(scheduler, ["2"])
    assert Path(str(job.log)).read_text() == "2\n"


def test_a_machine_that_shrinks_says_why_a_job_waits(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("sleep", "60", cores=2), grid.request("true", cores=2)])
    grid.file.write_text(grid.file.read_text().replace("cores: 2", "cores: 1"))
    smaller = grid.scheduler()
    assert "needs more than this machine gives to jobs" in smaller.explain("2").summary
    with pytest.raises(GridwrightError, match="2 cores are asked for"):
        smaller.submit([grid.request("true", cores=2)])
    smaller.cancel(["1", "2"])
    ended(smaller, ["1", "2"], seconds=20)
