"""The script that runs jobs, under the shells that /bin/sh is: what the command gets, and what is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.recorded import private_prefix
from gridwright.schedulers.batch.submission import sweep_command
from gridwright.schedulers.job import JobRequest, JobTag
from gridwright.schedulers.job_request import what_is_too_long
from gridwright.schedulers.slurm.job_script import (
    exported,
    script_arguments,
    script_file,
    slurm_environment,
)
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all
from tests.support.command import wait_until
from tests.support.examples import examples

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
TAG = JobTag("0123456789abcdef", 0)
SLURMS = {
    "SLURM_JOB_ID": "17",
    "SLURM_MEM_PER_NODE": "20",
    "SLURM_CPUS_ON_NODE": "2",
    "SLURMD_NODENAME": "n1",
}
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
DUMP = [
    "perl",
    "-e",
    'print join("\\0", @ARGV), "\\0\\1\\0"; open F, "/proc/self/environ"; local $/; print <F>',
    "--",
]
"""Prints its arguments and its environment, each with a NUL behind."""


@dataclass
class Node:
    """A node that runs the script as slurmd does."""

    base: Path
    shell: str
    slurms: dict[str, str] = field(default_factory=lambda: dict(SLURMS))
    user: int | None = None
    """Whose job it is; None for whoever runs this."""
    script: str = field(init=False)

    def __post_init__(self) -> None:
        self.script = str(script_file(self.base))
        for name in ("fences", "runs", "leftovers"):
            (self.base / name).mkdir()
        for name in self.libraries:
            (self.base / "lib" / name).mkdir(parents=True)

    @property
    def libraries(self) -> dict[str, str]:
        return {name: str(self.base / "lib" / name) for name in ("data", "work", "util")}

    def start(
        self, *command: str, identifier: str = "", again: bool = False, **values: object
    ) -> subprocess.Popen[bytes]:
        for run in () if again else list((self.base / "runs").glob("*")):
            run.unlink()
        chosen = {"environment": ENVIRONMENT, "directory": "/", "libraries": self.libraries} | values
        request = JobRequest(command=command, **chosen)  # type: ignore[arg-type]
        environment = slurm_environment(request)
        arguments = script_arguments(
            request, state=self.base, tag=TAG, identifier=identifier, environment=environment
        )
        variables = exported(environment) + exported(self.slurms)
        user = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [self.shell, self.script, *arguments],
            env=dict(part.split(b"=", 1) for part in variables.split(b"\0") if part),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **user,
        )

    def run(
        self, *command: str, identifier: str = "", again: bool = False, **values: object
    ) -> tuple[int, bytes]:
        process = self.start(*command, identifier=identifier, again=again, **values)
        out, _ = process.communicate(timeout=20)
        return process.returncode, out

    def dump(
        self, arguments: Sequence[str], environment: Mapping[str, str] = ENVIRONMENT
    ) -> tuple[list[bytes], dict[bytes, bytes]]:
        status, out = self.run(*DUMP, *arguments, environment=environment)
        assert status == 0, out
        words, _, variables = out.partition(b"\0\1\0")
        found = dict(part.split(b"=", 1) for part in variables.split(b"\0") if part)
        return words.split(b"\0"), found

    def private(self) -> list[str]:
        return sorted(each.name for each in (self.base / "lib").glob("*/gridwright-*"))


@pytest.fixture(params=SHELLS)
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Node:
    return Node(tmp_path, request.param)


def test_there_are_shells_to_test() -> None:
    assert SHELLS


HARD = [
    "",
    "a b",
    "*",
    "$HOME",
    "`x`",
    '"',
    "'",
    "\\",
    "\n",
    "-n",
    "--",
    "a=b",
    "é",
    os.fsdecode(b"\xff\xfe"),
]


def test_arguments_arrive_byte_for_byte(node: Node) -> None:
    assert node.dump(HARD)[0] == [os.fsencode(each) for each in HARD]


def test_the_environment_arrives_byte_for_byte(node: Node) -> None:
    environment = {
        "PATH": "/usr/bin:/bin",
        "SPACE": " a  b ",
        "LINES": "a\nb\n",
        "QUOTES": "\"'`$(id)",
        "BYTES": os.fsdecode(b"\xff\x80"),
        "EMPTY": "",
        "EQUALS": "a=b=",
        "a.b-c": "a name that no shell has",
        "BASH_FUNC_module%%": "() {  eval `x`\n}",
        "IFS": "x",
        "PS4": "y",
        "SBATCH_QOS": "night",
    }
    _, found = node.dump(["x"], environment)
    assert {name: found.get(os.fsencode(name)) for name in environment} == {
        name: os.fsencode(value) for name, value in environment.items()
    }


BYTES = st.binary(max_size=20).map(lambda content: os.fsdecode(content.replace(b"\0", b"")))
NAMES = st.text("abcXYZ_.-%09", min_size=1, max_size=9).filter(lambda name: name not in ("_",))


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    arguments=st.lists(BYTES, min_size=1, max_size=4), environment=st.dictionaries(NAMES, BYTES, max_size=4)
)
def test_any_bytes_arrive(node: Node, arguments: list[str], environment: dict[str, str]) -> None:
    words, found = node.dump(arguments, environment | ENVIRONMENT)
    assert words == [os.fsencode(each) for each in arguments]
    for name, value in environment.items():
        assert found[os.fsencode(name)] == os.fsencode(value)


def test_a_program_with_an_equals_sign_is_no_variable(node: Node) -> None:
    program = node.base / "a=b"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    assert node.run(str(program), environment=ENVIRONMENT | {"odd.name": "x"}) == (0, b"ran\n")


def test_what_says_something_of_the_job_that_submits_is_not_handed_on(node: Node) -> None:
    outer = {"SLURM_ARRAY_TASK_ID": "9", "GRIDWRIGHT_ARRAY_INDEX": "9", "GRIDWRIGHT_WORK": "/other"}
    _, found = node.dump(["x"], ENVIRONMENT | outer)
    assert b"SLURM_ARRAY_TASK_ID" not in found
    assert b"GRIDWRIGHT_ARRAY_INDEX" not in found
    assert found[b"GRIDWRIGHT_WORK"] == os.fsencode(f"{node.base}/lib/work/gridwright-{TAG}.0")


def test_a_command_is_never_a_builtin_of_the_shell(node: Node) -> None:
    """The echo of dash would make a tabulator of \\t; the test of both has no --version."""
    assert node.run("echo", "a\\tb") == (0, b"a\\tb\n")
    status, out = node.run("test", "1", "-gt", "2")
    assert (status, out) == (1, b"")
    assert node.run("exit", "3")[0] == 127


def test_a_job_knows_what_it_has(node: Node) -> None:
    node.slurms |= {"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "4", "SLURM_RESTART_COUNT": "2"}
    _, found = node.dump(["x"])
    ours = {name.decode(): value.decode() for name, value in found.items() if name.startswith(b"GRIDWRIGHT_")}
    private = f"gridwright-{TAG}_4.2"
    assert ours == {
        "GRIDWRIGHT_DATA": f"{node.base}/lib/data",
        "GRIDWRIGHT_WORK": f"{node.base}/lib/work/{private}",
        "GRIDWRIGHT_UTIL": f"{node.base}/lib/util/{private}",
        "GRIDWRIGHT_JOB_ID": "17_4",
        "GRIDWRIGHT_ARRAY_INDEX": "4",
        "GRIDWRIGHT_CORES": "1",
        "GRIDWRIGHT_MEMORY_BYTES": str(20 * 2**20),
    }
    assert (node.base / "runs" / f"{TAG}_4.2").read_text() == "0\n"


def test_memory_is_known_however_slurm_gives_it(node: Node) -> None:
    words = ("sh", "-c", "echo $GRIDWRIGHT_MEMORY_BYTES")
    node.slurms = {"SLURM_JOB_ID": "1", "SLURM_MEM_PER_CPU": "10", "SLURM_CPUS_ON_NODE": "3"}
    assert node.run(*words) == (0, f"{30 * 2**20}\n".encode())
    node.slurms = {"SLURM_JOB_ID": "1", "SLURM_MEM_PER_NODE": "0"}
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert int(node.run(*words)[1]) == pytest.approx(total, rel=0.05)


def test_an_identifier_that_is_not_slurms_is_told(node: Node) -> None:
    assert node.run("sh", "-c", "echo $GRIDWRIGHT_JOB_ID", identifier="12-2") == (0, b"12-2\n")


@pytest.mark.parametrize("status", [0, 1, 3, 126, 255])
def test_the_exit_status_is_kept(node: Node, status: int) -> None:
    assert node.run("sh", "-c", f"exit {status}")[0] == status
    assert (node.base / "runs" / f"{TAG}.0").read_text() == f"{status}\n"


def test_a_signal_is_128_and_its_number_and_says_nothing_in_the_log(node: Node) -> None:
    assert node.run("sh", "-c", "kill -9 $$") == (137, b"")
    assert node.run("sh", "-c", "kill -15 $$") == (143, b"")


def test_a_command_that_is_not_there_is_127_with_a_word_in_the_log(node: Node) -> None:
    status, out = node.run("no-such-program")
    assert status == 127
    assert b"no-such-program" in out


def test_private_directories_are_there_and_gone_after(node: Node) -> None:
    status, out = node.run(
        "sh", "-c", "touch $GRIDWRIGHT_WORK/a $GRIDWRIGHT_UTIL/b; stat -c %a $GRIDWRIGHT_WORK"
    )
    assert (status, out) == (0, b"700\n")
    assert node.private() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="other users' ids take root")
@pytest.mark.parametrize("taken", [("work",), ("util",), ("work", "util")])
def test_private_directories_that_somebody_made_beforehand_are_not_used(
    node: Node, taken: tuple[str, ...]
) -> None:
    """Mallory reads the tag in squeue."""
    open_to_all(node.base)
    for each in (node.base, *node.base.iterdir()):
        os.chown(each, ALICE, ALICE)
    libraries = {name: node.base / "lib" / name for name in ("work", "util")}
    for each in libraries.values():
        each.chmod(0o1777)
    (node.base / "mallorys").mkdir()
    (node.base / "mallorys").chmod(0o777)
    names = [libraries[name] / f"gridwright-{TAG}.{number}" for name in taken for number in (0, 1)]

    def mallory() -> None:
        for each in names:
            if each.name.endswith("0"):
                each.mkdir()
                each.chmod(0o777)
            else:
                each.symlink_to(node.base / "mallorys")

    as_user(MALLORY, mallory)
    node.user = ALICE
    for run in ("0", "1"):
        node.slurms["SLURM_RESTART_COUNT"] = run
        status, out = node.run(
            "sh", "-c", "touch $GRIDWRIGHT_WORK/a; for i in WORK UTIL; do "
            "eval stat -L -c %u:%a:%n \\$GRIDWRIGHT_$i; done",
        )  # fmt: skip
        assert status == 0, out
        for name, line in zip(("work", "util"), out.decode().splitlines(), strict=True):
            owner, mode, path = line.split(":")
            assert (owner, mode) == (str(ALICE), "700")
            assert path.startswith(f"{libraries[name]}/gridwright-{TAG}.{run}")
            assert Path(path) not in names
    assert sorted(each for name in libraries for each in libraries[name].iterdir()) == sorted(names)
    assert list((node.base / "mallorys").iterdir()) == []
    # A job that is killed leaves what the sweep finds; what is not its user's, the sweep leaves.
    node.run("sh", "-c", "cd $GRIDWRIGHT_WORK && mkdir -p a/b && chmod 000 a", keep=True)
    command = sweep_command(str(libraries[taken[0]]), [private_prefix(TAG, WHOLE)])
    subprocess.run(command, check=True, user=ALICE, group=ALICE, extra_groups=[])
    subprocess.run(command, check=True)
    assert sorted(libraries[taken[0]].iterdir()) == [each for each in names if each.parent.name == taken[0]]


def _open_library(library: Path) -> Path:
    """A library that others may write and that is not sticky, with a directory that is dear to alice."""
    library.chmod(0o777)
    results = library / "results"

    def alice() -> None:
        results.mkdir(0o755)
        (results / "rows").write_text("dear")

    as_user(ALICE, alice)
    return results


@pytest.mark.skipif(os.geteuid() != 0, reason="other users' ids take root")
def test_a_job_removes_what_it_made_and_not_what_has_got_its_name(node: Node) -> None:
    """Who may write a library that is not sticky gives the name to another directory of that user."""
    open_to_all(node.base)
    for each in (node.base, *node.base.iterdir()):
        os.chown(each, ALICE, ALICE)
    library = node.base / "lib" / "work"
    results = _open_library(library)
    (node.base / "lib" / "util").chmod(0o1777)
    node.user = ALICE
    job = node.start("sh", "-c", "mkdir $GRIDWRIGHT_WORK/a; touch $GRIDWRIGHT_WORK/a/b; until [ -e $0 ]; do "
                     "sleep 0.05; done", str(node.base / "go"))  # fmt: skip
    private = library / f"gridwright-{TAG}.0"
    wait_until(lambda: (private / "a/b").exists() or None, seconds=20, what="the job", last=node.private)

    def mallory() -> None:
        private.rename(library / "away")
        results.rename(private)

    as_user(MALLORY, mallory)
    (node.base / "go").touch()
    assert job.wait(20) == 0
    assert (private / "rows").read_text() == "dear"
    assert list((library / "away").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="other users' ids take root")
def test_a_sweep_takes_no_name_of_a_library_where_others_give_names(node: Node) -> None:
    open_to_all(node.base)
    library = node.base / "lib" / "work"
    results = _open_library(library)

    def mallory() -> None:
        results.rename(library / f"gridwright-{TAG}.1")

    as_user(MALLORY, mallory)
    command = sweep_command(str(library), [private_prefix(TAG, WHOLE)])
    subprocess.run(command, check=True, user=ALICE, group=ALICE, extra_groups=[])
    assert (library / f"gridwright-{TAG}.1" / "rows").read_text() == "dear"
    library.chmod(0o1777)
    subprocess.run(command, check=True, user=ALICE, group=ALICE, extra_groups=[])
    assert list(library.iterdir()) == [], "there nobody else can give names"


def test_private_directories_are_kept_where_asked(node: Node) -> None:
    node.run("true", keep=True)
    assert node.private() == [f"gridwright-{TAG}.0"] * 2


def test_a_grid_without_work_and_util_has_no_private_directories(node: Node) -> None:
    status, out = node.run("sh", "-c", "echo ${GRIDWRIGHT_WORK-none}", libraries={})
    assert (status, out) == (0, b"none\n")
    assert node.private() == []


def test_private_directories_that_cannot_be_made_fail_the_job(node: Node) -> None:
    (node.base / "lib" / "util").rmdir()
    status, out = node.run("echo", "ran")
    assert status == 1
    assert b"ran" not in out
    assert f"{node.base}/lib/util".encode() in out
    assert node.private() == []
    assert not (node.base / "lib" / "util").exists(), "a library is set-up's to make"


def test_a_directory_that_is_not_there_fails_the_job(node: Node) -> None:
    """Slurm itself would start it in /tmp."""
    status, out = node.run("echo", "ran", directory="/no/such place")
    assert status == 1
    assert b"ran" not in out
    assert b"/no/such place" in out
    assert node.private() == []


def test_a_job_starts_where_it_should(node: Node) -> None:
    place = node.base / "a b\nc"
    place.mkdir()
    assert node.run("pwd", directory=str(place)) == (0, f"{place}\n".encode())


def test_an_attempt_with_a_fence_does_not_begin(node: Node) -> None:
    (node.base / "fences" / str(TAG)).touch()
    assert node.run("echo", "ran") == (0, b"")
    assert list((node.base / "runs").iterdir()) == []


def test_a_run_that_slurm_starts_again_after_its_end_ends_as_it_did(node: Node) -> None:
    assert node.run("sh", "-c", "echo ran; exit 7") == (7, b"ran\n")
    assert node.run("sh", "-c", "echo ran; exit 7", again=True) == (7, b"")


def test_a_run_that_goes_on_elsewhere_is_not_run_twice(node: Node) -> None:
    (node.base / "runs" / f"{TAG}.0").touch()
    assert node.run("echo", "ran", again=True) == (75, b"")
    node.slurms["SLURM_RESTART_COUNT"] = "1"
    assert node.run("echo", "ran", again=True) == (0, b"ran\n"), "Slurm knows that it starts it again"


def test_a_full_state_directory_does_not_keep_jobs_from_running(node: Node) -> None:
    (node.base / "runs").rmdir()
    assert node.run("echo", "ran") == (0, b"ran\n")


def test_directories_left_on_the_node_are_removed_by_the_next_job(node: Node) -> None:
    disk = node.base / "disk"
    prefix = f"gridwright-{TAG}_3."
    left, other, theirs = (
        [f"{prefix}0", f"{prefix}1.aB3"],
        [f"gridwright-{TAG}_31.0", "other"],
        [f"{prefix}2"],
    )
    for each in (*left, *other, *theirs):
        (disk / each).mkdir(parents=True)
    os.chown(disk / theirs[0], MALLORY, MALLORY)
    (disk / f"{prefix}4").symlink_to(disk / "other")
    (node.base / "leftovers" / "n1").write_text(f"{disk}/{prefix}\n{disk}/\n\n{disk}/other\n")
    assert node.run("true")[0] == 0
    assert sorted(each.name for each in disk.iterdir()) == sorted([*other, *theirs, f"{prefix}4"])
    assert list((node.base / "leftovers").iterdir()) == []


def test_a_job_that_is_ended_by_slurm_removes_its_directories_and_gets_one_signal(node: Node) -> None:
    """Slurm signals every process of a job: shell and command."""
    catches = (
        "$| = 1; my $n = 0; $SIG{TERM} = sub { $n++ }; print qq(up\\n);"
        " sleep 1; sleep 1; print qq($n\\n); exit 7"
    )
    process = node.start("perl", "-e", catches)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    os.killpg(process.pid, signal.SIGTERM)
    out = process.communicate(timeout=20)[0]
    assert (process.returncode, out) == (7, b"1\n")
    assert node.private() == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_to_the_shell_alone_does_not_end_the_job_without_cleaning_up(
    node: Node, number: signal.Signals
) -> None:
    process = node.start("sh", "-c", "echo up; sleep 0.4")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 0
    assert node.private() == []


def test_a_command_has_the_usual_signals(node: Node) -> None:
    """A command in the background of a shell would ignore SIGINT."""
    status, out = node.run("sh", "-c", "grep SigIgn /proc/$$/status")
    assert status == 0
    assert int(out.split()[1], 16) & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGQUIT - 1)) == 0


def test_the_script_costs_little(node: Node) -> None:
    """Twenty times the few milliseconds of a core that it takes: no interpreter is started."""
    before = os.times()
    for _ in range(10):
        assert node.run("true")[0] == 0
    after = os.times()
    used_s = after.children_user + after.children_system - before.children_user - before.children_system
    assert used_s / 10 < 0.2


def test_the_script_is_one_file_for_all_jobs(tmp_path: Path) -> None:
    assert script_file(tmp_path) == script_file(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert os.access(script_file(tmp_path), os.X_OK)


def test_what_linux_cannot_start_is_refused_in_words() -> None:
    def of(**values: object) -> str | None:
        chosen = {"command": ["a"], "environment": {}} | values
        return what_is_too_long(JobRequest(directory="/", **chosen))  # type: ignore[arg-type]

    assert of() is None
    assert "argument 1 has 200000 bytes" in (of(command=["a", "x" * 200_000]) or "")
    assert "variable LONG" in (of(environment={"LONG": "x" * 200_000}) or "")
    assert "about 2 MiB" in (of(command=["a", *["x" * 100_000] * 30]) or "")
