"""One Python that head node and nodes share; here both are this machine, with a state of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from gridwright.commands import CommandOutput
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.grid import node_python
from gridwright.grid.node_python import Packages, SharedPython

if TYPE_CHECKING:
    from gridwright.schedulers.head_node import HeadNode

NEEDED = Packages(
    "engines", {"toy_engine": "toy-engine", "toy.other": "toy-other"}, "toys==1", "or do without"
)
BASE = os.path.realpath(sys.executable)


class Head:
    """A head node, and nodes, that run commands here, with the system's Python as `python3`."""

    name = "controller"

    def __init__(self, place: Path) -> None:
        self.ran: list[str] = []
        self.silent: set[str] = set()
        self.other: dict[str, CommandOutput] = {}
        programs = place / "bin"
        programs.mkdir()
        (programs / "python3").symlink_to(BASE)
        self.path = f"{programs}:/usr/bin:/bin"

    def run(self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0) -> CommandOutput:
        self.ran.append("copy" if stdin else "ask")
        environment = {"PATH": self.path, "HOME": "/nowhere"}
        done = subprocess.run(
            command, input=stdin, env=environment, capture_output=True, timeout=timeout_s, check=False
        )
        return CommandOutput(done.returncode, b"Welcome!\n" + done.stdout, done.stderr)

    def on_nodes(
        self, _head: object, nodes: Collection[str], command: Sequence[str], *, timeout_s: float
    ) -> dict[str, CommandOutput | None]:
        return {
            node: None
            if node in self.silent
            else self.other.get(node) or self.run(command, timeout_s=timeout_s)
            for node in nodes
        }


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Head:
    made = Head(tmp_path)
    monkeypatch.setattr(node_python, "on_nodes", made.on_nodes)
    return made


def path(head: Head, state: Path, *nodes: str) -> str:
    return SharedPython(cast("HeadNode", head), state, ()).path(NEEDED, nodes)


def environment(state: Path, *modules: str) -> None:
    """What an administrator makes: a virtual environment with packages."""
    place = state / "python"
    subprocess.run([BASE, "-m", "venv", "--without-pip", "--clear", place], timeout=60, check=True)
    (packages,) = place.glob("lib/python3.*/site-packages")
    for module in modules:
        (packages / module).parent.mkdir(exist_ok=True)
        (packages / module).write_text("")


def test_packages_come_from_the_environment_and_gridwright_from_here(head: Head, tmp_path: Path) -> None:
    state = tmp_path / "state"
    environment(state, "toy_engine.py", "toy/other.py", "gridwright.py")
    python = path(head, state, "node1", "node2")
    assert Path(python).is_relative_to(state / "parts" / str(os.getuid()))
    assert head.ran == ["ask", "ask", "copy", "ask", "ask"]
    program = "import toy_engine, gridwright._native; print(gridwright.__file__)"
    done = subprocess.run(
        [python, "-P", "-c", program], env={}, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith(str(Path(python).parents[1])), "of this version, whatever is there beside"
    assert path(head, state, "node1") == python
    assert head.ran[5:] == ["ask", "ask", "ask"], "what is there is not copied again"
    assert (state / "parts").stat().st_mode & 0o7777 == 0o1777, "for every user of the grid"
    assert Path(python).parents[2].stat().st_mode & 0o777 == 0o700


def test_what_is_lacking_is_named_with_the_command_that_installs_it(head: Head, tmp_path: Path) -> None:
    with pytest.raises(GridwrightError, match="toy-engine, toy-other") as raised:
        path(head, tmp_path / "state")
    assert raised.value.status == ExitStatus.ENVIRONMENT
    (problem,) = raised.value.problems
    assert problem.where == "controller"
    place = tmp_path / "state" / "python"
    assert f"python3 -m venv {place} && {place}/bin/pip install 'toys==1'; or do without" in (
        problem.remedy or ""
    )
    environment(tmp_path / "state", "toy_engine.py")
    with pytest.raises(GridwrightError, match=r"engines are not on the grid: toy-other\n"):
        path(head, tmp_path / "state")
    assert not (tmp_path / "state" / "parts").exists()


def test_a_node_that_cannot_run_it_is_named_and_a_silent_one_is_not_judged(
    head: Head, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    environment(state, "toy_engine.py", "toy/other.py")
    head.silent.add("node1")
    head.other["node2"] = head.other["node3"] = CommandOutput(127, b"", b"sh: no such file\n")
    head.other["node4"] = CommandOutput(255, b"", b"Host key verification failed.\n")
    head.other["node5"] = CommandOutput(0, b"python\t/x\t/y\ttoy.other\n", b"")
    with pytest.raises(GridwrightError) as raised:
        path(head, state, "node1", "node2", "node3", "node4", "node5")
    failing, lacking = raised.value.problems
    assert failing.where == "node[2-3]"
    assert failing.what.endswith("does not run there: sh: no such file")
    assert f"all nodes have to see {state}" in (failing.remedy or "")
    assert (lacking.where, lacking.what) == ("node5", "engines are not all there: toy-other")
    assert "pip install 'toys==1'" in (lacking.remedy or "")
    head.other = {}
    assert path(head, state, "node1", "node2")


def test_a_place_that_cannot_be_written_to_is_one_error(head: Head, tmp_path: Path) -> None:
    state = tmp_path / "state"
    environment(state, "toy_engine.py", "toy/other.py")
    (state / "parts").write_text("")
    with pytest.raises(GridwrightError, match="cannot be brought to the grid") as raised:
        path(head, state)
    assert "`state:`" in (raised.value.problems[0].remedy or "")
