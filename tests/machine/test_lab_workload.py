"""The workload on the nodes of a lab, through Slurm: a node is powered off under it, and it is stopped."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridwright.providers.lab.power import power_off
from tests.support.command import Command, Running, wait_until
from tests.support.lab import Lab, up
from tests.support.workload import sh

pytestmark = pytest.mark.root

SPEC = """\
name: wllab
provider: lab
lab: {network: 10.83.0.0/24, bandwidth: 20 MB/s}
nodes:
  compute: {count: 3, cores: 4, memory: 2 GiB}
filesystems:
  shared: {type: moosefs, path: /mnt/grid, servers: 3, copies: 2}
libraries: {data: {}, work: {}, util: {}}
scheduler: {type: slurm}
"""
WORK = ("/mnt/grid/work", "/mnt/grid/util")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("wllab")
    spec = place / "wllab.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, "wllab")) as lab:
        yield lab


def start(lab: Lab, *flags: str | Path) -> Running:
    return lab.command.start("workload", lab.spec, "--scale", "tiny", *flags, "--json")


def node_of_first(lab: Lab, label: str) -> str:
    """The node on which the last run of the workload has a launch of a name running."""

    def look() -> str | None:
        for journal in lab.command.runs.glob("*/journal.jsonl"):
            for line in journal.read_text().splitlines():
                event = json.loads(line)
                if event["event"] == "launch-started" and event["label"] == label:
                    return str(event["node"])
        return None

    return wait_until(look, seconds=90, what=f"a launch of {label}", last=lambda: None)


def nothing_is_left(lab: Lab) -> None:
    """Wait until directories of launches and jobs are gone: Slurm completes a job some time after its end."""
    look = ("sh", "-c", f"find {' '.join(WORK)} -mindepth 1 -maxdepth 1; squeue --noheader")

    def left() -> str:
        return lab.run("controller", *look).out

    wait_until(lambda: True if not left() else None, seconds=20, what="nothing", last=left)


def test_data_are_made_and_removed_on_the_nodes(lab: Lab, tmp_path: Path) -> None:
    """First of all: a file system keeps the locks of a node that was lost for minutes."""
    matrix = tmp_path / "matrix.json"
    matrix.write_text(json.dumps({"name": "one", "streams": [["optimize"], [sh("hostname", name="who")]]}))
    with start(lab, "--matrix", matrix) as running:
        ended = running.end(120)
    assert ended.status == 0, ended.err
    data = ended.json["data"]
    assert data["made"] == data["tables"] == 1
    assert all(launch["node"].startswith("compute") for launch in ended.json["launches"])
    assert not Path(data["directory"]).exists(), "this machine does not see the libraries"
    cleaned = lab.command("workload", "clean", lab.spec, "--json")
    assert cleaned.status == 0, cleaned.err
    assert cleaned.json["removed"] == [data["directory"]]
    assert lab.run("compute3", "ls", "/mnt/grid/data").out.strip() == ""


@pytest.mark.thorough
def test_profiles_are_replayed_as_jobs_of_the_grid(lab: Lab, tmp_path: Path) -> None:
    """Where the libraries are, and the files that a replay reads, only the nodes see."""
    matrix = tmp_path / "matrix.json"
    steps = [
        sh(
            "dd if=/dev/zero of=$GRIDWRIGHT_WORK/t bs=1M count=8 conv=fsync; rm $GRIDWRIGHT_WORK/t",
            name="write",
        )
    ]
    matrix.write_text(json.dumps({"name": "own", "streams": [steps, [sh("true", name="brief")]]}))
    with start(lab, "--matrix", matrix) as running:
        ran = running.end(120)
    assert ran.status == 0, ran.err
    logs = sorted((Path(ran.json["run"]) / "logs").glob("0*.log"))
    assert lab.command("workload", "import", *logs).status == 0
    profiles = tmp_path / "own.json"
    assert lab.command("workload", "profile", "last", profiles).status == 0
    replayed = lab.command("workload", "replay", profiles, lab.spec, "--scale", "tiny", "--json", seconds=150)
    assert replayed.status == 0, replayed.err
    launches = replayed.json["launches"]
    assert sorted(launch["test"] for launch in launches) == ["brief", "write"]
    assert all(launch["ok"] and launch["job"] and launch["node"].startswith("compute") for launch in launches)
    assert {row["test"] for row in replayed.json["replayed"]} == {"brief", "write"}
    nothing_is_left(lab)


def test_the_workload_survives_a_node_that_is_powered_off(lab: Lab) -> None:
    with start(lab, "--matrix", "quick", "--streams", "2") as running:
        lost = node_of_first(lab, "logistic")
        assert power_off(lab.name, lost), "at once, while the launch runs"
        ended = running.end(240)
    document = ended.json
    assert ended.status == 0, ended.err
    assert document["summary"]["failed"] == 0
    assert len(document["launches"]) == 19
    assert [launch["reason"] for launch in document["launches"] if not launch["ok"]] == []
    again = [launch for launch in document["launches"] if launch["restarts"]]
    assert again, "what ran on the lost node was started again"
    assert all(launch["lost_on"] == [lost] and launch["node"] != lost for launch in again)
    told = [each["text"] for each in document["findings"] if each["name"] == "workload-requeued"]
    assert all(lost in text for text in told)
    assert all(f"{launch['number']} ({launch['test']})" in " ".join(told) for launch in again)
    assert {node["node"] for node in document["nodes"]} <= {"compute1", "compute2", "compute3"}
    assert sum(node["launches"] for node in document["nodes"]) == 19
    for launch in document["launches"]:
        assert launch["libraries"]["data"]["read_bytes"] > 0, launch["test"]
        assert launch["job"]
    shown = lab.command("runs", "show", Path(document["run"]).name)
    assert f"had to be started again after {lost} was lost" in " ".join(shown.out.split())
    assert lab.fault("power-on", lost).status == 0
    nothing_is_left(lab)


def test_a_stopped_workload_leaves_nothing_on_the_grid(lab: Lab, tmp_path: Path) -> None:
    matrix = tmp_path / "matrix.json"
    naps = [[sh("sleep 100", name=f"nap{number}")] for number in range(4)]
    matrix.write_text(json.dumps({"name": "naps", "streams": naps}))
    with start(lab, "--matrix", matrix) as running:
        node_of_first(lab, "nap3")
        began = time.monotonic()
        running.signal(signal.SIGINT)
        ended = running.end(60)
        took = time.monotonic() - began
    assert ended.status == 130, ended.err
    assert took < 15, f"it took {took:.1f} s to stop"
    assert {launch["reason"] for launch in ended.json["launches"]} == {"interrupted"}
    nothing_is_left(lab)
