"""A grid of bought nodes from outside: they are private, behind one machine, and lack Gridwright."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.bought import ENVIRONMENT, FRONT, BoughtGrid, bought, lab_of
from tests.support.command import GRIDWRIGHT, Ended, wait_until
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

NODES = ["compute1", "compute2", "compute3"]
SILENT = {"node-silent", "node-down", "version-differs", "filesystem-silent"}
SITE = """\
name: site
nodes: {compute: {count: 3}}
filesystems:
  shared: {type: local, path: /mnt/grid}
libraries: {data: {}}
scheduler: {type: slurm}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with up(lab_of(tmp_path_factory.mktemp("boughtlab"), "boughtlab", "10.95.0.0/24")) as made:
        yield made


@pytest.fixture(scope="module")
def grid(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoughtGrid]:
    with bought(lab, tmp_path_factory.mktemp("bought")) as made:
        yield made


def checks(ended: Ended, name: str) -> list[dict[str, Any]]:
    return [each for each in ended.json["checks"] if each["name"] == name]


def in_data(lab: Lab) -> str:
    return lab.run("compute1", "find", "/mnt/grid/data", "-mindepth", "1").out


def test_nodes_that_let_nobody_log_in_answer_as_jobs(lab: Lab) -> None:
    assert lab.run("controller", "sh", "-c", f"cat >/mnt/grid/site.yaml <<'END'\n{SITE}END\n").status == 0
    assert lab.run("controller", "mv", "/root/.ssh", "/root/away").status == 0
    try:
        ended = lab.run("controller", GRIDWRIGHT, "doctor", "/mnt/grid/site.yaml", "--json")
    finally:
        assert lab.run("controller", "mv", "/root/away", "/root/.ssh").status == 0
    for name in ("node-silent", "version-differs"):
        (check,) = checks(ended, name)
        assert (check["ok"], check["nodes"]) == (True, "compute[1-3]"), check["found"]
    left = lab.run("controller", "sh", "-c", "ls /mnt/grid/.gridwright/ask; squeue --noheader")
    assert left.out == ""


def test_what_the_workload_lacks_on_the_grid_is_named_with_the_command_that_installs_it(
    grid: BoughtGrid,
) -> None:
    ended = grid("workload", grid.whole, "--runs", grid.spec.parent / "runs")
    assert ended.status == 3
    assert "controller: packages that the workload needs are not on the grid" in ended.text
    assert "duckdb" in ended.text
    assert f"python3 -m venv {ENVIRONMENT} && {ENVIRONMENT}/bin/pip install" in ended.text
    assert not (grid.spec.parent / "runs").exists(), "it is said before anything is measured"
    grid.add_engines()


def matrix(grid: BoughtGrid, *streams: list[object]) -> Path:
    file = grid.spec.parent / "matrix.yaml"
    file.write_text(json.dumps({"name": "own", "streams": streams}))
    return file


def test_a_whole_proof_from_outside_reaches_every_node(grid: BoughtGrid) -> None:
    assert [grid.parts(node) for node in NODES] == ["", "", ""]
    # Engines that are built for the Python of this machine run where nodes have the same.
    version = grid.lab.run("compute1", "python3", "-c", "import sys; print(sys.version_info.minor)").out
    test = "sort" if int(version) == sys.version_info.minor else None
    tests = [{"test": test}] if test else []
    where = {"command": ["hostname"], "name": "where"}
    streams = matrix(grid, [*tests, where], [where], [where])
    flags = ("--seconds", "1s", "--phases", "write,read", "--matrix", streams, "--scale", "tiny")
    ended = grid("prove", grid.whole, *flags, "--runs", grid.spec.parent / "runs", "--json")
    assert ended.status in (0, 1), ended.err
    document = ended.json
    assert {node["node"]: node["host"] for node in document["iotest"]["nodes"]} == {
        node: node for node in NODES
    }
    assert [library["library"] for library in document["iotest"]["libraries"]] == ["data", "work", "util"]
    for phase in (each for library in document["iotest"]["libraries"] for each in library["phases"]):
        assert {node["node"]: node["status"] for node in phase["nodes"]} == dict.fromkeys(NODES, "complete")
        assert phase["bytes"] == sum(node["bytes"] for node in phase["nodes"]) > 0
    launches = document["workload"]["launches"]
    assert [launch["ok"] for launch in launches] == [True] * (3 + len(tests)), launches
    for launch in launches:
        assert launch["node"] in NODES
        log = (Path(document["run"]) / launch["log"]).read_text()
        assert launch["test"] != "where" or launch["node"] in log, "what it printed is here"
    assert document["workload"]["nodes"]
    assert not {each["name"] for each in document["doctor"]} & SILENT
    assert {node for each in document["doctor"] for node in each["nodes"]} <= set(NODES)
    assert "this machine" not in ended.err
    assert not Path("/mnt/grid").exists(), "nothing is made here in its place"
    cleaned = grid("workload", "clean", grid.whole, "--json")
    assert len(cleaned.json["removed"]) == len(tests)
    assert in_data(grid.lab) in ("", "/mnt/grid/data/gridwright-workload\n")


