"""Nodes as they tell of themselves, sound ones unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from gridwright import __version__
from gridwright.doctor.check import CheckResult, Observation, results_of
from gridwright.doctor.checks import all_checks
from gridwright.doctor.facts.node_facts import LibraryFacts, NodeFacts
from gridwright.messages import plain, typed
from gridwright.spec import GridSpec, parse_spec

GIB = 2**30
SPEC = parse_spec(
    """
provider: lab
nodes:
  compute: {count: 3, cores: 4, memory: 2 GiB}
filesystems:
  shared: {type: moosefs, path: /mnt/grid}
libraries:
  data: {requires: 1 MB/s/core}
scheduler: {type: slurm}
"""
)
MACHINES = parse_spec(
    """
nodes:
  compute: {count: 3, cores: 4, memory: 32 GiB}
filesystems:
  shared: {type: lustre, path: /mnt/grid, source: "10.0.0.1@tcp:/scratch"}
  disk: {type: local, path: /scratch, delivers: {write: 1 GB/s, read: 1 GB/s}}
libraries:
  data: {filesystem: shared, requires: 100 MB/s/core, capacity: 1 GiB}
  work: {filesystem: disk, requires: 125 MB/s/core}
scheduler: {type: slurm}
"""
)
"""Nodes that are machines of their own."""


def sound(**changes: Any) -> LibraryFacts:
    usual: dict[str, Any] = {
        "path": "/mnt/grid/data",
        "filesystem_type": "fuse.mfs",
        "source": "storage1:9421",
        "mount_point": "/mnt/grid",
        "options": "rw,nosuid,nodev",
        "read_only": False,
        "total_bytes": 100 * GIB,
        "available_bytes": 60 * GIB,
        "inodes": 1000,
        "inodes_free": 900,
        "file_times_off_s": 0.0,
        "locks": {"flock": None, "fcntl": None},
    }
    return LibraryFacts(**(usual | changes))


def node(name: str, library: LibraryFacts | None = None, **changes: Any) -> NodeFacts:
    usual: dict[str, object] = {
        "hostname": name,
        "version": __version__,
        "time": 1000.0,
        "cpus": 8,
        "memory_bytes": 4 * GIB,
        "libraries": {"data": library or sound()},
    }
    return typed(plain(usual | changes), NodeFacts)


def machine(name: str, **changes: Any) -> NodeFacts:
    """A node that tells everything, for the spec MACHINES, with nothing wrong."""
    usual: dict[str, Any] = {
        "hostname": name,
        "version": __version__,
        "time": 1000.0,
        "cpus": 8,
        "memory_bytes": 40 * GIB,
        "libraries": {
            "data": sound(filesystem_type="lustre", source="10.0.0.1@tcp:/scratch"),
            "work": sound(
                path="/scratch/work", filesystem_type="xfs", source="/dev/md0", mount_point="/scratch"
            ),
        },
        "system": {
            "kernel": "6.1.0",
            "architecture": "x86_64",
            "release": "debian 12",
            "identity": name,
            "selinux": "off",
        },
        "names": {"host": name, "addresses": ["10.0.0.7"]},
        "processors": {"cores": 4, "threads_per_core": 1},
        "memory": {
            "total_bytes": 40 * GIB,
            "available_bytes": 30 * GIB,
            "swap_bytes": GIB,
            "swap_used_bytes": 0,
        },
        "disks": [{"name": "nvme0n1", "medium": "nvme", "size_bytes": GIB, "queue": {"scheduler": "none"}}],
        "arrays": [{"name": "md0", "level": "raid1", "state": "clean", "wanted": 2, "missing": 0}],
        "mounts": [mount("/"), mount("/boot", type="vfat"), mount("/mnt/grid", type="lustre", local=False)],
        "interfaces": [card()],
        "clock": {"synchronised": True, "keepers": ["chronyd"]},
        "kernel_log": {},
        "services": {"failed": []},
        "scratch": {"mounted": {"/scratch": True}},
        "kernels": {
            "installed": [{"release": "6.1.0", "modules": {"lustre": "updates/lustre.ko"}}],
            "default": "6.1.0",
            "types": ["lustre"],
            "free": [],
        },
        "settings": {},
    }
    return typed(plain(usual | changes), NodeFacts)


def mount(point: str, **changes: object) -> dict[str, object]:
    usual: dict[str, object] = {
        "mount_point": point,
        "source": "/dev/nvme0n1p1",
        "type": "ext4",
        "options": "relatime,rw",
        "local": True,
        "total_bytes": 100 * GIB,
        "available_bytes": 60 * GIB,
        "used_bytes": 40 * GIB,
        "inodes": 1000,
        "inodes_free": 900,
    }
    return usual | changes


def card(**changes: object) -> dict[str, object]:
    usual: dict[str, object] = {
        "name": "eth0",
        "real": True,
        "default": True,
        "up": True,
        "bytes_per_s": 3_125_000_000,
        "mtu": 9001,
        "counters": {"rx_packets": 10**6, "tx_packets": 10**6},
    }
    return usual | changes


def grid(*nodes: NodeFacts, spec: GridSpec | None = SPEC) -> Observation:
    return Observation(spec, {each.hostname: each for each in nodes}, {}, {})


def results(seen: Observation) -> list[CheckResult]:
    return results_of(seen, all_checks())


def wrong(seen: Observation) -> list[CheckResult]:
    """What is wrong, but for the tuning table and for information."""
    settings = {check.name for check in all_checks() if check.topic == "Tuning"}
    return [
        each for each in results(seen) if not each.ok and each.level != "info" and each.name not in settings
    ]
