"""A command of the user's on a node: in a lab by its name alone, elsewhere by ssh."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gridwright.grid.grid import Grid
from gridwright.providers.provider import GridHere
from gridwright.spec import GridSpec

PROGRAM = """\
import sys
from gridwright.grid.grid import Grid
from gridwright.spec import parse_spec
spec = parse_spec(
    "{nodes: {compute: {hosts: node1}}, filesystems: {disk: {type: local, path: /d}}, scheduler: {type: ssh}}"
)
sys.exit(Grid.open(spec).enter("node1", ["sh", "-c", "cat; echo $0; exit 7", "it's"]))
"""


def test_a_grid_found_by_its_name_enters_a_node_without_its_spec() -> None:
    asked: list[object] = []

    def enter(node: str, command: Sequence[str]) -> int:
        asked.append((node, command))
        return 5

    def nothing(*_: object) -> GridSpec:
        pytest.fail("nothing else is asked")

    here = GridHere("demo", nothing, nothing, nothing, enter)  # type: ignore[arg-type]
    assert Grid.local(here).enter("compute1", ["true"]) == 5
    assert asked == [("compute1", ["true"])]


def test_elsewhere_ssh_passes_streams_and_exit_status_on(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\n[ "$1 $2 $3" = "-T -- node1" ] && exec sh -c "$4"\n')
    ssh.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        input="in\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "in\nit's\n", "")
