"""`gridwright top`: on a lab with a job and a node that is off, and beside a mount that hangs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, Ended
from tests.support.hanging_mount import hanging_mount
from tests.support.lab import Lab, nodes_only, up

pytestmark = pytest.mark.root

WRITER = """
import mmap, os, sys
block = mmap.mmap(-1, 1 << 20)
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
print("begun", flush=True)
while True:
    os.pwrite(file, block, 0)
"""


@pytest.fixture
def lab(gridwright: Command, tmp_path: Path) -> Iterator[Lab]:
    with up(nodes_only(gridwright, tmp_path, "toplab", "10.97.41.0/24")) as lab:
        yield lab


def top(lab: Lab) -> tuple[Ended, Any]:
    ended = lab.command("top", lab.spec, "--once", "--json")
    return ended, ended.json


def test_a_job_on_a_node_is_told_with_its_library_and_a_node_that_is_off_is_a_row(lab: Lab) -> None:
    lab.run("compute1", "mkdir", "-p", "/mnt/grid/data")
    job = f"GRIDWRIGHT_JOB_ID=17 exec setsid {sys.executable} -c '{WRITER}' /mnt/grid/data/file"
    lab.run("compute1", "sh", "-c", f"({job}) > /mnt/grid/began 2>&1 & "
            "while ! grep -q begun /mnt/grid/began; do sleep 0.05; done")  # fmt: skip
    ended, document = top(lab)
    assert ended.status == 0, ended.err
    assert [node["node"] for node in document["nodes"]] == ["compute1", "compute2"]
    (seen,) = document["jobs"]
    assert (seen["job"], seen["nodes"], seen["processes"]) == ("17", ["compute1"], 1)
    assert seen["written_bytes_per_s"] > 0
    (library,) = document["libraries"]
    assert library["libraries"] == ["data", "work", "util"]
    assert library["standing"] == "not-required"
    # The disk is the machine's, and whatever else is written there comes on top.
    assert library["written_bytes_per_s"] > seen["written_bytes_per_s"] / 2
    lab.fault("power-off", "compute2")
    ended, document = top(lab)
    assert ended.status == 3
    assert "Traceback" not in ended.err
    away = {node["node"]: node["absent"] for node in document["nodes"]}
    assert away["compute1"] == ""
    assert "compute2" in away["compute2"]
    assert document["jobs"][0]["job"] == "17"


def test_a_mount_that_hangs_is_a_row_and_holds_nothing_up(gridwright: Command, tmp_path: Path) -> None:
    with hanging_mount(tmp_path / "dead") as dead:
        ended = gridwright("top", "--once", "--interval", "0.2s", "--json")
        assert ended.status == 0, ended.err
        rows = {row["mount_point"]: row for row in ended.json["mounts"]}
        assert rows[str(dead)]["silent"].startswith("no answer for")
        assert [row["size_bytes"] > 0 for row in rows.values() if not row["silent"]] != []


def test_wrong_flags_are_told_together(gridwright: Command) -> None:
    ended = gridwright("top", "--interval", "0s")
    assert ended.status == 2
    assert "--interval" in ended.err
    assert "--once" in ended.err
