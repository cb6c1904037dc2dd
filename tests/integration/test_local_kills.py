"""Runner, keeper, guards, jobs and commands are killed: no job is lost, none runs twice at once.

Each job holds a lock as long as any process of it lives, and says so when it finds the lock taken; it
appends a line when it starts and one when it ends. The seed of a failure repeats its kills, though not
to the microsecond.
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from gridwright.schedulers.job import Job, JobState
from gridwright.schedulers.scheduler import Scheduler
from tests.support.command import wait_until
from tests.support.local_grid import LocalGrid, ended, local_grid, words

SECONDS = 5.0
JOB = """
exec 9>>locks/$GRIDWRIGHT_JOB_ID
flock -n 9 || echo overlap $GRIDWRIGHT_JOB_ID >>stamps
test -d "$GRIDWRIGHT_WORK" || echo homeless $GRIDWRIGHT_JOB_ID >>stamps
echo start $GRIDWRIGHT_JOB_ID >>stamps
touch "$GRIDWRIGHT_WORK/file"
[ $(($(echo $GRIDWRIGHT_JOB_ID | tr -d _) % 4)) = 0 ] && setsid sleep 50 </dev/null >/dev/null 2>&1 &
sleep $1
echo end $GRIDWRIGHT_JOB_ID >>stamps
"""
SUBMIT = """
import sys
from pathlib import Path
from tests.support.local_grid import LocalGrid
grid = LocalGrid(Path(sys.argv[1]))
request = grid.request("sh", "-c", sys.argv[2], "job", sys.argv[3], restart=True)
for _ in range(50):
    print(*grid.scheduler().submit([request]), flush=True)