@pytest.mark.parametrize("how", ["interrupt", pytest.param("kill", marks=pytest.mark.thorough), "cut"])
def test_a_workload_from_outside_leaves_nothing_however_it_ends(grid: BoughtGrid, how: str) -> None:
    stays = {"command": ["sleep", "200"], "name": "stays"}
    flags = ("--matrix", matrix(grid, [stays], [stays]), "--runs", grid.spec.parent / f"runs-{how}")
    start = grid.lab.command.start
    with start("workload", grid.whole, *flags, environment=grid.environment) as running:
        running.says("2 running", 60.0)
        assert "workload" in grid.lab.run("controller", "squeue", "--noheader").out
        if how == "interrupt":
            running.signal(signal.SIGINT)
        elif how == "kill":
            running.signal(signal.SIGKILL)
        else:
            (bridge,) = [
                each
                for each in psutil.Process(running.process.pid).children(recursive=True)
                if "bridge.py" in " ".join(each.cmdline())
            ]
            bridge.kill()
        ended = running.end()
    assert ended.status == {"interrupt": 130, "kill": -signal.SIGKILL, "cut": 3}[how], ended.err
    assert ("its jobs end within two minutes" in ended.text) == (how == "cut")
    look = "squeue --noheader; ls -A /mnt/grid/work /mnt/grid/util; "
    look += "echo runs:; ls -A /mnt/grid/.gridwright/workload"

    def left() -> str:
        return grid.lab.run("controller", "sh", "-c", look).out

    def nothing() -> bool | None:
        found = left()
        gone = found.endswith("runs:\n") and "workload " not in found and ".gridwright-workload" not in found
        return gone or None

    wait_until(nothing, seconds=60.0, what="jobs, directories and requests to go", last=left)


def test_nodes_keep_their_part_and_are_asked_about_everything(grid: BoughtGrid) -> None:
    before = [grid.parts(node) for node in NODES]
    assert all(re.fullmatch(r"/root/.cache/gridwright/part-\S+ \d+\n", each) for each in before), before
    ended = grid("doctor", grid.spec, "--json")
    assert [grid.parts(node) for node in NODES] == before, "nothing is copied again"
    for name in ("node-silent", "version-differs"):
        (check,) = checks(ended, name)
        assert (check["ok"], check["nodes"]) == (True, "compute[1-3]"), check["found"]
    some = grid("doctor", grid.spec, "--nodes", "compute[2-3]", "--only", "version-differs", "--json")
    assert [each["nodes"] for each in some.json["checks"]] == ["compute[2-3]"]


@pytest.mark.thorough
def test_a_node_out_of_reach_is_named_and_left_out(grid: BoughtGrid) -> None:
    assert grid.lab.fault("partition", "compute2").status == 0
    try:
        ended = grid("doctor", grid.spec, "--json")
        (silent,) = [each for each in checks(ended, "node-silent") if not each["ok"]]
        assert silent["nodes"] == "compute2"
        flags = ("--seconds", "1s", "--streams", "1", "--runs", grid.spec.parent / "runs", "--json")
        test = grid("iotest", grid.spec, *flags)
    finally:
        assert grid.lab.fault("heal", "compute2").status == 0
    assert test.status == 3
    for phase in test.json["libraries"][0]["phases"]:
        complete = {node["node"] for node in phase["nodes"] if node["status"] == "complete"}
        assert complete == {"compute1", "compute3"}
    assert any("compute2" in each["text"] for each in test.json["findings"])


def test_a_node_whose_host_key_has_changed_is_refused_and_named(grid: BoughtGrid, tmp_path: Path) -> None:
    flags = ("--only", "node-silent", "--json")
    grid("doctor", grid.spec, *flags)
    files = (grid.spec.parent / "state/gridwright/host-keys").iterdir()
    kept = max(
        (each for each in files if "compute2 " in each.read_text()), key=lambda each: each.stat().st_mtime
    )
    known = kept.read_text()
    strange = tmp_path / "strange"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", strange], timeout=30, check=True)
    key = " ".join(strange.with_suffix(".pub").read_text().split()[:2])
    lines = [line for line in known.splitlines() if not line.startswith("compute2 ")]
    assert len(lines) < len(known.splitlines())
    kept.write_text("".join(f"{line}\n" for line in [*lines, f"compute2 {key}"]))
    try:
        ended = grid("doctor", grid.spec, *flags)
    finally:
        kept.write_text(known)
    silent = [each for each in ended.json["checks"] if not each["ok"] and "compute2" in each["nodes"]]
    assert "its host key is not the one that it had before" in json.dumps(silent)
    assert f"if it was replaced, remove line {len(lines) + 1} of {kept.parent}" in json.dumps(silent)


@pytest.mark.parametrize("verb", ["jobs", "submit"])
def test_what_needs_the_grids_own_directory_says_where_to_run_it(grid: BoughtGrid, verb: str) -> None:
    spec = str(grid.spec)
    words = {"jobs": ["--grid", spec], "submit": ["--grid", spec, "--", "true"]}
    ended = grid(verb, *words[verb])
    assert ended.status == 3
    assert "controller" in ended.text
    assert "/mnt/grid/.gridwright" in ended.text
    assert not Path("/mnt/grid").exists(), "nothing is made here in its place"


def test_a_front_that_does_not_answer_is_one_error(grid: BoughtGrid) -> None:
    text = grid.front.read_text()
    try:
        grid.front.write_text(re.sub("ProxyCommand.*", "ProxyCommand false", text))
        ended = grid("doctor", grid.spec)
    finally:
        grid.front.write_text(text)
    assert ended.status == 3
    assert f"ssh does not reach {FRONT}" in ended.text
    assert ended.err.count("error") == 1
