"""What the protocol of schedulers promises, held on each of them.

Slurm and Grid Engine are real, on labs; LSF is a double (tests/support/lsf_double).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.providers import head_node
from gridwright.schedulers import scheduler_kind
from gridwright.schedulers.job import Job, JobOptions, JobRequest, JobState
from gridwright.schedulers.scheduler import Scheduler
from gridwright.spec import load_spec
from tests.support.batch_places import lsf_grid, private
from tests.support.command import Command, wait_until
from tests.support.lab import Lab, up
from tests.support.local_grid import local_grid

pytestmark = pytest.mark.root

LAB = """\
name: sched
provider: lab
lab: {{network: {network}, bandwidth: 20 MB/s}}
nodes:
  compute: {{count: 3, cores: 16, memory: 2 GiB}}   # more slots than cores: they are filled once a second
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: {type}}}
"""
NETWORKS = {"slurm": "10.80.0.0/24", "grid_engine": "10.144.0.0/24"}
PRINT_BYTES = (
    "import json, os, sys; print(json.dumps({'arguments': [os.fsencode(a).hex() for a in sys.argv[1:]], "
    "'environment': {k.hex(): v.hex() for k, v in os.environb.items()}}))"
)
HOLD = "import time; held = bytearray(400_000_000); time.sleep(100)"
WORDS = [
    "",
    "two words",
    "'\"`$HOME $(echo x) \\",
    "line\nline\r\ttab",
    "*",
    "-n",
    "--",
    "--wrap=x",
    "; exit 1",
    "%j %A",
    "é – 日本",  # noqa: RUF001 - an en dash is among the bytes
    os.fsdecode(b"\xff\xfe not UTF-8 \x80"),
    " ends in a line\n",
]
VARIABLES = {f"TRICKY_{number}": word for number, word in enumerate(WORDS)} | {"TRICKY_EQUALS": "a=b=c"}


@dataclass(frozen=True, slots=True)
class Place:
    """A grid, and how it is looked at."""

    command: Command
    file: Path
    scheduler: Scheduler
    private: Callable[[], str]
    """What is in work and util."""
    shared: str
    """A directory that nodes see."""
    read: Callable[[str], str]
    """What is in a file there."""

    def request(self, *command: str, **fields: object) -> JobRequest:
        spec = load_spec(self.file)
        given: dict[str, object] = {
            "command": command,
            "directory": "/tmp",
            "environment": {"PATH": "/usr/bin:/bin"},
            "libraries": {name: str(spec.library_directory(name)) for name in spec.libraries},
            "memory_bytes": 64 << 20,
        }
        return JobRequest(**(given | fields))  # type: ignore[arg-type]

    def ended(self, identifier: str, seconds: float = 240.0) -> list[Job]:
        waited = self.command("wait", "--grid", self.file, "--json", identifier, seconds=seconds)
        jobs = self.scheduler.jobs([identifier])
        completed = all(job.state is JobState.COMPLETED for job in jobs)
        assert waited.status == (0 if completed else 1), waited.err
        assert [each["id"] for each in waited.json["jobs"]] == [job.id for job in jobs]
        return jobs


@pytest.fixture(scope="module", params=["local", *NETWORKS, pytest.param("lsf", marks=pytest.mark.thorough)])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("sched")
    command = Command(directory)
    if request.param == "local":
        with local_grid(directory / "grid", cores=8) as grid:
            yield Place(
                command,
                grid.file,
                grid.scheduler(),
                lambda: "".join(map(str, grid.private())),
                str(grid.directory),
                lambda path: Path(path).read_text(),
            )
        return
    if request.param == "lsf":
        with lsf_grid(directory) as file:
            spec = load_spec(file)
            scheduler = scheduler_kind(spec.scheduler).open(spec, head_node(spec))
            shared = directory / "shared"
            yield Place(
                command,
                file,
                scheduler,
                lambda: "".join(map(str, private(shared))),
                str(shared),
                lambda path: Path(path).read_text(),
            )
        return
    file = directory / "sched.yaml"
    file.write_text(LAB.format(type=request.param, network=NETWORKS[request.param]))
    with up(Lab(command, file, "sched")) as lab:
        spec = load_spec(file)
        look = ["find", "/mnt/grid/work", "/mnt/grid/util", "-mindepth", "1"]
        scheduler = scheduler_kind(spec.scheduler).open(spec, head_node(spec))
        yield Place(
            command,
            file,
            scheduler,
            lambda: lab.run("compute1", *look).out,
            "/mnt/grid",
            lambda path: lab.run("compute1", "cat", path).out,
        )


@pytest.fixture(scope="module")
def numbers(place: Place) -> Mapping[str, str]:
    """Jobs of all kinds, submitted together: Slurm ends one over its time after a minute."""
    requests = {
        "fails": place.request("sh", "-c", "echo out; echo err >&2; exit 7"),
        "killed": place.request("sh", "-c", "kill -9 $$"),
        "memory": place.request(sys.executable, "-S", "-c", HOLD, memory_bytes=100 << 20),
        "time": place.request("sleep", "1000", time_limit_s=2.0),
        "cancelled": place.request("sleep", "1000"),
        "first": place.request("sleep", "1"),
        "bytes": place.request(
            sys.executable, "-S", "-c", PRINT_BYTES, *WORDS, environment=VARIABLES, name="two words\n'"
        ),
        "private": place.request(
            "sh",
            "-c",
            'env; mkdir -p "$GRIDWRIGHT_WORK/a/b"; echo >"$GRIDWRIGHT_UTIL/c"; stat -c %a "$GRIDWRIGHT_WORK"',
            cores=2,
        ),
        "missing": place.request("/no/such/program"),
    }
    found = dict(zip(requests, place.scheduler.submit(list(requests.values())), strict=True))
    after = {
        "after": place.request("true", after=[found["first"]]),
        "never": place.request("true", after=[found["first"], found["fails"]]),
    }
    return found | dict(zip(after, place.scheduler.submit(list(after.values())), strict=True))


@pytest.fixture(scope="module")
def together(place: Place) -> Mapping[str, str]:
    """Jobs of one submission that wait for each other in every way, and one with all files of its own."""
    nice = 10 if "nice" in load_spec(place.file).scheduler.job_options else 0
    fails_second = ("sh", "-c", 'test "$GRIDWRIGHT_ARRAY_INDEX" != 2')
    requests = {
        "prepares": place.request("sh", "-c", f"echo read me >{place.shared}/in.txt", name="prepares"),
        "array": place.request(*fails_second, array=[1, 2, 3], name="array"),
        "each": place.request("true", array=[1, 2, 3], after=["each:#1"], name="each"),
        "ok": place.request("true", after=["#1"], name="ok"),
        "not-ok": place.request("true", after=["not-ok:#1"], name="not-ok"),
        "unneeded": place.request("true", after=["not-ok:#0"], name="unneeded"),
        "any": place.request("true", after=["any:#1", "any:#3"], name="any"),
        "begins": place.request(
            "sleep",
            "0",
            after=["#0"],
            options=JobOptions(begin=time.time() + 4, nice=nice, account="sales", flow="nightly/1"),
            name="begins",
        ),
    }
    return dict(zip(requests, place.scheduler.submit(list(requests.values())), strict=True))


def test_jobs_of_one_submission_wait_for_each_other(place: Place, together: Mapping[str, str]) -> None:
    ends = {name: place.ended(number) for name, number in together.items()}
    states = {name: [job.state.value for job in jobs] for name, jobs in ends.items()}
    assert states == {
        "prepares": ["completed"],
        "array": ["completed", "failed", "completed"],
        "each": ["completed", "cancelled", "completed"],
        "ok": ["cancelled"],
        "not-ok": ["completed"],
        "unneeded": ["cancelled"],
        "any": ["completed"],
        "begins": ["completed"],
    }
    array, prepares = together["array"], together["prepares"]
    assert f"{array}_2, which it waited for, did not complete" in str(ends["each"][1].reason)
    assert f"job {array}, which it waited for, did not complete" in str(ends["ok"][0].reason)
    assert f"job {prepares}, after whose failure it was to start, completed" in str(
        ends["unneeded"][0].reason
    )
    assert ends["array"][1].reason == "exit status 1"


def test_a_job_starts_no_sooner_than_it_is_to_begin(place: Place, together: Mapping[str, str]) -> None:
    (job,) = place.ended(together["begins"])
    assert job.submitted is not None and job.started is not None
    # Slurm counts in whole seconds.
    assert job.started - job.submitted > 2.5
    assert job.flow == "nightly/1"


def test_a_job_reads_and_writes_files_of_its_own(place: Place, together: Mapping[str, str]) -> None:
    place.ended(together["prepares"])
    options = JobOptions(
        stdin=f"{place.shared}/in.txt",
        stdout=f"{place.shared}/out {{job}}-{{index}} 100%.txt",
        stderr=f"{place.shared}/err-{{name}}",
    )
    script = 'cat; echo "element $GRIDWRIGHT_ARRAY_INDEX" >&2'
    request = place.request("sh", "-c", script, array=[7], name="files%j", options=options)
    (number,) = place.scheduler.submit([request])
    (job,) = place.ended(number)
    assert job.state is JobState.COMPLETED
    assert job.log == f"{place.shared}/out {number}_7-7 100%.txt"
    assert place.read(job.log) == "read me\n"
    assert place.read(f"{place.shared}/err-files%j") == "element 7\n"


def test_what_a_scheduler_cannot_do_is_refused_at_once_and_names_what_to_use_instead(place: Place) -> None:
    section = load_spec(place.file).scheduler
    every = {
        "account": "a",
        "begin": time.time() + 60,
        "constraint": "c",
        "gres": ["gpu:1"],
        "licences": ["sas:1"],
        "mail": "a@b",
        "nice": 5,
        "qos": "q",
        "reservation": "r",
        "stderr": "/tmp/e",
        "stdin": "/etc/passwd",
        "stdout": "/tmp/o",
    }
    with pytest.raises(GridwrightError) as refused:
        place.scheduler.submit(
            [place.request("true", array=range(1, 10_000_001), options=JobOptions(**every))]  # type: ignore[arg-type]
        )
    assert refused.value.status is ExitStatus.INPUT
    problems = refused.value.problems
    assert all(problem.remedy for problem in problems)
    assert "array" in {problem.where for problem in problems}, "all that is wrong is told at once"
    cannot = {problem.where for problem in problems if problem.what.startswith("scheduler ")}
    assert cannot == {*every} - {*section.job_options}
    for problem in problems:
        if problem.where in cannot:
            assert problem.what == f"scheduler {section.type} has no {problem.where} for a job"


def test_arguments_that_are_too_long_are_told_as_such(place: Place) -> None:
    for command, what in (
        (["echo", "x" * 1_400_000], "argument 1 has 1400000 bytes"),
        (["echo", *["x" * 100_000] * 25], "arguments and environment have 2500"),
    ):
        with pytest.raises(GridwrightError) as refused:
            place.scheduler.submit([place.request(*command)])
        assert refused.value.status is ExitStatus.INPUT
        assert what in str(refused.value)


def test_what_jobs_used_is_told(
    place: Place, numbers: Mapping[str, str], together: Mapping[str, str]
) -> None:
    busy = "import time\nwhile time.process_time() < 1.5: pass"
    request = place.request(sys.executable, "-S", "-c", busy, name="busy", options=JobOptions(account="ops"))
    (number,) = place.scheduler.submit([request])
    (job,) = place.ended(number)
    for each in (numbers["fails"], together["begins"]):
        place.ended(each)
    shown = place.command("usage", "--grid", place.file, "--since", "1h", "--by", "job-name", "--json").json
    groups = {each["name"]: each for each in shown["groups"]}
    assert job.started is not None and job.ended is not None
    assert groups["busy"]["core_hours"] == pytest.approx((job.ended - job.started) / 3600, abs=2 / 3600)
    assert groups["busy"]["cpu_hours"] * 3600 == pytest.approx(1.5, abs=0.5)
    assert groups["busy"]["cpu_real"] > 0.1
    assert groups["begins"]["jobs"] == 1
    assert (groups["array"]["jobs"], groups["array"]["completed"]) == (3, 2)
    assert groups["busy"]["cost_usd"] is None
    by_account = place.command("usage", "--grid", place.file, "--by", "account", "--csv")
    assert {"sales", "ops"} <= {line.partition(",")[0] for line in by_account.out.splitlines()}


def text(job: Job) -> str:
    """What it printed."""
    return Path(str(job.log)).read_text(errors="surrogateescape")


def test_a_cancelled_job_ends(place: Place, numbers: Mapping[str, str]) -> None:
    number = numbers["cancelled"]
    wait_until(
        lambda: place.scheduler.jobs([number])[0].state is JobState.RUNNING or None,
        seconds=60,
        what="a start",
        last=lambda: place.scheduler.jobs([number]),
    )
    began = time.monotonic()
    assert place.command("cancel", "--grid", place.file, number).status == 0
    (job,) = place.ended(number, seconds=60)
    assert (job.state, job.exit_status) == (JobState.CANCELLED, None)
    assert time.monotonic() - began < 30


def test_a_failing_job_keeps_its_exit_status_and_its_log(place: Place, numbers: Mapping[str, str]) -> None:
    (job,) = place.ended(numbers["fails"])
    assert (job.state, job.exit_status, job.signal) == (JobState.FAILED, 7, None)
    assert job.reason == "exit status 7"
    assert place.command("logs", "--grid", place.file, job.id).out == "out\nerr\n"


def test_a_job_that_a_signal_ends_did_not_complete(place: Place, numbers: Mapping[str, str]) -> None:
    (job,) = place.ended(numbers["killed"])
    assert job.state is JobState.FAILED
    assert (job.signal, job.exit_status) in [(9, None), (None, 137)]
    assert job.reason == "ended by signal 9 (SIGKILL)"


def test_a_program_that_is_not_there_fails(place: Place, numbers: Mapping[str, str]) -> None:
    (job,) = place.ended(numbers["missing"])
    assert (job.state, job.exit_status) == (JobState.FAILED, 127)
    assert "/no/such/program" in text(job)


def test_a_job_over_its_memory_is_ended(place: Place, numbers: Mapping[str, str]) -> None:
    (job,) = place.ended(numbers["memory"])
    assert job.state is JobState.OUT_OF_MEMORY
    assert "100 MiB" in str(job.reason)
    assert job.started is not None and job.ended is not None
    assert job.ended - job.started < 60


def test_jobs_wait_for_others(place: Place, numbers: Mapping[str, str]) -> None:
    (first,), (after,) = place.ended(numbers["first"]), place.ended(numbers["after"])
    assert (first.state, after.state) == (JobState.COMPLETED, JobState.COMPLETED)
    assert first.ended is not None and after.started is not None
    # Slurm counts in whole seconds.
    assert after.started >= int(first.ended)
    (never,) = place.ended(numbers["never"])
    assert (never.state, never.started) == (JobState.CANCELLED, None)
    assert numbers["fails"] in str(never.reason)


def test_arguments_and_environment_arrive_byte_for_byte(place: Place, numbers: Mapping[str, str]) -> None:
    (job,) = place.ended(numbers["bytes"])
    assert job.state is JobState.COMPLETED, text(job)
    assert job.name == "two words\n'"
    arrived = json.loads(text(job))
    assert [bytes.fromhex(each) for each in arrived["arguments"]] == [os.fsencode(each) for each in WORDS]
    environment = {bytes.fromhex(k): bytes.fromhex(v) for k, v in arrived["environment"].items()}
    for name, value in VARIABLES.items():
        assert environment[name.encode()] == os.fsencode(value), name


def test_private_directories_are_made_before_and_removed_after(
    place: Place, numbers: Mapping[str, str]
) -> None:
    (job,) = place.ended(numbers["private"])
    assert job.state is JobState.COMPLETED, text(job)
    lines = text(job).splitlines()
    assert lines[-1] == "700"
    variables = dict(line.partition("=")[::2] for line in lines if line.startswith("GRIDWRIGHT_"))
    spec = load_spec(place.file)
    assert variables["GRIDWRIGHT_DATA"] == str(spec.library_directory("data"))
    assert Path(variables["GRIDWRIGHT_WORK"]).parent == spec.library_directory("work")
    assert Path(variables["GRIDWRIGHT_UTIL"]).parent == spec.library_directory("util")
    assert (variables["GRIDWRIGHT_JOB_ID"], variables["GRIDWRIGHT_CORES"]) == (job.id, "2")
    assert int(variables["GRIDWRIGHT_MEMORY_BYTES"]) == 64 << 20
    assert "GRIDWRIGHT_ARRAY_INDEX" not in variables


def test_a_daemon_of_a_job_ends_with_it(place: Place) -> None:
    """Sessions and groups of their own, an empty environment, parents that are gone: nothing gets away."""
    daemon = "setsid -f env -i sleep {0}; (setsid sh -c 'sleep {0} & sleep {0}' &) ; sleep {1}"
    # What runs on nodes of a lab is seen here, too.
    mark = 86_000_000 + os.getpid() * 10
    (number,) = place.scheduler.submit([place.request("sh", "-c", daemon.format(mark, 0.2))])
    (ended,) = place.ended(number)
    assert ended.state is JobState.COMPLETED
    assert sleeping(mark) == []

    (number,) = place.scheduler.submit([place.request("sh", "-c", daemon.format(mark + 1, 600))])
    wait_until(
        lambda: sleeping(mark + 1)[:3] if len(sleeping(mark + 1)) >= 3 else None,
        seconds=60.0,
        what="daemons",
        last=lambda: place.scheduler.jobs([number]),
    )
    place.scheduler.cancel([number])
    wait_until(
        lambda: True if not sleeping(mark + 1) else None,
        seconds=30.0,
        what="the end of daemons",
        last=lambda: sleeping(mark + 1),
    )
    assert [job.state for job in place.ended(number)] == [JobState.CANCELLED]


def sleeping(seconds: int) -> list[list[str]]:
    """Processes of this machine, and of labs on it, that sleep for so long."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.cmdline() == ["sleep", str(seconds)]:
                found.append(process.cmdline())
    return found


