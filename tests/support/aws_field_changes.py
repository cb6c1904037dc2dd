"""Every field of a grid on AWS with a change of it: the spec before, and the spec after."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ACCOUNT = "111122223333"
TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:alarms"
SECRET = f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:grid-AbCdEf"
NUMBER = "11111111-2222-3333-4444-555555555555"
GP3 = {"type": "gp3", "count": 2, "size": "500 GiB", "iops": 4000, "throughput": "250 MiB/s"}
FSX = {
    "type": "fsx-lustre",
    "path": "/shared",
    "deployment": "persistent-2",
    "capacity": "2400 GiB",
}
LINKED = {"bucket": "s3://site/sales", "directory": "/sales"}
ARCHIVE = {
    "library": "data",
    "path": "/sales",
    "bucket": "s3://site/sales",
    "export": {"changed": "at-once"},
    "import": {"names": "at-once"},
}
CARRIED = {**ARCHIVE, "export": {"changed": "hourly"}, "import": {"names": "hourly"}}
LUSTRE = {
    "type": "lustre",
    "path": "/shared",
    "oss": {"instance": "c5n.9xlarge", "count": 2, "disks": GP3},
    "mds": {"instance": "m5.4xlarge", "disks": GP3},
    "mgs": {"instance": "m6i.large", "disks": {**GP3, "count": 1}},
}
SCALE = {
    "type": "scale",
    "path": "/shared",
    "nsd": {
        "instance": "m6in.8xlarge",
        "count": 4,
        "disks": {"type": "io2", "count": 2, "size": "500 GiB", "iops": 4000},
    },
}
SERVED = {
    "type": "lustre",
    "path": "/shared",
    "source": "10.9.0.7@tcp:/site",
    "capacity": "2400 GiB",
    "throughput": "4 GB/s",
}
NFS = {"type": "nfs", "path": "/shared", "server": "10.9.0.7", "export": "/vol"}
LOCAL = {"type": "local", "path": "/scratch", "disks": {"type": "instance-store"}}
VPC_SUBNETS = {"login": "10.8.4.64/28", "compute": "10.8.16.64/26", "storage": "10.8.8.64/28"}
VPC = {
    "id": "vpc-0123456789abcdef0",
    "networks": ["10.8.0.0/16"],
    **{
        name: {"subnet": f"subnet-0123456789abcde{number:02}", "addresses": addresses}
        for number, (name, addresses) in enumerate(VPC_SUBNETS.items())
    },
}
OTHER = {**NFS, "path": "/other"}
EXAMPLES = {
    **{"fsx": FSX, "site": FSX, "lustre": LUSTRE, "scale": SCALE},
    **{"served": SERVED, "nfs": NFS, "local": LOCAL},
}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A change of one field. Values are plain; None leaves the field out."""

    base: str
    """The file system of the grid, by its name in EXAMPLES."""
    path: str
    new: Any
    old: Any = None
    """What the field has before; None for what the grid has of itself."""

    @property
    def name(self) -> str:
        """As pytest prints it."""
        return f"{self.base}:{self.path}"

    @property
    def before(self) -> str:
        """The spec before the change."""
        values = _spec(self.base)
        if self.old is not None:
            _set(values, self.path, self.old)
        return json.dumps(values)

    @property
    def after(self) -> str:
        """The spec after the change."""
        values = json.loads(self.before)
        _set(values, self.path, self.new)
        return json.dumps(values)


def _spec(base: str) -> dict[str, Any]:
    return copy.deepcopy(
        {
            "name": "demo",
            "provider": "aws",
            "region": "us-east-1",
            "aws": {
                "zone": "us-east-1a",
                "ssh_from": ["203.0.113.0/24"],
                "images": {"storage": "ami-0123456789abcdef0"},
                **({"vpc": VPC} if base == "site" else {}),
                **({"replace_nodes": False} if base == "scale" else {}),
            },
            "nodes": {
                "compute": {"instance": "m6id.4xlarge" if base == "local" else "m5n.24xlarge", "count": 2}
            },
            "filesystems": {"shared": EXAMPLES[base]} | ({"other": OTHER} if base == "nfs" else {}),
            "libraries": {name: {"filesystem": "shared", "path": name} for name in ("data", "work", "util")},
            "scheduler": {"type": "slurm", "queues": {"day": {"time": "12h", "spot": True}}},
        }
    )


