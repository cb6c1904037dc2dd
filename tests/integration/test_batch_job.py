"""The program that runs a job of a batch system on its node: what the command gets, and what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from gridwright.node_programs.batch_job.job_file import DOOMED, JobFile, Predecessor, RunEnd, read_end
from gridwright.node_programs.one_file import BATCH_JOB
from gridwright.schedulers.batch.submission import BatchDirectories, make_batch_directories
from gridwright.schedulers.job import JobTag
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all, start_as
from tests.support.command import wait_until
from tests.support.oldest_python import beyond_python_3_9

TAG = JobTag("0123456789abcdef", 0)
SHOW = (
    "import json, os, sys; print(json.dumps([[os.fsencode(a).hex() for a in sys.argv[1:]], "
    "{k.hex(): v.hex() for k, v in os.environb.items()}]))"
)
WORDS = [
    "",
    "two words",
    "'\"`$HOME $(echo x) \\",
    "line\nline\r\ttab",
    "-n",
    "é",
    os.fsdecode(b"\xff\xfe \x80"),
]


@dataclass
class Node:
    """A node that starts jobs as a batch system does."""

    directories: BatchDirectories
    libraries: Path
    variables: dict[str, str] = field(default_factory=lambda: {"JOB_ID": "17", "SGE_TASK_ID": "undefined"})

    def job(self, *command: str, **values: object) -> JobFile:
        plain = JobFile(
            command=list(command),
            directory="/",
            environment={"PATH": "/usr/bin:/bin"},
            log=str(self.directories.logs / "job"),
            runs=str(self.directories.runs(TAG)),
            fence=str(self.directories.fence_file(TAG)),
            private=f"gridwright-{TAG}",
            work=str(self.libraries / "work"),
            util=str(self.libraries / "util"),
            kept_prefixes=["SGE_", "JOB_ID"],
        )
        return replace(plain, **values)  # type: ignore[arg-type]

    def start(self, job: JobFile, tag: JobTag = TAG, **variables: str) -> subprocess.Popen[bytes]:
        self.directories.write_job(tag, job)
        command = [str(self.directories.program), str(self.directories.base), str(tag)]
        return subprocess.Popen(command, env=self.variables | variables, start_new_session=True)

    def run(self, job: JobFile, tag: JobTag = TAG, **variables: str) -> int:
        return self.start(job, tag, **variables).wait(60)

    def end(self, name: str = "job.0") -> RunEnd:
        end = read_end(self.directories.runs(TAG) / f"{name}.ended")
        assert end is not None
        return end

    def log(self, name: str = "job") -> str:
        return (self.directories.logs / f"{name}.log").read_text(errors="surrogateescape")

    def private(self) -> list[Path]:
        return [path for name in ("work", "util") for path in (self.libraries / name).glob("*")]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    for name in ("work", "util"):
        (tmp_path / "lib" / name).mkdir(parents=True)
    directories = make_batch_directories(tmp_path / "state", "grid_engine")
    yield Node(directories, tmp_path / "lib")
    left = [each for each in psutil.process_iter() if str(tmp_path) in " ".join(_words(each))]
    assert left == []


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _alive(seconds: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter() if _words(each)[:2] == ["sleep", seconds]]


def test_nodes_need_no_newer_python(tmp_path: Path) -> None:
    assert beyond_python_3_9(BATCH_JOB.archive(), tmp_path) == ""


def test_arguments_and_environment_arrive_byte_for_byte(node: Node) -> None:
    variables = {f"TRICKY_{number}": word for number, word in enumerate(WORDS)} | {
        "A": "a=b\n",
        "PATH": "/usr/bin",
    }
    job = node.job(sys.executable, "-S", "-c", SHOW, *WORDS, environment=variables)
    assert node.run(job, OTHER="of the system") == 0
    arguments, environment = json.loads(node.log())
    assert [bytes.fromhex(each) for each in arguments] == [os.fsencode(each) for each in WORDS]
    found = {bytes.fromhex(name): bytes.fromhex(value) for name, value in environment.items()}
    assert {name: found[name.encode()] for name in variables} == {
        name: os.fsencode(value) for name, value in variables.items()
    }
    assert (found[b"GRIDWRIGHT_JOB_ID"], found[b"JOB_ID"]) == (b"17", b"17")
    assert b"OTHER" not in found
    assert found[b"GRIDWRIGHT_WORK"].endswith(f"/work/gridwright-{TAG}.0".encode())
    assert node.private() == []


@pytest.mark.parametrize(
    ("command", "status", "signal_number"),
    [
        (["true"], 0, None),
        (["sh", "-c", "exit 7"], 7, None),
        (["sh", "-c", "kill -9 $$"], None, 9),
        (["/no/such/program"], 127, None),
        (["/dev/null"], 126, None),
    ],
)
def test_the_end_is_told(
    node: Node, command: list[str], status: int | None, signal_number: int | None
) -> None:
    assert node.run(node.job(*command)) == (status if status is not None else 128 + (signal_number or 0))
    end = node.end()
    assert (end.status, end.signal) == (status, signal_number)
    assert end.started is not None
    assert end.started <= end.ended


def test_a_directory_that_is_not_there_is_named(node: Node) -> None:
    gone = str(node.libraries / "gone")
    assert node.run(node.job("true", directory=gone)) == 1
    assert f"{gone}: No such file or directory" in node.log()


def test_elements_are_counted_from_one_and_have_their_own_index(node: Node) -> None:
    job = node.job("sh", "-c", "echo $GRIDWRIGHT_ARRAY_INDEX $GRIDWRIGHT_JOB_ID", elements=[0, 5, 9])
    assert node.run(job, SGE_TASK_ID="3") == 0
    assert node.log("job_9") == "9 17_9\n"
    assert node.end("9.0").completed


def test_a_daemon_ends_with_its_job(node: Node) -> None:
    job = node.job("sh", "-c", "setsid -f env -i sleep 7311; (setsid sleep 7311 & setsid sleep 7311 &)")
    assert node.run(job) == 0
    assert _alive("7311") == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_whose_first_process_is_ended_leaves_nothing(node: Node, number: signal.Signals) -> None:
    job = node.job("sh", "-c", 'mkdir "$GRIDWRIGHT_WORK/a"; setsid -f env -i sleep 7312; sleep 7312')
    process = node.start(job)
    wait_until(
        lambda: len(_alive("7312")) == 2 or None, seconds=20, what="a daemon", last=lambda: _alive("7312")
    )
    os.kill(process.pid, number)
    process.wait(30)
    wait_until(lambda: not _alive("7312") or None, seconds=20, what="their end", last=lambda: _alive("7312"))
    wait_until(lambda: not node.private() or None, seconds=20, what="removal", last=node.private)
    ended = read_end(node.directories.runs(TAG) / "job.0.ended")
    assert (ended.signal if ended else None) == (signal.SIGTERM if number == signal.SIGTERM else None)


def test_a_job_over_its_memory_is_ended(node: Node) -> None:
    hold = "import time; held = bytearray(200_000_000); time.sleep(100)"
    node.run(node.job(sys.executable, "-S", "-c", hold, limit_bytes=100 << 20))
    assert (node.end().over_bytes or 0) > 100 << 20


def test_memory_is_counted_from_its_own_begin(node: Node) -> None:
    # Before it has begun, its process has the memory of this program.
    assert node.run(node.job("sleep", "1", limit_bytes=1 << 20)) == 0
    assert node.end().completed


def test_a_run_is_not_repeated_unless_it_was_asked_for(node: Node) -> None:
    job = node.job("sh", "-c", "echo ran")
    assert (node.run(job), node.run(job)) == (0, 0)
    assert node.log() == "ran\n"
    (node.directories.runs(TAG) / "job.0.ended").unlink()
    assert node.run(job) == 75
    assert node.run(replace(job, restart=True)) == 0
    assert node.log() == "ran\nran\n"
    assert node.end("job.1").completed


def test_a_fence_keeps_a_job_from_beginning(node: Node) -> None:
    node.directories.fence(TAG)
    assert node.run(node.job("sh", "-c", "echo ran")) == 0
    assert node.log() == ""
    assert node.directories.last_runs(TAG) == {}


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("kind", "status", "runs"),
    [
        ("ok", 0, True),
        ("ok", 3, False),
        ("ok", None, False),
        ("any", 3, True),
        ("any", None, True),
        ("not-ok", 0, False),
        ("not-ok", 3, True),
        ("not-ok", None, True),
    ],
)
def test_a_job_looks_at_those_it_waited_for(node: Node, kind: str, status: int | None, runs: bool) -> None:
    other = JobTag("fedcba9876543210", 0)
    before = replace(node.job("sh", "-c", f"exit {status}"), runs=str(node.directories.runs(other)))
    node.run(before, other)
    if status is None:
        (node.directories.runs(other) / "job.0.ended").unlink()
    after = node.job("true", after=[Predecessor("16", str(node.directories.runs(other)), [-1], kind)])
    assert node.run(after) == (0 if runs else DOOMED)
    assert (node.end().doomed, node.end().completed) == (("", True) if runs else ("16", False))
    assert node.end().unneeded == (kind == "not-ok" and not runs)


def test_an_element_waits_for_the_element_of_its_index(node: Node) -> None:
    other = JobTag("fedcba9876543210", 0)
    before = node.job("sh", "-c", "exit $((GRIDWRIGHT_ARRAY_INDEX - 4))", elements=[4, 5])
    before = replace(before, runs=str(node.directories.runs(other)))
    for position in ("1", "2"):
        node.run(before, other, SGE_TASK_ID=position)
    waits = [Predecessor("16", str(node.directories.runs(other)), [4, 5], "each")]
    after = node.job("true", elements=[4, 5], after=waits)
    assert [node.run(after, SGE_TASK_ID=position) for position in ("1", "2")] == [0, DOOMED]
    assert (node.end("4.0").completed, node.end("5.0").doomed) == (True, "16_5")


@pytest.mark.skipif(os.geteuid() != 0, reason="other users' ids take root")
def test_private_directories_that_somebody_made_beforehand_are_not_used(node: Node, tmp_path: Path) -> None:
    """Mallory reads the tag in the list of jobs."""
    open_to_all(tmp_path)
    for place, names, files in os.walk(node.directories.base):
        for name in (".", *names, *files):
            os.chown(Path(place, name), ALICE, ALICE)
    libraries = [node.libraries / name for name in ("work", "util")]
    for each in libraries:
        each.chmod(0o1777)
    (tmp_path / "mallorys").mkdir()
    (tmp_path / "mallorys").chmod(0o777)
    taken = [library / f"gridwright-{TAG}.{run}" for library, run in zip(libraries, (0, 0), strict=True)]

    def mallory() -> None:
        taken[0].mkdir()
        taken[0].chmod(0o777)
        taken[1].symlink_to(tmp_path / "mallorys")

    as_user(MALLORY, mallory)
    script = (
        "touch $GRIDWRIGHT_WORK/a $GRIDWRIGHT_UTIL/a; mkdir -p $GRIDWRIGHT_WORK/d/e;"
        " ln -s / $GRIDWRIGHT_WORK/d/root; chmod 0 $GRIDWRIGHT_WORK/d;"
        " stat -L -c %u:%a:%n $GRIDWRIGHT_WORK $GRIDWRIGHT_UTIL"
    )
    as_user(ALICE, lambda: node.directories.write_job(TAG, node.job("sh", "-c", script)))
    command = [str(node.directories.program), str(node.directories.base), str(TAG)]
    assert start_as(ALICE, command, env=node.variables, start_new_session=True).wait(60) == 0
    for library, line in zip(libraries, node.log().splitlines(), strict=True):
        owner, mode, path = line.split(":")
        assert (owner, mode) == (str(ALICE), "700")
        assert path.startswith(f"{library}/gridwright-{TAG}.0.")
    assert node.private() == taken, "what the job left is removed, and what is mallory's stays"
    assert list((tmp_path / "mallorys").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="other users' ids take root")
def test_a_job_removes_what_it_made_and_not_what_has_got_its_name(node: Node, tmp_path: Path) -> None:
    """Who may write a library that is not sticky gives the name to another directory of that user."""
    open_to_all(tmp_path)
    for place, _, names in os.walk(tmp_path):
        for name in (".", *names):
            os.chown(Path(place, name), ALICE, ALICE)
    library = node.libraries / "work"
    library.chmod(0o777)
    results = library / "results"
    script = "mkdir $GRIDWRIGHT_WORK/a; touch $GRIDWRIGHT_WORK/a/b; until [ -e $0 ]; do sleep 0.05; done"

    def alice() -> None:
        results.mkdir(0o755)
        (results / "rows").write_text("dear")
        node.directories.write_job(TAG, node.job("sh", "-c", script, str(tmp_path / "go")))

    as_user(ALICE, alice)
    command = [str(node.directories.program), str(node.directories.base), str(TAG)]
    job = start_as(ALICE, command, env=node.variables, start_new_session=True)
    wait_until(lambda: [*library.glob("gridwright-*/a/b")] or None, seconds=60, what="job", last=node.private)
    (private,) = library.glob("gridwright-*")

    def mallory() -> None:
        private.rename(library / "away")
        results.rename(private)

    as_user(MALLORY, mallory)
    (tmp_path / "go").touch()
    assert job.wait(60) == 0
    assert (private / "rows").read_text() == "dear"
    assert list((library / "away").iterdir()) == []


def test_a_library_that_is_missing_is_not_made_by_a_job(node: Node) -> None:
    (node.libraries / "util").rmdir()
    assert node.run(node.job("echo", "ran")) == 1
    assert str(node.libraries / "util") in node.log()
    assert node.private() == []


def test_output_goes_where_it_was_asked_to(node: Node) -> None:
    given = node.libraries / "given"
    given.write_text("read\n")
    job = node.job(
        "sh",
        "-c",
        "cat; echo complains >&2",
        name="a b",
        input=str(given),
        output=str(node.libraries / "{name}-{job}-{index}.out"),
        error=str(node.libraries / "err"),
        elements=[3],
    )
    assert node.run(job, SGE_TASK_ID="1") == 0
    assert (node.libraries / "a b-17_3-3.out").read_text() == "read\n"
    assert (node.libraries / "err").read_text() == "complains\n"
