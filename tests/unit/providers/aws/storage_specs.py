"""Specs of grids on AWS, and their storage templates, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.stacks import template_text
from gridwright.providers.aws.storage_template import storage_template
from gridwright.spec.model import GridSpec

KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab"
PROXY = "http://proxy.example.com:3128"

FSX: dict[str, Any] = {"type": "fsx-lustre", "path": "/shared", "capacity": "2400 GiB"}
FULL_FSX: dict[str, Any] = {
    **FSX,
    "deployment": "persistent-2",
    "capacity": "7.2 TiB",
    "throughput": "500 MB/s/TiB",
    "compression": "lz4",
    "metadata": 6000,
    "root_squash": "65534:65534",
    "maintenance": "sun:03:30",
    "repository": {"bucket": "s3://sources/sales", "directory": "/sales", "export_on": ["new", "changed"]},
}
DISKS: dict[str, Any] = {"type": "gp3", "count": 2, "size": "500 GiB", "iops": 4000, "throughput": "500 MB/s"}


def lustre(oss: int = 1, *, mgs: bool = False, disks: dict[str, Any] = DISKS) -> dict[str, Any]:
    """A Lustre of the grid's own servers."""
    found = {
        "type": "lustre",
        "path": "/shared",
        "oss": {"instance": "c5n.9xlarge", "count": oss, "disks": disks},
        "mds": {"instance": "m6i.2xlarge", "disks": {"type": "gp3", "size": "100 GiB"}},
    }
    return found | (
        {"mgs": {"instance": "m6i.large", "disks": {"type": "gp3", "size": "10 GiB"}}} if mgs else {}
    )


TIMED: dict[str, Any] = {
    "sales": {
        "library": "data",
        "path": "/sales",
        "bucket": "s3://sources/sales",
        "export": {"changed": "hourly"},
        "import": {"names": "daily"},
    },
}
"""A repository of an FSx for Lustre, exported and imported by time."""


def spec(aws: dict[str, Any] | None = None, **filesystems: dict[str, Any]) -> GridSpec:
    """A grid with these file systems, and an FSx for Lustre by default."""
    return GridSpec.model_validate(
        {
            "name": "demo",
            "provider": "aws",
            "region": "us-east-1",
            "aws": {"zone": "us-east-1a", "ssh_from": ["203.0.113.0/24"], **(aws or {})},
            "nodes": {"compute": {"instance": "m5n.8xlarge", "count": 2}},
            "filesystems": filesystems or {"shared": FSX},
            "libraries": {"data": {"filesystem": next(iter(filesystems), "shared")}},
            "scheduler": {"type": "slurm"},
        },
        context={"base": Path("/")},
    )


def with_repositories(grid: GridSpec, repositories: dict[str, Any]) -> GridSpec:
    """The grid with repositories of its libraries."""
    values = grid.model_dump(mode="json", exclude_unset=True)
    return GridSpec.model_validate({**values, "repositories": repositories}, context={"base": Path("/")})


SPECS: dict[str, GridSpec] = {
    "scratch-2": spec(shared=FSX | {"deployment": "scratch-2", "capacity": "1200 GiB"}),
    "persistent-1": spec(shared=FSX | {"deployment": "persistent-1", "throughput": "100 MB/s/TiB"}),
    "persistent-2-full": spec(
        {"kms_key": KEY, "owner": "a@example.com", "expires": "2027-01-31"}, shared=FULL_FSX
    ),
    "persistent-2-backups": spec(shared=FSX | {"metadata": "none", "backup_days": 7}),
    "timed": with_repositories(spec({"kms_key": KEY}), TIMED),
    "lustre": spec(shared=lustre()),
    "lustre-mgs": spec({"kms_key": KEY, "certificate": CERTIFICATE}, shared=lustre(mgs=True)),
    "lustre-many": spec({"kms_key": KEY}, shared=lustre(4)),
    "both-proxy-efa": spec({"proxy": PROXY, "efa": True}, shared=lustre(2), fsx=FSX | {"path": "/fsx"}),
    "servers-elsewhere": spec(
        home={"type": "nfs", "path": "/home", "server": "nfs1", "export": "/home", "version": "3"},
        old={"type": "lustre", "path": "/old", "source": "10.9.0.1@tcp:/old"},
    ),
}


def template(grid: GridSpec, **options: frozenset[str]) -> dict[str, Any]:
    """The storage template as plain values, with functions in their long form."""
    found: dict[str, Any] = storage_template(grid, aws_layout(grid), **options).to_dict()
    return found


def text(grid: GridSpec) -> str:
    return template_text(storage_template(grid, aws_layout(grid)))


def resources(found: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Resources of a type, by logical ID."""
    return {name: each for name, each in found["Resources"].items() if each["Type"] == kind}


def properties(found: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Properties of the resources of a type, by logical ID."""
    return {name: each["Properties"] for name, each in resources(found, kind).items()}


def tags_of(values: dict[str, Any]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in values["Tags"]}


LINTED = ("scratch-2", "timed", "persistent-2-full", "lustre-mgs", "both-proxy-efa")
