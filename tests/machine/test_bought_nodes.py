"""A grid of bought nodes from outside: they are private, behind one machine, and lack Gridwright."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bought import FRONT, BoughtGrid, bought, lab_of
from tests.support.command import GRIDWRIGHT, Ended
from tests.support.lab import Lab, up

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

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
    return lab.exec("compute1", "find", "/mnt/grid/data", "-mindepth", "1").out


def test_nodes_that_let_nobody_log_in_answer_as_jobs(lab: Lab) -> None:
    assert lab.exec("controller", "sh", "-c", f"cat >/mnt/grid/site.yaml <<'END'\n{SITE}END\n").status == 0
    assert lab.exec("controller", "mv", "/root/.ssh", "/root/away").status == 0
    try:
        ended = lab.exec("controller", GRIDWRIGHT, "doctor", "/mnt/grid/site.yaml", "--json")
    finally:
        assert lab.exec("controller", "mv", "/root/away", "/root/.ssh").status == 0
    for name in ("node-silent", "version-differs"):
        (check,) = checks(ended, name)
        assert (check["ok"], check["nodes"]) == (True, "compute[1-3]"), check["found"]
    left = lab.exec("controller", "sh", "-c", "ls /mnt/grid/.gridwright | grep ask; squeue --noheader")
    assert left.out == ""


def test_a_proof_from_outside_reaches_every_node(grid: BoughtGrid) -> None:
    assert [grid.parts(node) for node in NODES] == ["", "", ""]
    flags = ("--skip", "workload", "--seconds", "1s", "--runs", grid.spec.parent / "runs", "--json")
    ended = grid("prove", grid.spec, *flags)
    assert ended.status in (0, 1), ended.err
    document = ended.json
    assert {node["node"]: node["host"] for node in document["iotest"]["nodes"]} == {
        node: node for node in NODES
    }
    (library,) = document["iotest"]["libraries"]
    for phase in library["phases"]:
        assert {node["node"]: node["status"] for node in phase["nodes"]} == dict.fromkeys(NODES, "complete")
    for phase in (each for each in library["phases"] if each["op"] in ("write", "read")):
        assert phase["bytes"] == sum(node["bytes"] for node in phase["nodes"]) > 0
    assert not {each["name"] for each in document["doctor"]} & SILENT
    assert {node for each in document["doctor"] for node in each["nodes"]} <= set(NODES)
    assert "this machine" not in ended.err
    assert in_data(grid.lab) == ""


def test_nodes_keep_their_part_and_are_asked_about_everything(grid: BoughtGrid) -> None:
    grid("doctor", grid.spec, "--json")
    before = [grid.parts(node) for node in NODES]
    assert all(re.fullmatch(r"/root/.cache/gridwright/part-\S+ \d+\n", each) for each in before), before
    ended = grid("doctor", grid.spec, "--json")
    assert [grid.parts(node) for node in NODES] == before, "nothing is copied again"
    for name in ("node-silent", "version-differs"):
        (check,) = checks(ended, name)
        assert (check["ok"], check["nodes"]) == (True, "compute[1-3]"), check["found"]
    some = grid("doctor", grid.spec, "--nodes", "compute[2-3]", "--only", "version-differs", "--json")
    assert [each["nodes"] for each in some.json["checks"]] == ["compute[2-3]"]


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


@pytest.mark.parametrize("verb", ["jobs", "submit", "workload"])
def test_what_needs_the_grids_own_directory_says_where_to_run_it(grid: BoughtGrid, verb: str) -> None:
    spec = str(grid.spec)
    words = {"jobs": ["--grid", spec], "submit": ["--grid", spec, "--", "true"], "workload": [spec]}
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
