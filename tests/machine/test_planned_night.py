"""A night that `plan` found a grid for, run on a lab whose network and file system have that grid's shares.

Bytes and rates are those of the plan times one factor, so that the lab takes as long as the planned grid
would. Jobs sleep where they compute: the design has a core for each of them, and this machine does not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gridwright.filesystems.resources import Route
from gridwright.model.grid import GridModel, grid_model
from gridwright.providers.lab.boot import NODE_SIDE, bridge_side
from gridwright.providers.lab.record import read
from gridwright.spec import load_spec
from gridwright.workload.imports.job_table import read_jobs
from tests.support.command import Command
from tests.support.lab import Lab, up

pytestmark = pytest.mark.root

FACTOR = 1 / 20
"""Of bytes and rates, from the planned grid to the lab: slow enough for disk and cores of any machine."""
FRAME, PAYLOAD = 1514, 1448
"""Bytes of a full Ethernet frame, which token buckets count, and what TCP carries in it: the MTU of 1500 less
the headers of IP (20) and TCP (20, and 12 of its time stamp, RFC 7323). Jobs move what TCP carries."""
BUCKET = 1 << 17
"""Bytes that pass at once after a pause: little beside what a job moves in a turn."""
WAITING = "50ms"
"""How long data may wait at a limit before they are lost: with less TCP shares unevenly."""
TOLERANCE = 0.2
JOBS = """\
name,stream,real_s,cpu_s,read_bytes,written_bytes
load1,1,10,1.5,900000000,100000000
mart1,1,10,4.0,300000000,200000000
load2,2,10,1.5,800000000,100000000
mart2,2,10,5.0,200000000,250000000
load3,3,10,2.0,1200000000,50000000
report3,3,10,5.0,100000000,0
score4,4,10,8.0,300000000,0
mart4,4,10,3.0,500000000,200000000
load5,5,10,1.0,800000000,100000000
report5,5,10,4.0,200000000,0
score6,6,10,9.0,200000000,0
mart6,6,10,2.0,500000000,200000000
load7,7,10,2.0,1000000000,50000000
report7,7,10,3.0,100000000,0
load8,8,10,1.0,600000000,300000000
score8,8,10,7.0,100000000,0
"""
PLANNED = """\
name: planned
provider: aws
region: us-east-1
requirements:
  jobs: night.csv
  finish_within: 30s
  families: {allow: [m5]}
  nodes: {cores: {least: 2, most: 2}}
filesystems:
  shared:
    type: managed
    path: /shared
    capacity: 1 TiB
    limits: {read: 400 MB/s, write: 150 MB/s, separate: true}
libraries:
  data: {filesystem: shared, capacity: 100 GiB}
  work: {filesystem: shared, capacity: 100 GiB}
"""
LAB = """\
name: planned
provider: lab
lab: {{network: 10.86.0.0/24}}
nodes:
  compute: {{count: {nodes}, cores: 2, memory: 1 GiB}}
filesystems:
  shared: {{type: moosefs, path: /mnt/grid, servers: 1}}
libraries: {{data: {{filesystem: shared}}, work: {{filesystem: shared}}}}
scheduler: {{type: ssh}}
"""
STREAMS = """
import json, os, sys, threading, time

def job(name, phases):
    block = bytes(1 << 20)
    with open(f"/mnt/grid/data/{name}", "rb", 0) as source, open(f"/mnt/grid/work/{name}", "wb", 0) as target:
        for seconds, size, written in phases:
            until = time.monotonic() + seconds
            while size > 0:
                got = len(source.read(min(size, 1 << 20)))
                if not got:
                    raise EOFError(name)
                size -= got
            while written > 0:
                written -= target.write(block[:min(written, 1 << 20)])
                if written <= 0:
                    os.fsync(target)
            time.sleep(max(0.0, until - time.monotonic()))

def stream(jobs):
    for name, phases in jobs:
        job(name, phases)
        ended.append((name, time.time() - started))

