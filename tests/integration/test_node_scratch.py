"""`gridwright node scratch` is the program that nodes have: same flags, same answers, no traceback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.command import GRIDWRIGHT


def scratch(*flags: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [GRIDWRIGHT, "node", "scratch", *map(str, flags)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_a_configuration_that_is_not_there_is_wrong_input(tmp_path: Path) -> None:
    done = scratch("--config", tmp_path / "none.json", "--json")
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert (document["schema"], document["command"], document["ok"]) == (1, "node scratch", False)
    assert "gridwright setup" in document["problems"][0]["remedy"]


def test_everything_wrong_in_a_configuration_is_told(tmp_path: Path) -> None:
    wish = tmp_path / "scratch.json"
    wish.write_text('{"schema": 1, "arrays": [{"name": "No", "mount_point": "x", "chunk_bytes": 5}]}')
    done = scratch("--config", wish)
    assert done.returncode == 2
    assert done.stderr.count("error: ") == 3
    assert "Traceback" not in done.stderr


@pytest.mark.root
def test_a_node_without_an_instance_store_is_told_what_there_is(tmp_path: Path) -> None:
    wish = tmp_path / "scratch.json"
    array = {"name": "scratch", "mount_point": f"{tmp_path}/scratch", "match": [{"transport": "xen"}]}
    wish.write_text(json.dumps({"schema": 1, "arrays": [array], "state_file": f"{tmp_path}/state.json"}))
    done = scratch("--config", wish, "--dry-run", "--json")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert document["arrays"][0]["case"] == "refused"
    assert "no disk of an instance store is here" in done.stderr
    assert document["steps"] == []
    assert all(disk["standing"] == "no instance store" for disk in document["disks"])