def _set(values: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    for name in above:
        values = values.setdefault(name, {})
    if value is None:
        values.pop(last, None)
    else:
        values[last] = value


_NODES = {"instance": "m5n.24xlarge", "count": 6}
_IMAGES = {"storage": "ami-0123456789abcdef0", "compute": "ami-0fedcba9876543210"}
_META = {"instance": "m6i.large"}
_WATCH = {
    "every": "1 min",
    "all_every": "1h",
    "open_after": 2,
    "close_after": 3,
    "flapping_after": 6,
    "level": "warning",
    "command": ["/usr/local/bin/page"],
    "webhook": {"url": "https://a.example.org/", "secret_file": "/etc/a"},
    "mail": {
        "to": ["a@example.org"],
        "sender": "a@example.org",
        "server": "a.example.org:587",
        "user": "a",
        "password_file": "/etc/a",
    },
}
_WATCHED_OTHERWISE = {
    "every": "2 min",
    "all_every": "2h",
    "open_after": 3,
    "close_after": 4,
    "flapping_after": 8,
    "level": "error",
    "command": ["/usr/local/bin/call"],
    "webhook": {"url": "https://b.example.org/", "secret_file": "/etc/b"},
    "mail": {
        "to": ["b@example.org"],
        "sender": "b@example.org",
        "server": "b.example.org:587",
        "user": "b",
        "password_file": "/etc/b",
    },
}
_EXPORTER = {
    "port": 29118,
    "listen": "0.0.0.0",  # noqa: S104 - nobody listens
    "tls": {"certificate": "/etc/a.pem", "key": "/etc/a.key"},
    "token_file": "/etc/a-token",
    "proxy": {"addresses": ["10.0.0.5"], "header": "X-A"},
}
_EXPORTED_OTHERWISE = {
    "port": 29117,
    "listen": "::",
    "tls": {"certificate": "/etc/b.pem", "key": "/etc/b.key"},
    "token_file": "/etc/b-token",
    "proxy": {"addresses": ["10.0.0.6"], "header": "X-B"},
}
_LDAP = {"servers": ["ldaps://ldap1"], "base": "dc=a", "bind": {"dn": "cn=grid", "secret": SECRET}}
_LIBRARY = {"filesystem": "shared", "path": "work", "capacity": "1 TB"}
_OF_ANY: tuple[tuple[Any, ...], ...] = (
    ("nodes.compute.count", 3),
    ("nodes.compute.instance", "m5n.12xlarge"),
    ("nodes.compute.cores", 8),
    ("nodes.compute.memory", "64 GiB"),
    ("scheduler.queues.day.time", "6h"),
    ("scheduler.queues.day.priority", 7),
    ("scheduler.queues.day.cores", 4),
    ("scheduler.queues.day.nodes", ["compute"]),
    ("scheduler.queues.day.spot", False),
    ("nodes.compute", {**_NODES, "min": 2}, _NODES),
    ("nodes.compute", {**_NODES, "min": 2}, {**_NODES, "min": 1}),
    ("nodes.compute", {**_NODES, "min": 1, "idle": "20m"}, {**_NODES, "min": 1}),
    ("nodes.compute", {**_NODES, "min": 0, "spot": True}, {**_NODES, "min": 0}),
    ("nodes.compute.reservation", "cr-0123456789abcdef0"),
    ("machines.meta", _META),
    ("machines.meta", {**_META, "count": 2}, _META),
    ("machines.meta", {**_META, "instance": "m6i.2xlarge"}, _META),
    ("machines.meta", {**_META, "mounts": False}, _META),
    ("machines.meta", {**_META, "disk": "200 GiB"}, _META),
    ("machines.meta", {**_META, "replace": True}, _META),
    ("machines.meta", {**_META, "address": "10.20.200.10"}, _META),
    # Nothing of it is of a machine, so that all fields change at once.
    ("monitoring.watch", _WATCHED_OTHERWISE, _WATCH),
    ("monitoring.exporter", _EXPORTED_OTHERWISE, _EXPORTER),
    ("users", {"ldap": _LDAP}),
    ("monitoring.history", True),
    ("users", {"ldap": {**_LDAP, "base": "dc=b"}}, {"ldap": _LDAP}),
    ("aws.depots", ["s3://our-depots/sas"]),
    ("aws.drain_limit", "2h"),
    ("aws.ingress", [{"role": "login", "source": "10.0.0.0/8", "ports": "443"}]),
    ("aws.images", {**_IMAGES, "distribution": "amzn-2023"}, {**_IMAGES, "distribution": "rocky-9"}),
    ("scheduler.account", "risk"),
    ("scheduler.partition", "day"),
    ("scheduler.options", ["--qos=night"]),
    ("scheduler.accounting", "slurmdbd"),
    ("scheduler.backup_controller", True),
    ("state", "/shared/elsewhere"),
    ("aws.zone", "us-east-1b"),
    ("aws.network", "10.30.0.0/16"),
    ("aws.subnets.public", "10.20.0.0/19", "10.20.0.0/20"),
    ("aws.subnets.storage", "10.20.64.0/19", "10.20.64.0/20"),
    ("aws.subnets.compute", "10.20.128.0/18"),
    ("aws.ssh_from", ["203.0.113.0/25"]),
    ("aws.egress", [{"to": "192.0.2.0/24", "ports": "1433"}]),
    ("aws.proxy", "http://10.9.0.9:3129", "http://10.9.0.9:3128"),
    ("aws.key", "admins"),
    ("aws.images.compute", "ami-0fedcba9876543210"),
    ("aws.head.instance", "m6i.xlarge"),
    ("aws.login.instance", "m6i.xlarge"),
    ("aws.hyperthreads", False),
    ("aws.efa", True),
    ("aws.replace_nodes", False),
    ("aws.placement_group", False),
    ("aws.kms_key", f"arn:aws:kms:us-east-1:{ACCOUNT}:key/{NUMBER}"),
    ("aws.certificate", f"arn:aws:acm:us-east-1:{ACCOUNT}:certificate/{NUMBER}"),
    ("aws.permissions_boundary", f"arn:aws:iam::{ACCOUNT}:policy/Boundary"),
    ("aws.alarms", {"topic": TOPIC}),
    ("aws.alarms", {"topic": f"{TOPIC}-2"}, {"topic": TOPIC}),
    ("aws.alarms", {"topic": TOPIC, "budget": "3000 USD/month"}, {"topic": TOPIC}),
    ("aws.dashboard", False),
    ("aws.owner", "ann"),
    ("aws.expires", "2027-01-31"),
    ("libraries.data.requires", "100 MB/s/core"),
    ("libraries.data.path", "elsewhere"),
    ("libraries.data.capacity", "1 TB"),
    ("libraries.work", {**_LIBRARY, "capacity_in_12_months": "2 TB"}, _LIBRARY),
    ("libraries.data.layout", 2),
)
"""Of a grid with any file system: path, the value after, and the value before where it has none of itself."""
_OF_ONE: dict[str, tuple[tuple[Any, ...], ...]] = {
    "fsx": (
        ("path", "/elsewhere"),
        ("deployment", "scratch-2"),
        ("capacity", "4800 GiB"),
        ("throughput", "500 MB/s/TiB", "250 MB/s/TiB"),
        ("stripe_count", 2),
        ("compression", "none", "lz4"),
        ("metadata", 3000, 1500),
        ("repository", LINKED),
        *(
            ("repository", {**LINKED, field: value}, LINKED)
            for field, value in (
                ("bucket", "s3://site/costs"),
                ("directory", "/costs"),
                ("import_on", ["new"]),
                ("export_on", ["new"]),
            )
        ),
        ("repositories", {"archive": ARCHIVE}),
        *(
            ("repositories", {"archive": {**ARCHIVE, field: value}}, {"archive": ARCHIVE})
            for field, value in (
                ("library", "work"),
                ("path", "/costs"),
                ("bucket", "s3://site/costs"),
                ("endpoint", "https://s3.us-east-1.amazonaws.com"),
                ("rpo", "4h"),
                ("export", {"changed": "never"}),
                ("export", {"changed": "hourly"}),
                ("export", {"changed": "at-once", "deletions": True}),
                ("import", {"names": "never"}),
                ("import", {"names": "at-once", "deletions": True}),
            )
        ),
        ("root_squash", "65534:65534"),
        ("maintenance", "sun:03:00"),
        ("backup_days", 7),
    ),
    "site": (
        ("aws.vpc.id", "vpc-0123456789abcdef9"),
        ("aws.vpc.networks", ["10.8.0.0/16", "10.9.0.0/16"]),
        ("aws.vpc.public_address", True),
        ("aws.vpc.reserve", True),
        ("aws.vpc.endpoints", ["vpce-0123456789abcdef0"]),
        ("aws.vpc.dns", {"id": "Z0123456789ABD", "name": "a.org"}, {"id": "Z0123456789ABC", "name": "a.org"}),
        ("aws.vpc.dns", {"id": "Z0123456789ABC", "name": "b.org"}, {"id": "Z0123456789ABC", "name": "a.org"}),
        ("aws.vpc.security_groups", {"compute": ["sg-0123456789abcdef0"]}),
        ("aws.vpc.security_groups", {"login": ["sg-0123456789abcdef0"]}),
        *((f"aws.vpc.{each}.subnet", "subnet-0123456789abcdef9") for each in VPC_SUBNETS),
        *((f"aws.vpc.{each}.addresses", "10.8.99.64/26") for each in VPC_SUBNETS),
    ),
    "lustre": (
        ("path", "/elsewhere"),
        ("root_squash", "none"),
        ("stripe_count", 2),
        ("aws.images.storage", "ami-0fedcba9876543210"),
        *(
            (f"{role}.{field}", *values)
            for role in ("oss", "mds", "mgs")
            for field, *values in (
                ("instance", "m5.8xlarge"),
                ("disks", {"type": "gp2", "size": "500 GiB"}, {"type": "gp3", "size": "500 GiB"}),
                ("disks.size", "600 GiB"),
                ("disks.iops", 5000),
                ("disks.throughput", "300 MiB/s"),
            )
        ),
        *((f"{role}.{field}", 3) for role in ("oss", "mds") for field in ("count", "disks.count")),
    ),
    "scale": (
        ("path", "/elsewhere"),
        ("nsd.instance", "m6in.16xlarge"),
        ("nsd.count", 6),
        ("nsd.disks.count", 3),
        ("nsd.disks.size", "600 GiB"),
        ("nsd.disks.iops", 5000),
        ("block_size", "4 MiB"),
        ("replicas", 2),
        ("pagepool", {"servers": 0.3}),
    ),
    "served": (
        ("source", "10.9.0.8@tcp:/site"),
        ("offer", "fsx-lustre-intelligent-tiering"),
        ("capacity", "4800 GiB"),
        ("throughput", "8 GB/s"),
        ("price", "4 USD/h"),
        ("storage_price", "0.1 USD/GB/month"),
        ("reads", 40),
        (
            "repositories",
            {"archive": {**CARRIED, "export": {"changed": "hourly", "by": "changelog"}}},
            {"archive": CARRIED},
        ),
    ),
    "nfs": (
        ("path", "/elsewhere"),
        ("libraries.data.filesystem", "other"),
        ("repositories", {"archive": CARRIED}),
        *(
            ("repositories", {"archive": {**CARRIED, field: value}}, {"archive": CARRIED})
            for field, value in (
                ("bucket", "s3://site/costs"),
                ("export", {"changed": "daily"}),
                ("import", {"names": "hourly", "contents": True}),
                ("hsm_archive", 2),
                ("ids", "2000-60000"),
            )
        ),
        ("suid", True),
        ("server", "10.9.0.8"),
        ("export", "/other"),
        ("version", "4.1"),
        ("connections", 4),
        *(
            (
                "delivers",
                {"read": "1 GB/s", "write": "1 GB/s"} | {way: "2 GB/s"},
                {"read": "1 GB/s", "write": "1 GB/s"},
            )
            for way in ("read", "write")
        ),
    ),
    "local": (
        ("path", "/elsewhere"),
        ("format", "ext4"),
        ("chunk", "128 KiB"),
        ("delivers", {"read": "1 GB/s", "write": "1 GB/s"}),
    ),
}
"""Of a grid with one kind of file system: paths within it, but for those of sections of the spec."""
SECTIONS = ("aws.", "nodes.", "machines.", "users", "scheduler.", "libraries.", "repositories")


def _changes() -> Iterator[FieldChange]:
    for base in ("fsx", "lustre"):
        for path, *values in _OF_ANY:
            # What the bundle alone has is the same beside any file system.
            if base == "fsx" or path.startswith(("aws.", "nodes.")):
                yield FieldChange(base, path, *values)
    for base, changes in _OF_ONE.items():
        for path, *values in changes:
            inside = path if path.startswith(SECTIONS) else f"filesystems.shared.{path}"
            yield FieldChange(base, inside, *values)


CHANGES = tuple(_changes())
