"""Specs of grids on AWS in which every two values of its fields meet at least once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tests.support.pairwise import pairwise

REGION, ACCOUNT = "us-west-2", "111122223333"
NUMBER = "11111111-2222-3333-4444-555555555555"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:alarms"
FSX = {"type": "fsx-lustre", "path": "/shared", "capacity": "2400 GiB"}
LUSTRE = {
    "type": "lustre",
    "path": "/shared",
    "oss": {
        "instance": "c5n.9xlarge",
        "count": 2,
        "disks": {"type": "gp3", "count": 2, "size": "500 GiB"},
    },
    "mds": {"instance": "m5.4xlarge", "disks": {"type": "gp3", "size": "100 GiB"}},
}
SCALE = {
    "type": "scale",
    "path": "/shared",
    "replicas": 2,
    "nsd": {
        "instance": "c6in.16xlarge",
        "count": 4,
        "disks": {"type": "io2", "count": 3, "size": "1 TiB", "iops": 2000},
    },
}
SCALE_ROWS = 4
"""How many rows have it: more of them meet nothing new."""
GROUP = "sg-0123456789abcdef0"
VPC = {
    "id": "vpc-0123456789abcdef0",
    "networks": ["10.8.0.0/16", "10.9.0.0/20"],
    "login": {"subnet": "subnet-0123456789abcdef0", "addresses": "10.8.4.64/28"},
    "storage": {"subnet": "subnet-0123456789abcdef0", "addresses": "10.8.4.128/26"},
    "compute": {"subnet": "subnet-0123456789abcdef1", "addresses": "10.9.0.0/24"},
}
FIELDS: dict[str, dict[str, Any]] = {
    "filesystem": {
        "scratch": {**FSX, "deployment": "scratch-2"},
        "persistent": {**FSX, "deployment": "persistent-2", "throughput": "250 MB/s/TiB"},
        "lustre": LUSTRE,
        "managed-apart": {
            **LUSTRE,
            "mgs": {"instance": "m6i.large", "disks": {"type": "gp3", "size": "10 GiB"}},
            "root_squash": "none",
        },
        "linked": {
            **FSX,
            "deployment": "persistent-2",
            "throughput": "125 MB/s/TiB",
            "repository": {"bucket": "s3://sources/sales"},
        },
        "nfs": {"type": "nfs", "path": "/shared", "server": "10.9.0.7", "export": "/vol"},
    },
    "nodes": {
        "one": {"instance": "m6i.4xlarge", "count": 1},
        "stores": {"instance": "i3en.2xlarge", "count": 3},
        "arm": {"instance": "m7gd.4xlarge", "count": 2},
        "four": {"instance": "r5n.8xlarge", "count": 4, "cores": 12},
        "metal": {"instance": "c6i.metal", "count": 2},
        "many": {"instance": "m5n.24xlarge", "count": 40},
        "powered": {"instance": "m6i.4xlarge", "count": 12, "min": 2, "idle": "20m"},
        "spot": {"instance": "m6i.4xlarge", "count": 3, "min": 0, "spot": {"max_price": 0.4}},
        "reserved": {"instance": "m6i.4xlarge", "count": 2, "reservation": "cr-0123456789abcdef0"},
    },
    "scheduler": {"slurm": {"type": "slurm", "queues": {"cheap": {"spot": True}}}, "none": None},
    "network": {
        "usual": None,
        "own": "10.77.0.0/20",
        "proxy": "proxy",
        "vpc": {},
        "vpc-public": {"public_address": True, "reserve": True},
        "vpc-proxy": {
            "dns": {"id": "Z0123456789ABC", "name": "grid.example.com"},
            "security_groups": {"login": [GROUP], "compute": [GROUP], "storage": [GROUP]},
            "endpoints": ["vpce-0123456789abcdef0"],
        },
    },
    "machines": {
        "none": None,
        "meta": {"meta": {"instance": "r6i.xlarge", "disk": "200 GiB"}},
        "tiers": {
            "meta": {"instance": "m6i.large", "replace": True, "count": 3},
            "mid-tier": {"instance": "m6i.large", "mounts": False, "count": 2},
        },
    },
    "depots": {"none": None, "two": ["s3://our-depots/sas", "s3://whole-bucket"]},
    "ssh_from": {"one": ["203.0.113.0/24"], "two": ["203.0.113.0/24", "198.51.100.7/32"]},
    "ingress": {"none": None, "login": [{"role": "login", "source": "10.0.0.0/8", "ports": "8000-8099"}]},
    "egress": {"usual": None, "more": [{"to": "192.0.2.0/24", "ports": "27000-27009"}]},
    "key": {"none": None, "admins": "admins"},
    "images": {
        "usual": None,
        "al2023": {"compute": "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"},
        "rocky": {"compute": "ami-0fedcba9876543210", "distribution": "rocky-9"},
    },
    "head": {"usual": None, "large": {"instance": "m6i.2xlarge"}},
    "hyperthreads": {"usual": None, "off": False},
    "efa": {"off": None, "on": True},
    "replace_nodes": {"usual": None, "never": False},
    "drain_limit": {"usual": None, "hours": "12h"},
    "placement_group": {"usual": None, "none": False},
    "kms_key": {"none": None, "own": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{NUMBER}"},
    "certificate": {"none": None, "own": f"arn:aws:acm:{REGION}:{ACCOUNT}:certificate/{NUMBER}"},
    "permissions_boundary": {"none": None, "own": f"arn:aws:iam::{ACCOUNT}:policy/Boundary"},
    "alarms": {
        "none": None,
        "topic": {"topic": TOPIC},
        "budget": {"topic": TOPIC, "budget": "3000 USD/month"},
    },
    "dashboard": {"usual": None, "none": False},
    "owner": {"none": None, "ann": "ann@example.com"},
    "expires": {"none": None, "soon": "2027-01-31"},
}
"""Fields and their values by name; None leaves a field out."""
_NAMES = tuple(FIELDS)


def can_be(known: Mapping[str, str]) -> bool:
    """Whether values go together, of some fields or of all: adapters are of one type here."""
    nodes = known.get("nodes")
    if known.get("efa") == "on" and nodes not in (None, "many"):
        return False
    # Slurm alone powers nodes, and those are replaced.
    powered = nodes in ("powered", "spot")
    if powered and (known.get("scheduler") == "none" or known.get("replace_nodes") == "never"):
        return False
    # Types of Graviton run one thread on each core, and the image of servers is for another processor.
    return not (nodes == "arm" and known.get("hyperthreads") == "off")


@cache
def rows() -> tuple[dict[str, str], ...]:
    """Names of values by field, one row for each spec."""
    return pairwise(FIELDS, can_be)


def scale_rows() -> Iterator[dict[str, str]]:
    """Rows with Spectrum Scale in place of another file system.

    In pairs with all else it would cost a sixth more: rows are chosen in which it meets most values of
    other fields that it has not met. What mounts it is a member of its cluster, so that nothing is replaced.
    """
    left = [
        {**row, "filesystem": "scale"}
        for row in rows()
        if row["replace_nodes"] == "never" and row["machines"] != "tiers"
    ]
    met: set[tuple[str, str]] = set()
    for _ in range(SCALE_ROWS):
        best = max(left, key=lambda row: len(row.items() - met))
        met |= best.items()
        yield best


@cache
def matrix() -> dict[str, dict[str, Any]]:
    """Specs as plain values, by a name that says what is not as usual."""
    return dict(_spec(row) for row in (*rows(), *scale_rows()))


def _spec(chosen: dict[str, str]) -> tuple[str, dict[str, Any]]:
    values = {field: (FIELDS[field] | {"scale": SCALE})[name] for field, name in chosen.items()}
    aws: dict[str, Any] = {"zone": f"{REGION}a", "images": {"storage": "ami-0123456789abcdef0"}}
    own = values["images"] or {}
    aws |= {field: values[field] for field in _NAMES[5:] if values[field] is not None}
    aws["images"] = {"storage": "ami-0123456789abcdef0", **own}
    if chosen["network"] == "own":
        aws["network"] = values["network"]
    if chosen["network"].startswith("vpc"):
        aws["vpc"] = VPC | values["network"]
    if chosen["network"] in ("proxy", "vpc-proxy"):
        aws["proxy"] = "http://proxy.example:3128"
    spec: dict[str, Any] = {
        "name": "matrix",
        "provider": "aws",
        "region": REGION,
        "aws": aws,
        "nodes": {"compute": values["nodes"]},
        "filesystems": {"shared": values["filesystem"]},
        "libraries": {name: {"filesystem": "shared", "path": name} for name in ("data", "work", "util")},
    }
    if values["machines"]:
        spec["machines"] = values["machines"]
    if values["scheduler"]:
        spec["scheduler"] = values["scheduler"]
    usual = ("usual", "none", "off", "one")
    return "-".join(f"{f}={n}" for f, n in chosen.items() if n not in usual or f in _NAMES[:2]), spec
