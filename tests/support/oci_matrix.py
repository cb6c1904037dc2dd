"""Specs of grids on OCI in which every two values of their fields meet at least once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tests.support.pairwise import pairwise

SITE = {
    "compartment": "ocid1.compartment.oc1..aaaaaaaaexamplecompartment",
    "ssh_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleKeyThatOpensNothing00000000000 admin@example.com",
}
IMAGE, ROCKY = "ocid1.image.oc1.iad.aaaaaaaaexampleimage", "ocid1.image.oc1.iad.aaaaaaaaexamplerocky"
SERVERS = "ocid1.image.oc1.iad.aaaaaaaaexampleservers"
VCN: dict[str, Any] = {
    "id": "ocid1.vcn.oc1.iad.aaaaaaaaexamplevcn",
    "network": "10.8.0.0/16",
    "ranges": {"public": "10.8.1.0/24", "fs": "10.8.64.0/18", "storage": "10.8.128.0/20"},
    "subnets": {
        name: f"ocid1.subnet.oc1.iad.aaaaaaaaexample{name}"
        for name in ("public", "fs", "storage", "services")
    },
}
NVME = {"type": "local", "path": "/scratch", "disks": {"type": "instance-store"}}
HOMES = {"type": "oci-file-storage", "path": "/sashome", "capacity": "200 GB"}
POOL = {"type": "oci-lustre", "path": "/shared", "capacity": "31.2 TB"}


def _scale(shape: str, servers: int, volume: str = "balanced", **more: Any) -> dict[str, Any]:
    disks = {"type": volume, "count": 6, "size": "1 TiB"}
    nsd = {"instance": shape, "count": servers, "disks": disks}
    return {"type": "scale", "path": "/gpfs/shared", "nsd": nsd, **more}


FIELDS: dict[str, dict[str, Any]] = {
    "filesystem": {
        "scale": _scale("BM.Optimized3.36", 4, "higher-performance"),
        "scale-one-card": _scale("VM.Optimized3.Flex(8)", 2, pagepool={"servers": 0.3, "clients": 0.1}),
        "scale-replicated": _scale(
            "BM.Standard.E5.192", 4, "ultra-high-performance-30", replicas=2, block_size="8 MiB"
        ),
        "scale-pools": _scale(
            "BM.Optimized3.36",
            4,
            "higher-performance",
            metadata_only=True,
            metadata_block_size="1 MiB",
            replicas=2,
            pools={
                "data": {"disks": {"type": "balanced", "count": 7, "size": "1 TiB"}},
                "Archive": {"disks": {"type": "lower-cost", "size": "4 TiB"}},
            },
            default_pool="data",
            migrations={"data": {"to": "Archive", "above": 90}},
        ),
        "lustre": {
            "type": "lustre",
            "path": "/shared",
            "oss": {
                "instance": "BM.Optimized3.36",
                "count": 2,
                "disks": {"type": "lower-cost", "count": 3, "size": "2 TiB"},
            },
            "mds": {"instance": "VM.Standard.E6.Flex(8)", "disks": {"type": "balanced", "size": "500 GiB"}},
        },
        "linked": {
            **POOL,
            "name": "lake",
            "capacity": "41.6 TB",
            "throughput": "500 MB/s/TB",
            "root_squash": "65534:65534",
            "maintenance": "sun:03:00",
            "links": [{"bucket": "oci://raw@tenancy/2026", "directory": "/raw", "imports": 1}],
        },
        "nvme": NVME,
    },
    "nodes": {
        "dense": {"instance": "VM.DenseIO.E5.Flex(24)", "count": 4},
        "one": {"instance": "VM.Standard.E6.Flex(16)", "count": 1},
        "arm": {"instance": "VM.Standard.A2.Flex(4)", "count": 2},
        "many": {"instance": "VM.Optimized3.Flex(8)", "count": 31},
        "metal": {"instance": "BM.DenseIO.E5.128", "count": 2},
    },
    "scheduler": {
        "slurm": {"type": "slurm"},
        "queues": {"type": "slurm", "queues": {"night": {"time": "12h"}, "day": {}}},
        "none": None,
    },
    "network": {
        "usual": None,
        "own": {"network": "10.77.0.0/20"},
        "named": {
            "network": "172.16.0.0/16",
            "subnets": {"public": "172.16.0.0/24", "fs": "172.16.64.0/18", "storage": "172.16.16.0/20"},
        },
        "vcn": {"vcn": VCN},
    },
    "bastion": {"host": None, "service": "service"},
    "image": {
        "usual": None,
        "own": {"image": IMAGE},
        "rocky": {"image": ROCKY, "distribution": "rocky-9"},
    },
    "server_image": {"usual": None, "own": SERVERS},
    "availability_domain": {"first": None, "second": 2},
    "files": {
        "none": None,
        "homes": {"sashome": HOMES},
        # In another availability domain than the nodes: with a mount target of its own.
        "two": {
            "sashome": {**HOMES, "root_squash": "65534:65534"},
            "sascfg": {**HOMES, "path": "/sascfg", "export": "/sas/cfg", "availability_domain": 3},
        },
    },
    "work": {"shared": None, "nvme": NVME},
    "region": {"three": "us-ashburn-1", "europe": "eu-frankfurt-1"},
    "cluster_placement": {"usual": None, "close": True},
    "capacity_reservation": {"none": None, "own": "ocid1.capacityreservation.oc1.iad.aaaaaaaaexample"},
    "key": {"none": None, "own": "ocid1.key.oc1.iad.examplevault.aaaaaaaaexamplekey"},
    "tags": {"none": None, "two": {"CostCenter": "4711", "owner": "ann@example.com"}},
    "head": {"usual": None, "large": "VM.Standard.E6.Flex(8)"},
    "login": {"usual": None, "large": "VM.Standard3.Flex(4)"},
    "ssh_from": {"one": ["203.0.113.0/24"], "two": ["203.0.113.0/24", "198.51.100.7/32"]},
    "deploy": {"usual": None, "local": "tofu"},
    "repositories": {
        "none": None,
        "archive": {"library": "data", "path": "/results", "bucket": "s3://archive/results"},
        "hourly": {"library": "data", "bucket": "s3://archive/all", "export": {"changed": "hourly"}},
        # Managed Lustre carries it by a link of its own, beside the one of its section.
        "link": {"library": "data", "path": "/in", "bucket": "oci://raw@tenancy/in", "overwrite": True},
    },
}
"""Fields and their values by name; None leaves a field out."""
_SECTION = (
    *(
        "bastion",
        "server_image",
        "availability_domain",
        "cluster_placement",
        "capacity_reservation",
        "key",
        "tags",
        "head",
    ),
    *("login", "ssh_from", "deploy"),
)
"""Those that are fields of section oci under their own names."""
_WITH_NVME = ("dense", "metal")


def can_be(known: Mapping[str, str]) -> bool:
    """Whether values go together, of some fields or of all."""
    nodes, filesystem, work = known.get("nodes"), known.get("filesystem"), known.get("work")
    # Disks of the nodes themselves need shapes that have some; a grid here has one such file system.
    if "nvme" in (filesystem, work) and nodes not in (None, *_WITH_NVME):
        return False
    if (filesystem, work) == ("nvme", "nvme"):
        return False
    # One image starts one kind of processor, and bastion, head and servers are of the other one.
    if nodes == "arm" and known.get("image") in ("own", "rocky"):
        return False
    repositories = known.get("repositories")
    # Managed Lustre alone has links; of what Gridwright carries there itself, one kind is enough.
    if repositories == "link" and filesystem not in (None, "linked"):
        return False
    if (filesystem, repositories) == ("linked", "archive"):
        return False
    # What each node has for itself is in no one bucket.
    return not (filesystem == "nvme" and repositories in ("archive", "hourly"))


@cache
def rows() -> tuple[dict[str, str], ...]:
    """Names of values by field, one row for each spec."""
    return pairwise(FIELDS, can_be)


@cache
def matrix() -> dict[str, dict[str, Any]]:
    """Specs as plain values, by the number of the row and some of its values."""
    return {
        "-".join((f"{number:02}", *(row[field] for field in ("filesystem", "nodes", "network")))): _spec(row)
        for number, row in enumerate(rows(), start=1)
    }


def _spec(chosen: Mapping[str, str]) -> dict[str, Any]:
    values = {field: FIELDS[field][name] for field, name in chosen.items()}
    oci = SITE | {field: values[field] for field in _SECTION if values[field] is not None}
    oci |= (values["network"] or {}) | (values["image"] or {})
    filesystems = {"shared": values["filesystem"], **(values["files"] or {})}
    fast = "shared"
    if values["work"]:
        filesystems["nvme"] = values["work"]
        fast = "nvme"
    spec: dict[str, Any] = {
        "name": "matrix",
        "provider": "oci",
        "region": values["region"],
        "oci": oci,
        "nodes": {"compute": values["nodes"]},
        "filesystems": filesystems,
        "libraries": {
            name: {"filesystem": where, "path": name}
            for name, where in (("data", "shared"), ("work", fast), ("util", fast))
        },
    }
    if values["scheduler"]:
        spec["scheduler"] = values["scheduler"]
    if values["repositories"]:
        spec["repositories"] = {"kept": values["repositories"]}
    return spec
