"""The health check of nodes, run as Slurm runs it: against a scontrol that keeps what it is told."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from gridwright.node_programs.health import looking
from gridwright.node_programs.health.command import HealthCheck, run
from gridwright.node_programs.health.configuration import HealthError, read_configuration
from gridwright.node_programs.health.looking import (
    Glance,
    LeftBehind,
    Memory,
    look_at,
    read_memory,
    start_of,
    write_memory,
)
from gridwright.node_programs.health.slurm import OWN, SlurmNode
from gridwright.node_programs.one_file import HEALTH, HEALTH_STARTER_TEXT
from gridwright.node_programs.scratch.commands import Ended
from tests.support.oldest_python import beyond_python_3_9
from tests.support.one_file_program import imports_beyond_python

SOURCE = Path(__file__).parents[3] / "src" / "gridwright" / "node_programs" / "health"
MODULES = sorted(SOURCE.glob("*.py"))
OURS = ("gridwright.node_programs.health.", "gridwright.node_programs.scratch.")
ROOT = "29 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"


def test_it_is_the_same_bytes_each_time_and_runs_without_gridwright(tmp_path: Path) -> None:
    assert HEALTH.archive() == HEALTH.archive()
    program, config = tmp_path / "health.pyz", tmp_path / "health.json"
    program.write_bytes(HEALTH.archive())
    assert "gridwright/node_programs/health/command.py" in zipfile.ZipFile(program).namelist()
    config.write_text(json.dumps({"schema": 1, "mounts": [], "directories": [str(tmp_path)]}))
    argv = [sys.executable, "-I", "-S", str(program), "--dry-run", "--config", str(config)]
    assert subprocess.run(argv, check=False, capture_output=True).returncode == 0
    config.write_text(json.dumps({"schema": 1, "directories": [f"{tmp_path}/none"]}))
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, f"{tmp_path}/none is not there\n")


def test_python_3_9_has_all_that_it_uses(tmp_path: Path) -> None:
    assert len(MODULES) > 4
    assert beyond_python_3_9(HEALTH.archive(), tmp_path) == ""
    assert [name for module in MODULES for name in imports_beyond_python(module, OURS)] == []


def test_slurm_is_told_that_all_went_well_whatever_became_of_it(tmp_path: Path) -> None:
    """Newer releases of Slurm let no node register while its HealthCheckProgram fails."""
    file = tmp_path / "health"
    file.write_text(HEALTH_STARTER_TEXT.replace("/usr/bin/python3", "/nonexistent/python"))
    assert str(HEALTH.path) in file.read_text()
    assert subprocess.run(["sh", str(file)], check=False, capture_output=True).returncode == 0


@dataclass
class Slurm:
    """A scontrol with one node; `told` is every change that was asked for."""

    state: str = "IDLE"
    reason: str = ""
    answers: bool = True
    asked: int = 0
    told: list[str] = field(default_factory=list)

    def __call__(self, argv: Sequence[str], limit_s: float) -> Ended:
        assert 0 < limit_s < 60
        if not self.answers:
            return Ended(tuple(argv), None, "", limit_s)
        if "show" in argv:
            self.asked += 1
            reason = f" Reason={self.reason} [root@2026-11-23T04:00:00]" if self.reason else ""
            return Ended(tuple(argv), 0, f"NodeName=compute1 State={self.state}{reason}\n", 0.0)
        words = dict(each.split("=", 1) for each in argv[2:])
        assert words["NodeName"] == "compute1"
        self.told.append(words["State"])
        self.state, self.reason = (
            ("IDLE+DRAIN", words["Reason"]) if words["State"] == "DRAIN" else ("IDLE", self.reason)
        )
        return Ended(tuple(argv), 0, "", 0.0)


class Node:
    """A node with a shared file system, on a table that the test writes."""

    def __init__(self, directory: Path) -> None:
        self.slurm = Slurm()
        self.shared = directory / "shared"
        self.shared.mkdir()
        self.pauses: list[float] = []
        self.check = HealthCheck(
            directory / "health.json",
            directory / "mountinfo",
            directory / "run" / "health.json",
            SlurmNode("compute1", self.slurm),
            self.pauses.append,
        )
        mount = {"path": str(self.shared), "types": ["lustre"], "source": "10.0.0.1@tcp:/shared"}
        self.configure(mounts=[mount])
        self.mounted(True)

    def configure(self, **content: Any) -> None:
        self.check.config.write_text(json.dumps({"schema": 1, "limit_seconds": 1, **content}))

    def mounted(self, there: bool) -> None:
        line = f"310 29 0:52 / {self.shared} rw - lustre 10.0.0.1@tcp:/shared rw,flock\n"
        self.check.table.write_text(ROOT + (line if there else ""))

    def run(self) -> str:
        """One check; what Slurm was told by it."""
        before = len(self.slurm.told)
        assert run(self.check) == 0
        return " ".join(self.slurm.told[before:])


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether looks answer too late."""
    late = [False]
    really = looking.what_is_wrong

    def look(path: str) -> str:
        if late[0]:
            time.sleep(60)
        return really(path)

    monkeypatch.setattr(looking, "what_is_wrong", look)
    yield late


def test_a_node_that_lost_its_mount_drains_itself_and_is_back_with_it(node: Node) -> None:
    assert node.run() == ""
    node.mounted(False)
    assert node.run() == "DRAIN"
    assert node.slurm.reason == f"{OWN}{node.shared} is not mounted"
    assert node.run() == ""
    node.mounted(True)
    assert node.run() == "RESUME"
    assert node.run() == ""


