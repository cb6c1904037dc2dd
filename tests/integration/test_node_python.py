"""Gridwright's part is brought to nodes that lack it; each node here is a home directory."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from gridwright import __version__
from gridwright.commands import CommandOutput
from gridwright.doctor.facts.filesystems import CANNOT_LOOK
from gridwright.grid import node_python
from gridwright.grid.grid import LOST, SILENT, Grid
from gridwright.grid.node_python import PACKAGES, NodePythons, node_part, with_python
from gridwright.grid.nodes import GridNode
from gridwright.spec import parse_spec

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode

GATHER = [sys.executable, "-P", "-m", "gridwright.doctor.facts.gather"]
NOTHING = b'{"libraries": {}, "settings": {}, "filesystems": {}}'
SPEC = """\
nodes: {compute: {hosts: "node[1-2]"}}
filesystems: {disk: {type: local, path: /data}}
scheduler: {type: ssh}
"""


class Nodes:
    """Nodes whose ssh is a shell of this machine, with a home directory and programs for each."""

    name = "head"
    nodes_share_python = False
    sees_state = True

    def __init__(self, place: Path) -> None:
        self.place = place
        self.asked: list[tuple[str, str]] = []
        self.silent: set[str] = set()

    def programs(self, node: str, **scripts: str) -> None:
        """Put programs of these names before all others on a node."""
        directory = self.place / node / "bin"
        directory.mkdir(parents=True, exist_ok=True)
        for name, script in scripts.items():
            (directory / name).write_text(f"#!/bin/sh\n{script}\n")
            (directory / name).chmod(0o755)

    def fan_out(
        self,
        _head: object,
        nodes: Sequence[str],
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 20.0,
    ) -> dict[str, CommandOutput | None]:
        """As `on_nodes`; nodes have not this machine's environment."""
        return {node: self._run(node, list(command), stdin, timeout_s) for node in nodes}

    def _run(self, node: str, command: list[str], stdin: bytes, timeout_s: float) -> CommandOutput | None:
        self.asked.append((node, command[0]))
        if node in self.silent:
            return None
        home = self.place / node
        home.mkdir(exist_ok=True)
        # The system's Python, as a node has it, and not that of the test.
        base = Path(os.path.realpath(sys.executable)).parent
        path = f"{home}/bin:{base}:/usr/bin:/bin"
        done = subprocess.run(
            command,
            input=stdin,
            env={"HOME": str(home), "PATH": path},
            cwd="/",
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        return CommandOutput(done.returncode, b"Welcome!\n" + done.stdout, done.stderr)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    made = Nodes(tmp_path)
    monkeypatch.setattr(node_python, "on_nodes", made.fan_out)
    monkeypatch.setattr("gridwright.grid.nodes.on_nodes", made.fan_out)
    return made


def lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a Python that no node has at its path."""
    monkeypatch.setattr(sys, "executable", "/nowhere/bin/python")


def pythons(nodes: Nodes) -> NodePythons:
    return NodePythons(cast("HeadNode", nodes))


@pytest.mark.thorough
def test_a_node_with_the_same_version_at_the_same_path_is_given_nothing(nodes: Nodes) -> None:
    found, losses = pythons(nodes).of(["node1"])
    assert (found, losses) == ({"node1": sys.executable}, {})
    assert len(nodes.asked) == 1
    assert not (nodes.place / "node1" / ".cache").exists()


def test_a_node_that_lacks_its_part_is_given_it_once_and_runs_it(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(monkeypatch)
    first = pythons(nodes)
    found, losses = first.of(["node1"])
    assert losses == {}
    part = nodes.place / "node1" / ".cache" / "gridwright" / node_part().name
    assert found == {"node1": str(part / "bin/python")}
    assert [each.name for each in part.parent.iterdir()] == [part.name], "nothing half made is left"
    assert part.stat().st_mode & 0o077 == 0
    first.of(["node1"])
    assert len(nodes.asked) == 2, "one question and one copy, and no more"
    again, _ = pythons(nodes).of(["node1"])
    assert (again, len(nodes.asked)) == (found, 3), "another command finds it there"

    done = subprocess.run(
        with_python(found["node1"], ["/nowhere/bin/python", *GATHER[1:]]),
        input=NOTHING,
        env={},
        capture_output=True,
        timeout=60,
        check=True,
    )
    facts: dict[str, Any] = json.loads(done.stdout)
    assert facts["version"] == __version__
    assert (facts["hostname"], facts["cpus"]) == (platform.node(), os.cpu_count())


def test_a_part_that_does_not_run_on_a_node_is_let_be_and_another_one_made(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(monkeypatch)
    elsewhere = nodes.place / "node1" / ".cache" / "gridwright" / node_part().name / "bin" / "python"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.symlink_to("/nowhere/bin/python3.11")
    found, losses = pythons(nodes).of(["node1"])
    assert losses == {}
    assert found["node1"].startswith(f"{elsewhere.parent.parent}-")
    assert elsewhere.is_symlink(), "another node with the same home directory runs it"
    assert pythons(nodes).of(["node1"]) == (found, {})
    assert len(nodes.asked) == 3, "another command finds it there"


def test_what_other_nodes_take_away_in_the_same_home_directory_is_no_failure(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(monkeypatch)
    gone = "echo \"find: '$1/new-a1b2c3': No such file or directory\" >&2; exit 1"
    nodes.programs("node1", find=gone)
    _, losses = pythons(nodes).of(["node1"])
    assert losses == {}


def test_nodes_without_a_python_that_fits_are_named_with_what_to_do(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(monkeypatch)
    nodes.programs("arm", uname="echo aarch64")
    old = 'case "$1" in -V) echo Python 3.9.2;; *) exit 1;; esac'
    nodes.programs("old", python3=old, **{f"python3.{minor}": "exit 1" for minor in range(11, 15)})
    nodes.programs("full", tar="echo 'tar: No space left on device' >&2; exit 2")
    nodes.silent.add("gone")
    found, losses = pythons(nodes).of(["arm", "old", "full", "gone"])
    assert found == {}
    assert set(losses) == {"arm", "old", "full"}, "one that is silent may answer later"
    assert losses["arm"].startswith(
        f"it is aarch64, and this Gridwright is for {platform.machine()}: install"
    )
    assert "it has Python 3.9.2, and Gridwright needs Python 3.11" in losses["old"]
    assert losses["full"].endswith("tar: No space left on device")
    assert list((nodes.place / "full" / ".cache" / "gridwright").iterdir()) == []


def test_a_node_that_is_lost_is_not_asked_again_by_the_same_command(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(monkeypatch)
    nodes.programs("arm", uname="echo aarch64")
    nodes.silent.add("gone")
    asked = pythons(nodes)
    assert asked.of(["arm", "gone"]) == asked.of(["arm", "gone"])
    assert [node for node, _ in nodes.asked] == ["arm", "gone", "gone"]


def grid(nodes: Nodes) -> Grid:
    made = Grid.open(parse_spec(SPEC))
    made.__dict__["head"] = nodes
    return made


def test_nodes_that_cannot_run_a_part_answer_with_the_reason(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(monkeypatch)
    nodes.programs("node2", uname="echo aarch64")
    command = ["/nowhere/bin/python", *GATHER[1:]]
    answers: Mapping[str, CommandOutput | None] = grid(nodes).ask(["node1", "node2"], command, stdin=NOTHING)
    assert answers["node1"] is not None and b'"version"' in answers["node1"].stdout
    assert answers["node2"] is not None and answers["node2"].status == LOST
    assert answers["node2"].stderr.startswith(b"it is aarch64")


def test_nodes_that_are_not_ready_are_absent_and_say_why(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(monkeypatch)
    nodes.programs("arm", uname="echo aarch64")
    nodes.silent.add("gone")
    asked = [GridNode("fine"), GridNode("arm"), GridNode("gone"), GridNode("down", absent="it is down")]
    fine, arm, gone, down = grid(nodes).prepared(asked)
    assert fine == asked[0] and down == asked[3]
    assert arm.absent is not None and "aarch64" in arm.absent
    assert gone.absent == SILENT
    assert ("down", "sh") not in nodes.asked


def test_what_is_no_program_of_this_python_needs_no_part(nodes: Nodes) -> None:
    answers = grid(nodes).ask(["node1"], ["sh", "-c", "echo $HOME"])
    assert answers["node1"] is not None and answers["node1"].stdout.endswith(b"/node1\n")
    assert nodes.asked == [("node1", "sh")]


def test_a_part_has_what_its_programs_import_and_the_same_bytes_each_time() -> None:
    part = node_part()
    node_part.cache_clear()
    assert node_part() == part
    assert part.name.startswith(f"part-{__version__}-")
    assert len(part.content) < 10_000_000
    assert set(PACKAGES) == {"gridwright", "psutil", "tenacity"}


def test_a_file_system_is_looked_at_with_what_a_node_was_given(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lack(monkeypatch)
    found, _ = pythons(nodes).of(["node1"])
    request = {"libraries": {}, "settings": {}, "filesystems": {"disk": {"type": "local", "path": "/usr"}}}
    facts = gathered(found["node1"], request)
    assert facts["health"] == {"disk": []}, facts["unknown"]
    part = nodes.place / "node1" / ".cache" / "gridwright" / node_part().name
    (compiled,) = part.glob("lib/*/site-packages/pydantic_core/*.so")
    compiled.unlink()
    facts = gathered(found["node1"], request)
    assert facts["health"] == {}
    assert facts["unknown"]["health:disk"].startswith(CANNOT_LOOK)


def gathered(python: str, request: object) -> Any:
    """What a Python tells of its node."""
    command = with_python(python, ["/nowhere/bin/python", *GATHER[1:]])
    asked = json.dumps(request).encode()
    done = subprocess.run(command, input=asked, env={}, capture_output=True, timeout=60, check=True)
    return json.loads(done.stdout)
