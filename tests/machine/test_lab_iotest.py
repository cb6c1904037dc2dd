"""iotest on the nodes of a lab, through Slurm and through ssh, and what befalls nodes and servers."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.lab.record import LABS
from tests.support.command import Command, Ended, Running, wait_until
from tests.support.lab import Lab, nodes_only, up

pytestmark = pytest.mark.root

SPEC = """\
name: iolab
provider: lab
lab: {network: 10.82.0.0/24, bandwidth: 20 MB/s}
nodes:
  compute: {count: 3, cores: 4, memory: 2 GiB}
filesystems:
  shared: {type: moosefs, path: /mnt/grid, servers: 3, copies: 2}
libraries:
  data: {filesystem: shared, requires: 0.1 MB/s/core}
scheduler: {type: slurm}
silence:
  unusual-requirement: all nodes of a lab share one disk
  server-cache: this is a test of nodes
"""
BANDWIDTH = 20e6
NAMES = ["compute1", "compute2", "compute3"]
DATA = "/mnt/grid/data"
MASTER = ["mfsmaster", "-c", "/etc/mfs/mfsmaster.cfg", "-a", "start"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("iolab")
    spec = place / "iolab.yaml"
    spec.write_text(SPEC)
    with up(Lab(Command(place), spec, "iolab")) as lab:
        yield lab


def start(lab: Lab, *flags: str) -> Running:
    undrained(lab)
    streams = () if "--streams" in flags else ("--streams", "2")
    return lab.command.start("iotest", lab.spec, *streams, *flags, "--json")


def undrained(lab: Lab) -> None:
    """Wait until Slurm has all nodes at work: one that hung in a test before is drained for some time."""

    def states() -> str:
        return lab.run("controller", "sinfo", "-h", "-N", "-o", "%N %T %E").out

    wait_until(lambda: None if "drain" in states() else True, seconds=90, what="all nodes", last=states)


def iotest(lab: Lab, *flags: str) -> Ended:
    with start(lab, *flags) as running:
        return running.end(150)


def phases(ended: Ended) -> list[dict[str, Any]]:
    (library,) = ended.json["libraries"]
    found: list[dict[str, Any]] = library["phases"]
    return found


def findings(ended: Ended, name: str) -> list[str]:
    return [each["text"] for each in ended.json["findings"] if each["name"] == name]


def states(phase: dict[str, Any]) -> list[str]:
    return [node["status"] for node in phase["nodes"]]


def chunk_servers(lab: Lab, signal: str) -> None:
    for server in ("storage1", "storage2", "storage3"):
        assert lab.run(server, "pkill", signal, "mfschunkserver").status == 0


def nothing_left(lab: Lab) -> None:
    """Neither files, nor jobs, nor the secret."""

    def left() -> str:
        files = lab.run("compute1", "find", DATA, "-mindepth", "1").out
        secrets = [str(path) for path in (LABS / lab.name / "state").glob("*.secret")]
        return files + lab.run("controller", "squeue", "--noheader").out + " ".join(secrets)

    wait_until(lambda: None if left().strip() else True, seconds=40, what="nothing", last=left)


def test_three_nodes_and_their_sum(lab: Lab) -> None:
    ended = iotest(lab, "--seconds", "2s", "--phases", "write,read,metadata")
    assert ended.status == 0, ended.err
    assert [node["node"] for node in ended.json["nodes"]] == NAMES
    assert {node["host"] for node in ended.json["nodes"]} == set(NAMES), "each worker ran on its node"
    write, read, metadata = phases(ended)
    for phase in (write, read):
        assert [node["node"] for node in phase["nodes"]] == NAMES
        assert phase["bytes"] == sum(node["bytes"] for node in phase["nodes"]) > 0
        assert phase["per_core_bytes_per_s"] == pytest.approx(phase["rate_last_bytes_per_s"] / 12)
        assert all(abs(node["start_offset_s"]) < 0.5 for node in phase["nodes"])
        assert phase["rate_last_bytes_per_s"] < 3 * BANDWIDTH * 1.2, "a node sends and receives no more"
    assert metadata["operations"]["create"]["count"] > 0
    assert ended.json["met"] is True
    nothing_left(lab)


def test_pairs_and_a_shared_file_are_verified_on_a_real_file_system(lab: Lab) -> None:
    ended = iotest(lab, "--size", "8MiB", "--pairs", "--shared-file", "--verify")
    assert ended.status == 0, ended.err
    _, read = phases(ended)
    assert read["verified_bytes"] == 3 * 2 * 8 * (1 << 20)
    assert read["cached_fraction"] in (None, 0.0), "nobody reads what its own client has in its cache"
    nothing_left(lab)


@pytest.mark.thorough
def test_a_master_that_is_away_is_a_stall_with_its_length_and_no_wrong_byte(lab: Lab) -> None:
    # A client asks the master once for each 64 MiB of a file: one long file each.
    flags = ["--streams", "1", "--seconds", "16s", "--engine", "direct", "--verify", "--pairs"]
    with start(lab, *flags) as running:
        running.says("data: read", 100)
        try:
            assert lab.run("storage1", "pkill", "-9", "mfsmaster").status == 0
            # A client goes on with the 64 MiB that it knows of; what surely stands still is a read of servers
            # that hang.
            chunk_servers(lab, "-STOP")
            time.sleep(7.0)
        finally:
            chunk_servers(lab, "-CONT")
            assert lab.run("storage1", *MASTER).status == 0
        ended = running.end(150)
    assert ended.status == 0, ended.err
    _, read = phases(ended)
    assert states(read) == ["complete"] * 3
    assert read["verified_bytes"] == read["bytes"] > 0
    stalls = [(node["node"], stall["seconds"]) for node in read["nodes"] for stall in node["stalls"]]
    assert any(5.0 <= seconds < 60.0 for _, seconds in stalls), stalls
    said = findings(ended, "stalled")
    for name, seconds in stalls:
        told = f"phase read on node {name}: all streams stood still for up to {seconds:.1f} s"
        assert any(told in text for text in said)
    nothing_left(lab)


def test_a_node_that_is_powered_off_is_named_and_the_others_go_on(lab: Lab) -> None:
    with start(lab, "--seconds", "10s") as running:
        running.says("data: write", 60)
        assert lab.fault("power-off", "compute2").status == 0
        ended = running.end(150)
    try:
        assert ended.status == 3, ended.err
        assert ended.json["status"] == "complete"
        assert ended.json["met"] is None, "what two of three nodes reach proves nothing"
        (said,) = findings(ended, "node-lost")
        assert said.startswith("node compute2 was lost: ")
        # On a slow machine the first phase may be over when the order to power off arrives.
        assert states(phases(ended)[-1]) == ["complete", "failed", "complete"]
        nothing_left(lab)
    finally:
        powered = lab.fault("power-on", "compute2")
    assert powered.status == 0, powered.err


@pytest.mark.thorough
def test_a_node_that_is_cut_off_is_named_and_given_up(lab: Lab) -> None:
    with start(lab, "--seconds", "10s", "--on-node-failure", "stop") as running:
        running.says("data: write", 90)
        assert lab.fault("partition", "compute3").status == 0
        ended = running.end(150)
    try:
        assert ended.status == 3, ended.err
        assert ended.json["status"] == "failed"
        (said,) = findings(ended, "node-lost")
        # The coordinator and Slurm both notice the silence, and either may be first.
        noticed = r"node compute3 was lost: (nothing was heard of it for |its job \d+ node failed)"
        assert re.match(noticed, said)
        assert states(phases(ended)[-1]) == ["complete", "complete", "failed"]
    finally:
        healed = lab.fault("heal", "compute3")
    assert healed.status == 0, healed.err
    nothing_left(lab)


def test_nothing_is_left_of_a_killed_command(lab: Lab) -> None:
    with start(lab, "--seconds", "60s") as running:
        running.says("data: write", 90)
        threading.Event().wait(1.0)
        running.signal(signal.SIGKILL)
        running.end()

    def left() -> str:
        files = lab.run("compute1", "find", DATA, "-mindepth", "1").out
        return files + lab.run("controller", "squeue", "--noheader").out

    wait_until(lambda: None if left().strip() else True, seconds=40, what="nothing", last=left)


def test_without_a_queue_workers_are_started_through_ssh(tmp_path: Path) -> None:
    place = Command(tmp_path)
    with up(nodes_only(place, tmp_path, "iossh", "10.82.1.0/24", count=2)) as lab:
        ended = iotest(lab, "--size", "4MiB", "--pairs", "--verify")
        assert ended.status == 0, ended.err
        library = ended.json["libraries"][0]
        assert library["nodes"] == 2
        assert library["phases"][1]["verified_bytes"] == 2 * 2 * 4 * (1 << 20)
        assert {node["host"] for node in ended.json["nodes"]} == {"compute1", "compute2"}


SMALL = """\
name: iofull
provider: lab
lab: {network: 10.82.2.0/24, disk: 1 GiB}
nodes:
  compute: {count: 2, cores: 2, memory: 1 GiB}
filesystems:
  shared: {type: moosefs, path: /mnt/grid, servers: 1}
libraries: {data: {}}
scheduler: {type: ssh}
"""


@pytest.mark.thorough
def test_a_file_system_that_fills_up_is_named_and_nothing_of_ours_stays_on_it(tmp_path: Path) -> None:
    spec = tmp_path / "iofull.yaml"
    spec.write_text(SMALL)
    with up(Lab(Command(tmp_path), spec, "iofull")) as lab:
        with start(lab, "--seconds", "30s") as running:
            running.says("data: write", 60)
            lab.run("compute1", "dd", "if=/dev/zero", f"of={DATA}/someone-else", "bs=1M", "count=2000")
            ended = running.end(150)
        assert ended.status == 3, ended.err
        said = findings(ended, "node-failed")
        assert said
        assert all("no space is left on the file system" in text for text in said)
        left = lab.run("compute2", "find", DATA, "-mindepth", "1").out
        assert left.split() == [f"{DATA}/someone-else"]