def test_elements_of_a_large_array_each_run_once(place: Place) -> None:
    # Slurm starts some tens of elements a second; the others run one program more for each.
    many = {"local": 300, "slurm": 100}.get(load_spec(place.file).scheduler.type, 40)
    submitted = place.command(
        "submit",
        "--grid",
        place.file,
        "--directory",
        "/tmp",
        "--array",
        f"1-{many}",
        "--memory",
        "1MiB",
        "--",
        "/bin/true",
    )
    assert submitted.status == 0, submitted.err
    number = submitted.out.strip()
    jobs = place.ended(number)
    assert [job.id for job in jobs] == [f"{number}_{index}" for index in range(1, many + 1)]
    assert {(job.state, job.exit_status, job.restarts) for job in jobs} == {(JobState.COMPLETED, 0, 0)}


def test_a_job_over_its_time_is_ended(place: Place, numbers: Mapping[str, str]) -> None:
    (job,) = place.ended(numbers["time"])
    assert job.state is JobState.TIMED_OUT


def test_nothing_is_left_of_all_that(place: Place, numbers: Mapping[str, str]) -> None:
    for number in numbers.values():
        place.ended(number)
    wait_until(lambda: None if place.private() else True, seconds=30, what="removal", last=place.private)
    nodes = place.scheduler.nodes()
    assert [node.name for node in nodes if not node.up] == []
    assert sum(node.free_cores for node in nodes) == sum(node.cores for node in nodes)