ended, (started, streams) = [], json.load(open(sys.argv[1]))
time.sleep(started - time.time())
threads = [threading.Thread(target=stream, args=(jobs,)) for jobs in streams]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(ended))
"""
"""Runs streams of jobs side by side: a job reads, writes or waits, phase by phase."""


@pytest.fixture
def planned(tmp_path: Path) -> tuple[dict[str, Any], GridModel]:
    """The cheapest design in time, and the grid that its spec describes."""
    (tmp_path / "night.csv").write_text(JOBS)
    (tmp_path / "planned.yaml").write_text(PLANNED)
    chosen = tmp_path / "chosen.yaml"
    ended = Command(tmp_path)("plan", tmp_path / "planned.yaml", "--json", "--write", chosen)
    assert ended.status == 0, ended.err
    best: dict[str, Any] = ended.json["best"]
    return best, grid_model(load_spec(chosen))


@pytest.fixture
def lab(tmp_path: Path, planned: tuple[dict[str, Any], GridModel]) -> Iterator[Lab]:
    """As many nodes as the design has, and one that serves the file system."""
    spec = tmp_path / "lab.yaml"
    spec.write_text(LAB.format(nodes=planned[1].nodes))
    with up(Lab(Command(tmp_path), spec, "planned")) as lab:
        yield lab


def limits(route: Route) -> dict[str, float]:
    """Bytes per second of each resource on the way, in the lab."""
    assert all(use.coefficient == 1.0 for use in route.uses)
    return {use.resource.scope: use.resource.bytes_per_s * FACTOR for use in route.uses}


def throttle(lab: Lab, name: str, sends: float, receives: float) -> None:
    """Limit a node's network in each direction, in bytes per second, as `lab: bandwidth:` does in both."""
    record = read(lab.name)
    assert record is not None
    node = record.node(name)
    assert node.process is not None
    assert record.anchor is not None
    for pid, device, rate in (
        (node.process.pid, NODE_SIDE, sends),
        (record.anchor.pid, bridge_side(node.plan), receives),
    ):
        shape = f"root tbf rate {round(rate * 8 * FRAME / PAYLOAD)}bit burst {BUCKET}b latency {WAITING}"
        command = ["nsenter", "-t", str(pid), "-n", "tc", "qdisc", "add", "dev", device, *shape.split()]
        subprocess.run(command, check=True, timeout=20)


def night_of(jobs: Path) -> list[list[tuple[str, list[tuple[float, int, int]]]]]:
    """The streams: of each job its phases, seconds that it computes and bytes that it reads and writes."""
    table = read_jobs(jobs)
    phases = {
        name: [
            (
                phase.cpu_s / phase.threads,
                round(sum(phase.read_bytes.values()) * FACTOR),
                round(sum(phase.written_bytes.values()) * FACTOR),
            )
            for phase in profile.phases
        ]
        for name, profile in table.profiles.profiles.items()
    }
    return [[(job, phases[job]) for job in stream] for stream in table.streams]


@pytest.mark.thorough
@pytest.mark.alone  # its end is compared with a prediction, which others' work would delay
def test_a_planned_night_takes_as_long_as_was_predicted(
    tmp_path: Path, planned: tuple[dict[str, Any], GridModel], lab: Lab
) -> None:
    best, grid = planned
    streams = night_of(tmp_path / "night.csv")
    assert max(map(len, (streams[n :: grid.nodes] for n in range(grid.nodes)))) <= grid.alike.cores_per_node
    computing = max(sum(seconds for _, phases in jobs for seconds, _, _ in phases) for jobs in streams)
    assert computing < best["finish_s"] / 2, "what they move is what determines the end"
    # The controller makes the files, so that no node has any of them in its page cache.
    sizes = {name: sum(size for _, size, _ in phases) for stream in streams for name, phases in stream}
    made = "; ".join(f"head -c {size} /dev/zero > /mnt/grid/data/{name}" for name, size in sizes.items())
    assert (
        lab.run("controller", "sh", "-ec", f"mkdir -p /mnt/grid/data /mnt/grid/work; {made}; sync").status
        == 0
    )
    reads, writes = limits(grid.alike.routes["data"]["read"]), limits(grid.alike.routes["work"]["write"])
    nodes = [f"compute{number + 1}" for number in range(grid.nodes)]
    for node in nodes:
        throttle(lab, node, sends=writes["node"], receives=reads["node"])
    throttle(lab, "storage1", sends=reads["grid"], receives=writes["grid"])

    state = Path(lab.record).parent / "state"
    started = time.time() + 1.5
    for number, node in enumerate(nodes):
        (state / f"{node}.json").write_text(json.dumps([started, streams[number :: len(nodes)]]))
    with ThreadPoolExecutor() as pool:
        run = [
            pool.submit(lab.run, node, sys.executable, "-I", "-S", "-c", STREAMS, str(state / f"{node}.json"))
            for node in nodes
        ]
        ended = [each.result() for each in run]
    assert all(each.status == 0 for each in ended), [each.err for each in ended]
    ends = {name: end for each in ended for name, end in each.json}

    assert len(ends) == len(sizes)
    assert max(ends.values()) == pytest.approx(best["finish_s"], rel=TOLERANCE), sorted(ends.items())
