"""NFS as the papers' baseline has it: a kernel's server and its client, on two machines of one network."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.doctor.facts.filesystems import HEALTH_S
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import LATE_S
from gridwright.providers.lab.image import python_directories
from gridwright.spec import parse_spec
from tests.vm.conftest import MakeUml
from tests.vm.machine import blank_disk
from tests.vm.network import Network
from tests.vm.uml import Uml

pytestmark = pytest.mark.vm

_SPEC = """
filesystems:
  share: {type: nfs, server: 10.90.0.1, export: /srv/data, path: /data, connections: 2}
libraries:
  work: {filesystem: share}
"""
_SERVE = """set -e
modprobe nfsd
mkdir -p /srv/data
mount -t xfs /dev/ubdb /srv/data
mount -t nfsd nfsd /proc/fs/nfsd
mkdir -p /run/rpc_pipefs
rpcbind -w
echo '/srv/data *(rw,sync,no_root_squash,insecure,no_subtree_check,fsid=1)' > /etc/exports
exportfs -ra
# A server of a few hundred MiB of memory would offer less.
echo 1048576 > /proc/fs/nfsd/max_block_size
rpc.nfsd --grace-time 10 --lease-time 10 8
rpc.mountd
"""
_GRIDWRIGHT = shlex.quote(str(Path(sys.executable).parent / "gridwright"))
_LOOK = """
import json, sys, time
from pathlib import Path
from gridwright.commands import run_here
from gridwright.filesystems.nfs_client.health import health
from gridwright.filesystems.nfs_client.health import read_mountstats, stats_of
from gridwright.spec import parse_spec
began = time.monotonic()
spec = parse_spec(Path("/vm/grid.yaml").read_text())
found = health(run_here, "/data", spec.filesystems["share"].version)
stats = stats_of("/data", read_mountstats(run_here))
print(json.dumps({
    "condition": str(found.condition.value), "findings": [each.name for each in found.findings],
    "capacity": found.capacity_bytes, "seconds": time.monotonic() - began, "version": stats.version,
    "connections": len(stats.transports), "written": stats.bytes["server_write"],
    "read": stats.bytes["server_read"], "writes": stats.calls["WRITE"].operations,
}))
"""


@pytest.fixture
def server_and_client(make_uml: MakeUml, network: Network, tmp_path: Path) -> Iterator[tuple[Uml, Uml]]:
    disk = blank_disk(tmp_path / "data.img", 1 << 30)
    server = make_uml({"ubdb": disk}, port=network.port(1))
    client = make_uml({}, memory_mib=640, port=network.port(2))
    server.boot()
    client.boot()
    server.run("mkfs.xfs -q /dev/ubdb").ok()
    server.run(_SERVE).ok()
    (client.share / "grid.yaml").write_text(_SPEC)
    (client.share / "look.py").write_text(_LOOK)
    for directory in map(str, python_directories()):
        place = shlex.quote(directory)
        client.run(f"mkdir -p {place} && mount -t hostfs -r -o {place} none {place}").ok()
    share = parse_spec(_SPEC).filesystems["share"]
    entry = kind_of(share).mount_entry(share)
    assert entry is not None
    client.run(
        f"modprobe nfsv4; mkdir -p {entry.mount_point};"
        f"mount -t {entry.type} -o {entry.option_text} {entry.source} {entry.mount_point}; mkdir /data/work"
    ).ok()
    yield server, client


def _look(client: Uml) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.run(f"{_PYTHON} /vm/look.py", timeout_s=90).ok())
    return found


_PYTHON = f"{shlex.quote(sys.executable)} -P"


@pytest.mark.thorough  # Four seconds for a look are short on an emulated kernel.
def test_kernel_nfs_is_mounted_measured_counted_and_its_silence_is_named(
    server_and_client: tuple[Uml, Uml],
) -> None:
    server, client = server_and_client
    before = _look(client)
    assert (before["condition"], before["findings"]) == ("healthy", [])
    assert (before["version"], before["connections"]) == ("4.2", 2)
    assert before["capacity"] == pytest.approx(1 << 30, rel=0.1)

    answer = client.run(
        f"cd /tmp; {_GRIDWRIGHT} iotest --directory /data --streams 1 --size 32MiB --verify --json",
        timeout_s=120,
    )
    measured = json.loads(answer.ok())
    after = _look(client)
    # What the kernel counted on the wire is what the test wrote; its small files are beside it.
    assert 32 << 20 <= after["written"] - before["written"] < 40 << 20, measured
    assert after["writes"] - before["writes"] >= 32
    assert after["condition"] == "healthy"

    # The first one of a machine also waits for its programs, longer than a look may take.
    client.run(f"cd /vm; {_GRIDWRIGHT} doctor grid.yaml --json", timeout_s=120)
    usual_s = _doctor_s(client, hangs=False)
    server.power_off()
    # The rest is this kernel's slow start of programs, as it was before.
    assert _doctor_s(client, hangs=True) < 2 * usual_s + HEALTH_S + LATE_S

    server.boot()
    server.run(_SERVE).ok()
    client.run("dd if=/dev/zero of=/data/again bs=1M count=1 conv=fsync", timeout_s=120).ok()
    assert _look(client)["condition"] == "healthy"


def _doctor_s(client: Uml, *, hangs: bool) -> float:
    """Seconds that the doctor takes; it has to name the server's silence, or nothing that hangs."""
    answer = client.run(f"cd /vm; {_GRIDWRIGHT} doctor grid.yaml --json", timeout_s=120)
    document = json.loads(answer.stdout or "null")
    assert document, answer.stderr
    found = {check["name"]: check["found"] for check in document["checks"] if not check["ok"]}
    # The library alone is named where the server was not known to be silent in time.
    named = {name: found[name] for name in ("filesystem-silent", "library-hangs") if name in found}
    assert bool(named) == hangs, found
    assert all("/data" in each for each in named.values()), named
    return answer.seconds