"""


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[LocalGrid]:
    with local_grid(tmp_path / "grid", cores=4) as made:
        (made.directory / "locks").mkdir()
        yield made


def kill(process: psutil.Process | subprocess.Popen[str]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


class Chaos:
    """What is done to a grid, drawn from a seed."""

    def __init__(self, grid: LocalGrid, seed: int) -> None:
        self.grid = grid
        self.scheduler: Scheduler = grid.scheduler()
        self.draw = random.Random(seed)  # noqa: S311 - kills, not secrets
        self.cancelled: set[str] = set()
        self.submitted: list[str] = []
        self.final: dict[str, Job] = {}

    def submit(self) -> None:
        array = range(1, 1 + self.draw.randint(1, 6)) if self.draw.random() < 0.5 else None
        after = [self.draw.choice(self.submitted)] if self.submitted and self.draw.random() < 0.2 else []
        request = self.grid.request(
            "sh",
            "-c",
            JOB,
            "job",
            f"{self.draw.uniform(0, 0.4) * self.draw.choice([1, 1, 4]):.2f}",
            array=array,
            after=after,
            restart=self.draw.random() < 0.7,
            cores=self.draw.choice([1, 1, 2, 4]),
        )
        self.submitted += self.scheduler.submit([request])

    def kill_submit(self) -> None:
        """Kill a command as it submits; what it said to be submitted is."""
        command = [sys.executable, "-P", "-c", SUBMIT, str(self.grid.directory), JOB, "0.1"]
        root = Path(__file__).parents[2]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=root, env={"PYTHONPATH": str(root)}
        ) as one:
            time.sleep(self.draw.uniform(0.2, 0.6))
            kill(one)
            assert one.stdout is not None
            self.submitted += [line.strip() for line in one.stdout if line.endswith("\n")]

    def kill_runner(self) -> None:
        runners = self.grid.runners()
        for process in self.draw.choice([runners, runners[:1], runners[-1:]]):
            kill(process)

    def kill_guard(self) -> None:
        """Kill what guards a job, or makes guards; both, sometimes."""
        guards, launchers = self.grid.guards(), self.grid.launchers()
        for process in self.draw.choice([guards[:1], launchers, [*guards[:1], *launchers]]):
            kill(process)

    def kill_job(self) -> None:
        if processes := self.grid.processes():
            kill(self.draw.choice(processes))

    def cancel(self) -> None:
        if self.submitted:
            chosen = self.draw.choice(self.submitted)
            self.cancelled.add(chosen)
            self.scheduler.cancel([chosen])

    def look(self) -> None:
        """Whoever has a final state keeps it."""
        for job in self.scheduler.jobs():
            if before := self.final.get(job.id):
                assert (job.state, job.exit_status, job.ended) == (
                    before.state,
                    before.exit_status,
                    before.ended,
                )
            if job.state.final:
                self.final[job.id] = job

    def restarted(self) -> bool:
        return any(job.restarts for job in self.scheduler.jobs())

    def run(self, seconds: float) -> None:
        actions = [self.submit, self.kill_runner, self.kill_job, self.kill_submit, self.cancel, self.look]
        actions.append(self.kill_guard)
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds or (not self.restarted() and passed < 60):
            self.draw.choices(actions, weights=[6, 5, 2, 1, 1, 3, 2])[0]()
            time.sleep(self.draw.choice([0, 0, 0.01, 0.05, 0.2]))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2, 3))])
def test_kills_lose_no_job_and_double_none(grid: LocalGrid, seed: int) -> None:
    chaos = Chaos(grid, seed)
    chaos.run(SECONDS)
    assert len(chaos.submitted) > 5
    jobs = ended(chaos.scheduler, [job.id for job in chaos.scheduler.jobs()], seconds=100)
    chaos.look()
    known = {job.id.partition("_")[0] for job in jobs}
    assert [number for number in chaos.submitted if number not in known] == []
    stamps = Counter(tuple(line.split()) for line in (grid.directory / "stamps").read_text().splitlines())
    assert {kind for kind, _ in stamps} == {"start", "end"}, "a job overlapped, or had no directory"
    for job in jobs:
        check(job, starts=stamps["start", job.id], ends=stamps["end", job.id], chaos=chaos)
    assert any(job.restarts for job in jobs), "nothing was killed in time: the test shows nothing"
    wait_until(
        lambda: None if grid.runners() else True, seconds=20, what="the runner's end", last=grid.runners
    )
    assert grid.processes() == []
    assert grid.private() == []


def check(job: Job, *, starts: int, ends: int, chaos: Chaos) -> None:
    """Whether what is said of a job is what it did."""
    about = f"{job}: {starts} starts, {ends} ends"
    assert starts <= job.restarts + 1, about
    if job.state is JobState.COMPLETED:
        assert ends >= 1, about
    elif job.state is JobState.FAILED:
        assert job.signal == signal.SIGKILL or job.exit_status == 128 + signal.SIGKILL, about
    elif job.state is JobState.CANCELLED:
        named = {job.id, job.id.partition("_")[0]} & chaos.cancelled
        assert named or "which it waited for" in str(job.reason), about
    else:
        assert job.state is JobState.NODE_FAILED, about
        assert starts <= 1, about


SLEEP = 'exec env -i PATH="$PATH" sleep 61.5'


def sleepers() -> list[psutil.Process]:
    """Processes of SLEEP: they have hidden their environment."""
    return [each for each in psutil.process_iter() if words(each) == ["sleep", "61.5"]]


def one_sleeper(what: str) -> psutil.Process:
    return wait_until(lambda: next(iter(sleepers()), None), seconds=20, what=what, last=str)


def kill_both(grid: LocalGrid) -> None:
    """Kill runner and keeper, so that neither can replace the other, and wait until they hold nothing."""
    found = grid.runners()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
    _, left = psutil.wait_procs(found, timeout=20)
    assert left == []


def test_jobs_go_on_under_the_next_runner(grid: LocalGrid) -> None:
    """Their limits too: the second is ended when its time is over."""
    scheduler = grid.scheduler()
    script = "echo $$ >>pids; sleep $0"
    requests = [grid.request("sh", "-c", script, each) for each in ("2", "60")]
    requests[1] = replace(requests[1], time_limit_s=2.5)
    scheduler.submit(requests)
    pids = grid.directory / "pids"
    wait_until(
        lambda: (pids.exists() and len(pids.read_text().split()) == 2) or None,
        seconds=20,
        what="starts",
        last=str,
    )
    keeper, runner = sorted(grid.runners(), key=lambda process: process.create_time())
    assert runner.ppid() == keeper.pid
    runner.kill()
    first, second = ended(scheduler, ["1", "2"], seconds=20)
    assert (first.state, first.restarts, second.restarts) == (JobState.COMPLETED, 0, 0)
    assert (second.state, second.reason) == (JobState.TIMED_OUT, "ran longer than 2.5 s")
    assert len(pids.read_text().split()) == 2


def test_no_command_is_needed_after_a_double_kill(grid: LocalGrid) -> None:
    """Also where none would do: one that is part of a job could have a runner only below that job."""
    scheduler = grid.scheduler()
    script = "echo $GRIDWRIGHT_JOB_ID >>lines; while ! test -e go; do sleep 0.02; done"
    scheduler.submit([grid.request("sh", "-c", script, array=range(8), cores=2)])
    _wait_for_lines(grid, 2)
    kill_both(grid)
    (grid.directory / "go").touch()
    _wait_for_lines(grid, 8)
    jobs = ended(scheduler, ["1"], seconds=20)
    assert {(job.state, job.restarts) for job in jobs} == {(JobState.COMPLETED, 0)}
    assert _count(grid) == 8


def test_what_ends_while_nobody_runs_them_is_known(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    wait = "while ! test -e go; do sleep 0.02; done; "
    scripts = (f"{wait}exit 0", f"{wait}exit 7", f"{wait}kill -SEGV $$", f"{wait}sleep 61.5")
    scheduler.submit([grid.request("sh", "-c", script) for script in scripts])
    wait_until(lambda: len(grid.guards()) == 4 or None, seconds=20, what="starts", last=grid.guards)
    kill_both(grid)
    (grid.directory / "go").touch()
    last = one_sleeper("the end of the others")
    wait_until(lambda: len(grid.guards()) == 1 or None, seconds=20, what="ends", last=grid.guards)
    scheduler.cancel(["4"])
    jobs = ended(scheduler, ["1", "2", "3", "4"], seconds=20)
    assert [job.state.value for job in jobs] == ["completed", "failed", "failed", "cancelled"]
    assert [job.reason for job in jobs[1:3]] == ["exit status 7", "ended by signal 11 (SIGSEGV)"]
    assert not last.is_running()


def test_a_killed_guard_takes_its_job_with_it_and_is_named(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("sh", "-c", f"({SLEEP}) & {SLEEP}")])
    wait_until(lambda: len(sleepers()) == 2 or None, seconds=20, what="a start", last=sleepers)
    kill(grid.guards()[0])
    (job,) = ended(scheduler, ["1"], seconds=20)
    assert (job.state, job.reason) == (JobState.NODE_FAILED, "its guard was killed")
    assert sleepers() == []


@pytest.mark.few(1)
@pytest.mark.parametrize("also", ["launchers", "all"])
def test_with_its_guard_gone_a_job_is_ended_before_it_starts_again(grid: LocalGrid, also: str) -> None:
    """It hides its environment, and is found by its descent, its control group, or its log."""
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("sh", "-c", f"({SLEEP}) & wait", restart=True)])
    first = one_sleeper("a start")
    killed = [*grid.launchers(), *(grid.runners() if also == "all" else []), *grid.guards()]
    for process in killed:
        process.suspend()
    for process in killed:
        process.kill()
    psutil.wait_procs(killed, timeout=20)
    if also == "all":
        assert [job.state for job in scheduler.jobs(["1"])] == [JobState.RUNNING]
    wait_until(
        lambda: first not in sleepers() or None, seconds=20, what="the end of the first", last=sleepers
    )
    second = one_sleeper("a restart")
    assert second.pid != first.pid
    (job,) = scheduler.jobs(["1"])
    assert (job.state, job.restarts) == (JobState.RUNNING, 1)
    scheduler.cancel(["1"])
    ended(scheduler, ["1"], seconds=20)


def test_a_killed_launcher_is_replaced_and_jobs_go_on(grid: LocalGrid) -> None:
    scheduler = grid.scheduler()
    scheduler.submit([grid.request("sh", "-c", "echo x >>lines; sleep 1", array=range(12), cores=2)])
    for done in (2, 6):
        _wait_for_lines(grid, done)
        for launcher in grid.launchers():
            kill(launcher)
    jobs = ended(scheduler, ["1"], seconds=60)
    assert {(job.state, job.restarts) for job in jobs} == {(JobState.COMPLETED, 0)}
    assert _count(grid) == 12


def _count(grid: LocalGrid) -> int:
    path = grid.directory / "lines"
    return len(path.read_text().split()) if path.exists() else 0


def _wait_for_lines(grid: LocalGrid, count: int) -> None:
    wait_until(
        lambda: True if _count(grid) >= count else None,
        seconds=60,
        what=f"{count} lines",
        last=lambda: _count(grid),
    )


@pytest.mark.parametrize("count", [200, pytest.param(3000, marks=pytest.mark.thorough)])
def test_under_five_double_kills_each_job_runs_exactly_once(grid: LocalGrid, count: int) -> None:
    """Each job writes one line; half of them may be started again, and none is."""
    scheduler = grid.scheduler()
    script = "echo $GRIDWRIGHT_JOB_ID >>lines"
    arrays = scheduler.submit(
        [
            grid.request("sh", "-c", script, array=range(count // 2), restart=restart)
            for restart in (False, True)
        ]
    )
    for kills in range(1, 6):
        _wait_for_lines(grid, count * kills // 6)
        kill_both(grid)
        scheduler.jobs([arrays[0]])
    jobs = ended(scheduler, arrays, seconds=240)
    assert Counter((job.state, job.restarts) for job in jobs) == {(JobState.COMPLETED, 0): count}
    assert Counter((grid.directory / "lines").read_text().split()) == {job.id: 1 for job in jobs}
