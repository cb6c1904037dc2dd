"""The double on nodes of a lab: its commands there, and disks that pairs of servers share."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gridwright.errors import GridwrightError
from gridwright.filesystems.kind import ClusterMachine, PairDisk
from gridwright.filesystems.scale.administration.desired import ScaleCluster
from gridwright.filesystems.scale.cluster import scale_cluster
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.providers.lab.record import read
from gridwright.providers.lab.services import Node, node_of
from tests.support.disks import run
from tests.support.lab import Lab, on
from tests.support.scale_double.command import CHANGING
from tests.support.scale_double.rows import LISTING

SPEC = """\
name: {name}
provider: lab
nodes:
  compute: {{count: {clients}, cores: 2, memory: 1 GiB}}
machines: {{nsd: {{count: {servers}, mounts: false}}}}
filesystems:
  shared: {{type: local, path: /mnt/grid}}
libraries: {{data: {{}}, work: {{}}, util: {{}}}}
scheduler: {{type: ssh}}
lab: {{network: {network}}}
"""
BIN, CODE = "/usr/lpp/mmfs/bin", "/opt/double"
MOUNT_POINT = "/gpfs/lake"
KERNEL = "6.1.0-double"
GIB = 2**30
_ROOT = Path(__file__).resolve().parents[3]


def node(lab: Lab, name: str) -> Node:
    """A node of the lab."""
    record = read(lab.name)
    assert record is not None
    return node_of(record, name)


def install(lab: Lab, names: Sequence[str]) -> None:
    """Give nodes the commands."""
    for name in names:
        there = node(lab, name)
        for file in (_ROOT / "tests/support/scale_double").glob("*.py"):
            there.write(f"{CODE}/tests/support/scale_double/{file.name}", file.read_text())
        for package in ("tests", "tests/support"):
            there.write(f"{CODE}/{package}/__init__.py", "")
        for command in (*LISTING, *CHANGING):
            there.write(f"{BIN}/{command}", _wrapper(f"on_nodes {command}"), mode=0o755)
        there.write(f"{BIN}/mmnode", _wrapper("node"), mode=0o755)
        there.write(
            f"{BIN}/mmbuildgpl",
            f"#!/bin/sh\nmkdir -p /lib/modules/{KERNEL}/extra && : > /lib/modules/{KERNEL}/extra/mmfs26.ko\n",
            mode=0o755,
        )


def _wrapper(program: str) -> str:
    return (
        f'#!/bin/sh\nPYTHONPATH={CODE} exec {sys.executable} -m tests.support.scale_double.{program} "$@"\n'
    )


def unmount(lab: Lab, names: Sequence[str]) -> None:
    """Let the disks go, on nodes that are up."""
    for name in names:
        with suppress(GridwrightError):
            node(lab, name).run(["umount", "-l", MOUNT_POINT])


def name_of(pair: int, index: int) -> str:
    """The device of a disk, the same on both servers of its pair."""
    return f"/dev/oracleoci/oraclevd{chr(ord('b') + index)}"


@contextmanager
def shared_disks(place: Path, pairs: int, each: int) -> Iterator[dict[tuple[int, int], str]]:
    """Loop devices by pair and index."""
    made: dict[tuple[int, int], str] = {}
    try:
        for pair in range(1, pairs + 1):
            for index in range(each):
                image = place / f"p{pair}-{index}.img"
                with image.open("wb") as file:
                    file.truncate(32 << 20)
                made[pair, index] = run("losetup", "--find", "--show", image).strip()
        yield made
    finally:
        for device in made.values():
            run("losetup", "--detach", device)


def attach(lab: Lab, disks: dict[tuple[int, int], str], servers: Sequence[str]) -> None:
    """Give servers the disks of their pair; a node that booted has none."""
    for server in servers:
        pair = (int(server.removeprefix("nsd")) + 1) // 2
        lines = [
            f"mknod {name_of(pair, index)} b 7 {device.removeprefix('/dev/loop')}"
            for (owner, index), device in disks.items()
            if owner == pair
        ]
        on(node(lab, server), "sh", "-ec", "\n".join(["mkdir -p /dev/oracleoci", *lines]))


def wanted(lab: Lab, pairs: int, clients: int, disks: int) -> ScaleCluster:
    """The cluster of the first servers and nodes of a lab, with so many disks a pair."""
    record = read(lab.name)
    assert record is not None
    addresses = {each.plan.name: each.plan.address for each in record.nodes}
    spec = ScaleFileSystem.model_validate(
        {
            "type": "scale",
            "path": MOUNT_POINT,
            "nsd": {"instance": "BM.Standard2.52", "count": 2 * pairs, "disks": {"type": "balanced"}},
        }
    )
    servers = [
        ClusterMachine(
            name=f"nsd{number}", address=str(addresses[f"nsd{number}"]), is_server=True,
            pair=(number + 1) // 2, memory_bytes=64 * GIB, nic_bytes_per_s=3e9,
        )
        for number in range(1, 2 * pairs + 1)
    ]  # fmt: skip
    nodes = [
        ClusterMachine(
            name=f"compute{number}", address=str(addresses[f"compute{number}"]), is_server=False,
            memory_bytes=GIB,
        )
        for number in range(1, clients + 1)
    ]  # fmt: skip
    shared = [
        PairDisk(volume=f"v{pair}-{index}", device=name_of(pair, index), pair=pair, index=index)
        for pair in range(1, pairs + 1)
        for index in range(disks)
    ]
    return scale_cluster("grid", "lake", spec, servers + nodes, shared)