def test_a_node_that_is_well_does_not_bother_slurm(node: Node) -> None:
    for _ in range(4):
        node.run()
    # Once: without a memory nobody knows what an earlier check said.
    assert node.slurm.asked == 1


def test_a_table_that_lacked_a_line_for_a_moment_drains_nothing(node: Node) -> None:
    node.run()
    node.mounted(False)
    node.check = replace(node.check, pause=lambda _: node.mounted(True))
    assert node.run() == ""


def test_one_slow_answer_drains_nothing_and_two_in_a_row_do(node: Node, slow: list[bool]) -> None:
    node.run()
    slow[0] = True
    assert node.run() == ""
    slow[0] = False
    assert node.run() == ""
    slow[0] = True
    assert node.run() == ""
    assert node.run() == "DRAIN"
    assert node.slurm.reason == f"{OWN}{node.shared} hangs"
    slow[0] = False
    assert node.run() == "RESUME"


def test_a_drained_node_that_is_slow_again_is_not_resumed_meanwhile(node: Node, slow: list[bool]) -> None:
    node.mounted(False)
    assert node.run() == "DRAIN"
    node.mounted(True)
    slow[0] = True
    assert node.run() == ""
    assert node.slurm.state == "IDLE+DRAIN"


def test_a_directory_of_scratch_that_is_gone_needs_two_looks(node: Node, tmp_path: Path) -> None:
    node.configure(directories=[str(tmp_path / "work")])
    assert node.run() == ""
    assert node.run() == "DRAIN"
    (tmp_path / "work").mkdir()
    assert node.run() == "RESUME"


def test_what_an_administrator_drained_stays_drained(node: Node) -> None:
    node.slurm.state, node.slurm.reason = "IDLE+DRAIN", "broken fan"
    node.mounted(False)
    assert node.run() == ""
    node.mounted(True)
    assert node.run() == ""
    assert node.slurm.reason == "broken fan"


def test_a_node_that_was_drained_before_it_started_again_is_resumed(node: Node) -> None:
    node.mounted(False)
    node.run()
    node.check.memory.unlink()
    node.mounted(True)
    assert node.run() == "RESUME"


def test_a_slurm_that_does_not_answer_is_asked_again(node: Node) -> None:
    node.mounted(False)
    node.slurm.answers = False
    assert node.run() == ""
    node.slurm.answers = True
    assert node.run() == "DRAIN"
    node.mounted(True)
    node.slurm.answers = False
    assert node.run() == ""
    node.slurm.answers = True
    assert node.run() == "RESUME"


def test_a_look_that_still_hangs_is_not_joined_by_another(tmp_path: Path) -> None:
    """It is told as hanging at once, and again at once, until its process is gone."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        start = start_of(child.pid)
        assert start is not None
        left = LeftBehind(child.pid, start)
        begun = time.monotonic()
        assert look_at([str(tmp_path)], {str(tmp_path): left}, 30.0) == {str(tmp_path): Glance(left=left)}
        assert time.monotonic() - begun < 15
        # Its number came back as another process.
        assert look_at([str(tmp_path)], {str(tmp_path): LeftBehind(child.pid, start - 1)}, 30.0) == {
            str(tmp_path): Glance()
        }
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert look_at([str(tmp_path)], {str(tmp_path): left}, 30.0) == {str(tmp_path): Glance()}


def test_looks_leave_no_process_and_no_file_open(tmp_path: Path) -> None:
    others = psutil.Process().children()
    before = len(list(Path("/proc/self/fd").iterdir()))
    found = look_at([str(tmp_path), str(tmp_path / "none")], {}, 30.0)
    assert found == {str(tmp_path): Glance(), str(tmp_path / "none"): Glance("is not there")}
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert [each for each in psutil.Process().children() if each not in others] == []


def test_a_memory_survives_and_a_broken_one_is_as_good_as_none(tmp_path: Path) -> None:
    file = tmp_path / "run" / "health.json"
    memory = Memory(frozenset({"/a"}), {"/a": LeftBehind(3, 4)}, may_be_drained=False)
    write_memory(file, memory)
    assert read_memory(file) == memory
    for text in ("", "[]", '{"schema": 1}', '{"schema": 2}', '{"schema": 1, "hanging": {"/a": 3}}'):
        file.write_text(text)
        assert read_memory(file) == Memory()


def test_a_configuration_is_refused_with_all_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "health.json"
    wrong = {"schema": 2, "limit_seconds": 0, "mounts": [{"path": "x", "types": [], "source": 3}], "odd": 1}
    file.write_text(json.dumps(wrong))
    with pytest.raises(HealthError) as refused:
        read_configuration(file)
    assert len(refused.value.troubles) == 6
    with pytest.raises(HealthError, match="No such file"):
        read_configuration(tmp_path / "none.json")


def test_without_a_configuration_nothing_is_looked_at(node: Node) -> None:
    node.check.config.unlink()
    node.mounted(False)
    assert node.run() == ""
    assert node.slurm.asked == 0


def test_a_wrong_configuration_drains_nothing(node: Node) -> None:
    node.check.config.write_text("{")
    with pytest.raises(HealthError):
        run(node.check)
    assert node.slurm.told == []
