"""Jobs on a real Slurm, in a lab: what arrives, what is told, and what becomes of them when it is killed."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.providers import head_node
from gridwright.schedulers.job import Job, JobOptions, JobRequest, JobState
from gridwright.schedulers.slurm import submission, tools
from gridwright.schedulers.slurm.scheduler import SlurmScheduler
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec import load_spec
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

NAME = "slurm-jobs-test"
SPEC = f"""
name: {NAME}
provider: lab
lab: {{network: 10.81.7.0/24, bandwidth: 20 MB/s}}
nodes:
  compute: {{count: 2, cores: 4, memory: 1 GiB}}
  wide: {{count: 1, cores: 2, memory: 2 GiB}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler:
  type: slurm
  queues:
    batch: {{nodes: [compute]}}
    night: {{priority: 5, time: 1h, nodes: [compute]}}
    wide: {{nodes: [wide]}}
"""
LIBRARIES = {name: f"/mnt/grid/{name}" for name in ("data", "work", "util")}
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
MIB = 2**20


class Grid:
    """A lab's Slurm as a command of Gridwright has it: every call is another process."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.spec = load_spec(lab.spec)
        self.head = head_node(self.spec)
        self.state = state_directory(self.spec)
        self.marks = self.state / "marks"
        self.marks.mkdir(exist_ok=True)

    @property
    def scheduler(self) -> SlurmScheduler:
        return SlurmScheduler(self.spec, self.head, self.state)

    def on_controller(self, *command: str) -> str:
        return self.head.run(command, environment={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}).stdout.decode()

    def left(self) -> str:
        """Private directories on the shared file system."""
        self.scheduler.jobs()
        return self.lab.run("compute1", "find", "/mnt/grid", "-name", "gridwright-*").out

    def submit(self, *requests: JobRequest) -> list[str]:
        return self.scheduler.submit(requests)

    def job(self, identifier: str) -> Job:
        (found,) = self.scheduler.jobs([identifier])
        return found

    def ended(self, *identifiers: str, seconds: float = 60.0) -> list[Job]:
        """When all have ended and no node is drained: who looks at jobs resumes what Slurm drained."""

        def all_ended() -> list[Job] | None:
            time.sleep(0.2)
            jobs = self.scheduler.jobs(identifiers)
            return jobs if all(job.state.final for job in jobs) and not self.drained() else None

        return wait_until(
            all_ended,
            seconds=seconds,
            what=f"the end of {identifiers}",
            last=lambda: f"{self.scheduler.jobs(identifiers)}\n{self.on_controller('sinfo', '-N', '-l')}",
        )

    def running(self, identifier: str, seconds: float = 30.0) -> Job:
        def runs() -> Job | None:
            time.sleep(0.2)
            job = self.job(identifier)
            assert not job.state.final, job
            return job if job.state is JobState.RUNNING else None

        return wait_until(
            runs, seconds=seconds, what=f"{identifier} running", last=lambda: str(self.job(identifier))
        )

    def drained(self) -> str:
        """Nodes that take no jobs, and why."""
        return self.on_controller("sinfo", "-h", "-t", "drain", "-o", "%N %E").strip()

    def resume(self) -> None:
        """Do what an administrator does with nodes that Slurm has drained, for the tests that follow.

        Slurm drains a node of a job that it starts again, where slurmctld was killed between the job's start
        and the next save of its state ("Duplicate jobid").
        """
        if self.drained():
            self.on_controller("scancel", "--user", "root")
            self.on_controller("scontrol", "update", "NodeName=ALL", "State=RESUME")

    def marked(self, name: str) -> int:
        """How often a job that marks itself has begun."""
        path = self.marks / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def kill_controller(self) -> None:
        self.on_controller("pkill", "-KILL", "-x", "slurmctld")
        wait_until(
            lambda: True if self.on_controller("pgrep", "-x", "slurmctld") == "" else None,
            seconds=5,
            what="the end of slurmctld",
            last=lambda: self.on_controller("pgrep", "-x", "-l", "slurmctld"),
        )

    def start_controller(self) -> None:
        self.on_controller("/bin/sh", "-c", "slurmctld </dev/null >/dev/null 2>&1")


def request(*command: str, **values: Any) -> JobRequest:
    defaults: dict[str, Any] = {
        "directory": "/tmp",
        "environment": ENVIRONMENT,
        "libraries": LIBRARIES,
        "memory_bytes": 30 * MIB,
    }
    return JobRequest(command=command, **defaults | values)


def marking(grid: Grid, name: str, seconds: float, **values: Any) -> JobRequest:
    """A job that leaves a line each time that its command begins."""
    text = 'echo begun >> "$1${GRIDWRIGHT_ARRAY_INDEX}"; sleep "$2"'
    # A test that is run again counts anew.
    for left in (grid.marks / name, *grid.marks.glob(f"{name}[0-9]*")):
        left.unlink(missing_ok=True)
    return request("sh", "-c", text, "sh", str(grid.marks / name), str(seconds), name=name, **values)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("lab")
    spec = directory / "grid.yaml"
    spec.write_text(SPEC)
    made = Lab(Command(directory), spec, NAME)
    made.down()
    with up(made):
        yield made


@pytest.fixture
def grid(lab: Lab) -> Iterator[Grid]:
    grid = Grid(lab)
    yield grid
    grid.resume()


def test_bytes_arrive_through_slurm(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do variables of the caller's that would change options of sbatch."""
    for name, value in {
        "SBATCH_ARRAY_INX": "1-3",
        "SBATCH_QOS": "",
        "SBATCH_ERROR": "/tmp/x",
        "SQUEUE_FORMAT": "%i",
    }.items():
        monkeypatch.setenv(name, value)
    words = [
        "",
        "a b",
        "*",
        "$HOME",
        "`x`",
        '"',
        "\\",
        "\n",
        "-n",
        "--",
        "x=y",
        "é",
        os.fsdecode(b"\xff\xfe"),
    ]
    variables = {
        "LINES": "a\nb\n",
        "COMMAS": "a,b, c",
        "BYTES": os.fsdecode(b"\x80\xff"),
        "EMPTY": "",
        "SBATCH_QOS": "kept for the job itself",
        "BASH_FUNC_module%%": "() {  eval x\n}",
    }
    dump = 'print join("\\0", @ARGV), "\\0\\1\\0"; open F, "/proc/self/environ"; local $/; print <F>'
    (identifier,) = grid.submit(
        request("perl", "-e", dump, "--", *words, environment=ENVIRONMENT | variables)
    )
    (job,) = grid.ended(identifier)
    assert job.exit_status == 0
    assert job.log is not None
    arguments, _, environment = Path(job.log).read_bytes().partition(b"\0\1\0")
    assert arguments.split(b"\0") == [os.fsencode(word) for word in words]
    found = dict(part.split(b"=", 1) for part in environment.split(b"\0") if part)
    for name, value in variables.items():
        assert found[os.fsencode(name)] == os.fsencode(value)
    assert found[b"GRIDWRIGHT_MEMORY_BYTES"] == str(30 * MIB).encode()
    assert found[b"GRIDWRIGHT_JOB_ID"] == identifier.encode()


def test_ends_are_told_as_they_were(grid: Grid) -> None:
    eats = "x = bytearray(400 * 2**20)"
    fails, killed, missing, large, array = grid.submit(
        request("sh", "-c", "exit 3"),
        request("sh", "-c", "kill -9 $$"),
        request("no-such-program"),
        request("python3", "-c", eats, memory_bytes=60 * MIB),
        request("sh", "-c", "exit $((GRIDWRIGHT_ARRAY_INDEX % 2))", array=range(1, 21)),
    )
    jobs = {job.id: job for job in grid.ended(fails, killed, missing, large, array)}
    assert (jobs[fails].state, jobs[fails].exit_status) == (JobState.FAILED, 3)
    assert (jobs[killed].state, jobs[killed].exit_status, jobs[killed].signal) == (JobState.FAILED, None, 9)
    assert jobs[missing].exit_status == 127
    assert jobs[large].state is JobState.OUT_OF_MEMORY
    assert [jobs[f"{array}_{index}"].exit_status for index in range(1, 21)] == [1, 0] * 10
    assert grid.left() == "", "private directories are left"


def test_a_cancelled_job_and_what_waited_for_it_are_cancelled_and_leave_nothing(grid: Grid) -> None:
    stubborn = "trap '' TERM; echo up; sleep 300; sleep 300"
    first, wide = grid.submit(
        request("sh", "-c", stubborn), request("sleep", "300", array=[1, 2, 3], cores=4)
    )
    (after,) = grid.submit(request("true", after=[first]))
    grid.running(first)
    assert "after" in str(grid.scheduler.explain(after).candidates[0])
    waiting = [job for job in grid.scheduler.jobs([wide]) if job.state is JobState.WAITING]
    assert waiting
    assert grid.scheduler.explain(wide).job.state is JobState.WAITING
    grid.scheduler.cancel([first, f"{wide}_3", f"{wide}_1"])
    jobs = {job.id: job for job in grid.ended(first, after, f"{wide}_3", f"{wide}_1")}
    assert {job.state for job in jobs.values()} == {JobState.CANCELLED}
    assert jobs[after].reason == f"job {first}, which it waited for, did not complete"
    grid.scheduler.cancel([wide])
    grid.ended(wide)
    assert grid.left() == "", "directories of a job that was killed are left"


@pytest.mark.parametrize(
    "delay_s",
    [pytest.param(0.0, marks=pytest.mark.thorough), 0.4, pytest.param(0.9, marks=pytest.mark.thorough)],
)
def test_no_job_is_lost_or_doubled_when_slurmctld_is_killed_after_a_submission(
    grid: Grid, delay_s: float
) -> None:
    name = f"killed{delay_s}-{secrets.token_hex(3)}"
    identifiers = grid.submit(
        marking(grid, f"{name}-short", 0.1),
        marking(grid, f"{name}-long", 4),
        marking(grid, f"{name}-restarts", 4, restart=True),
        marking(grid, f"{name}-array", 0.1, array=range(1, 9)),
    )
    time.sleep(delay_s)
    grid.kill_controller()
    time.sleep(1)
    grid.start_controller()
    jobs = {job.id: job for job in grid.ended(*identifiers, seconds=120)}
    short, long, restarts, array = identifiers
    assert set(jobs) == {short, long, restarts, *(f"{array}_{index}" for index in range(1, 9))}
    assert jobs[short].state is JobState.COMPLETED
    assert [jobs[f"{array}_{index}"].state for index in range(1, 9)] == [JobState.COMPLETED] * 8
    assert jobs[restarts].state is JobState.COMPLETED
    begun = {each.name.removeprefix(name): grid.marked(each.name) for each in grid.marks.glob(f"{name}*")}
    assert begun["-short"] == 1
    assert [begun[f"-array{index}"] for index in range(1, 9)] == [1] * 8
    assert begun["-long"] == 1
    assert jobs[long].state in (JobState.COMPLETED, JobState.NODE_FAILED)
    assert begun["-restarts"] <= 2
    assert grid.drained() == ""


def test_a_cancellation_survives_a_killed_slurmctld(grid: Grid) -> None:
    (identifier,) = grid.submit(request("sleep", "300"))
    grid.running(identifier)
    time.sleep(6)  # slurmctld has saved the running job
    grid.scheduler.cancel([identifier])
    grid.kill_controller()
    grid.start_controller()
    (job,) = grid.ended(identifier)
    assert job.state is JobState.CANCELLED
    wait_until(
        lambda: True if grid.on_controller("squeue", "-h", "-t", "PD,R") == "" else None,
        seconds=30,
        what="an empty queue",
        last=lambda: grid.on_controller("squeue"),
    )


def test_a_submission_while_slurmctld_is_down_is_kept_and_handed_in(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "PATIENCE_S", 1.0)
    monkeypatch.setattr(submission, "PATIENCE_S", 1.0)
    (before,) = grid.submit(request("true"))
    grid.ended(before)
    grid.kill_controller()
    try:
        with pytest.raises(GridwrightError) as caught:
            grid.submit(marking(grid, "kept", 0))
        assert caught.value.status is ExitStatus.ENVIRONMENT
        assert "the next command of Gridwright hands it in" in str(caught.value)
    finally:
        grid.start_controller()
    grid.scheduler.jobs()
    (kept,) = [job for job in grid.scheduler.jobs() if job.name == "kept"]
    (job,) = grid.ended(kept.id)
    assert job.state is JobState.COMPLETED
    assert grid.marked("kept") == 1


def test_what_slurm_cannot_give_is_refused_with_a_remedy(grid: Grid) -> None:
    with pytest.raises(GridwrightError) as caught:
        grid.submit(
            request("true", cores=99), request("true", queue="nigth"), request("true", node="compute9")
        )
    assert caught.value.status is ExitStatus.INPUT
    text = str(caught.value)
    assert "99 cores, and no node of queue batch has more than 4" in text
    assert "did you mean night?" in text
    assert "has no node compute9" in text


def test_a_queue_has_the_nodes_of_its_groups_and_their_memory(grid: Grid) -> None:
    with pytest.raises(GridwrightError) as caught:
        grid.submit(request("true", queue="wide", cores=3), request("true", queue="wide", node="compute1"))
    assert "3 cores, and no node of queue wide has more than 2" in str(caught.value)
    assert "compute1" in str(caught.value)
    mine, narrow = grid.submit(
        request("true", queue="wide", memory_bytes=None), request("true", memory_bytes=None)
    )
    assert [job.state for job in grid.ended(mine, narrow)] == [JobState.COMPLETED, JobState.COMPLETED]
    assert grid.job(mine).node == "wide1"
    assert grid.job(narrow).node != "wide1"
    partition = grid.on_controller("scontrol", "-o", "show", "partition", "wide")
    assert "Nodes=wide1 " in partition
    assert "DefMemPerCPU=1024 " in partition, "a gibibyte for each of two cores, where others have a quarter"


def test_jobs_of_a_node_that_loses_power_start_elsewhere_or_are_told_failed(grid: Grid) -> None:
    restarts, stays = grid.submit(
        marking(grid, "power-restarts", 20, restart=True, cores=2),
        marking(grid, "power-stays", 60, cores=2, node="compute1"),
    )
    node = grid.running(restarts).node
    grid.running(stays)
    assert grid.lab.fault("power-off", "compute1").status == 0
    try:
        jobs = {job.id: job for job in grid.ended(restarts, stays, seconds=120)}
        assert jobs[stays].state is JobState.NODE_FAILED
        assert jobs[stays].reason == "its node failed"
        assert jobs[restarts].state is JobState.COMPLETED
        if node == "compute1":
            assert (jobs[restarts].node, jobs[restarts].restarts) == ("compute2", 1)
            assert grid.marked("power-restarts") == 2
        down_node = {each.name: each for each in grid.scheduler.nodes()}["compute1"]
        assert not down_node.up
        assert "responding" in (down_node.reason or "")
    finally:
        assert grid.lab.fault("power-on", "compute1").status == 0


def test_options_arrive_in_slurm(grid: Grid) -> None:
    """Reservation, features and licences are made as an administrator makes them; QOS needs slurmdbd."""
    grid.on_controller(
        "/bin/sh", "-c", "echo Licenses=sas:3,ora:1 >>/etc/slurm/slurm.conf; scontrol reconfigure"
    )
    grid.on_controller(
        "scontrol", "update", "NodeName=compute2", "AvailableFeatures=fast", "ActiveFeatures=fast"
    )
    grid.on_controller(
        "scontrol",
        "create",
        "reservation",
        "ReservationName=audit",
        "StartTime=now",
        "Duration=10:00",
        "Users=root",
        "Nodes=compute2",
    )
    begin = time.time() + 600
    options = JobOptions(
        account="sales",
        begin=begin,
        constraint="fast",
        licences=["sas:2", "ora"],
        mail="ann@example.com",
        mail_on=["begin", "fail"],
        nice=42,
        reservation="audit",
    )
    (identifier,) = grid.submit(request("true", options=options))
    shown = grid.on_controller("scontrol", "-o", "show", "job", identifier)
    words = dict(word.partition("=")[::2] for word in shown.split())
    wanted = {
        "Account": "sales",
        "Features": "fast",
        "Licenses": "sas:2,ora",
        "MailUser": "ann@example.com",
        "MailType": "BEGIN,FAIL",
        "Nice": "42",
        "Reservation": "audit",
    }
    assert {name: words.get(name) for name in wanted} == wanted, shown
    starts = grid.on_controller("squeue", "-h", "-j", identifier, "-O", "StartTime:40").strip()
    assert time.mktime(time.strptime(starts, "%Y-%m-%dT%H:%M:%S")) == pytest.approx(begin, abs=5)
    assert grid.job(identifier).reason == "its start time has not come"
    grid.scheduler.cancel([identifier])
    grid.on_controller("scontrol", "delete", "ReservationName=audit")
    for values, what in (
        ({"reservation": "nope"}, "no such reservation"),
        ({"constraint": "nope"}, "no node has the feature nope"),
        ({"licences": ["nope"]}, "Slurm has no licence nope"),
        ({"gres": ["gpu:1"]}, "Slurm has no resource gpu"),
    ):
        with pytest.raises(GridwrightError) as refused:
            grid.submit(request("true"), request("true", after=["#0"], options=JobOptions(**values)))
        assert refused.value.status is ExitStatus.INPUT
        assert what in str(refused.value)
    assert [job for job in grid.scheduler.jobs() if not job.state.final] == [], (
        "one was submitted without the other"
    )


def test_what_nodes_do_not_see_is_refused_and_long_commands_are_told_as_such(
    grid: Grid, tmp_path: Path
) -> None:
    (tmp_path / "in").touch()
    seen = JobOptions(stdin="/etc/hostname", stdout="/tmp/out-{job}")
    (identifier,) = grid.submit(request("cat", options=seen))
    unseen = JobOptions(stdin=f"{tmp_path}/in", stderr=f"{tmp_path}/err")
    with pytest.raises(GridwrightError) as refused:
        grid.submit(request("true", directory=str(tmp_path), options=unseen))
    assert {each.where for each in refused.value.problems} == {"directory", "stdin", "stderr"}
    with pytest.raises(GridwrightError) as refused:
        grid.submit(request("echo", *["x" * 100_000] * 14))
    assert "have 1400019 bytes, and slurmctld takes a command line of 1048576" in str(refused.value)
    (long,) = grid.submit(request("sh", "-c", 'test "$#" = 10', "sh", *["x" * 100_000] * 10))
    assert [job.state for job in grid.ended(identifier, long)] == [JobState.COMPLETED] * 2
