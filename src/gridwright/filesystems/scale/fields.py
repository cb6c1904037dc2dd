"""Parts of a Spectrum Scale's section in the grid spec: pools, a site's pairs, NFS, buckets, packages, ports.

What Scale knows of pools is IBM's (IBM Storage Scale 5.2, storage pools and policies, looked up 2026-11-28);
ports are those of its firewall recommendations (facts oci-scale of 2026-11-22).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from gridwright.services.ports import Ports
from gridwright.spec.fields import Change, Directory, SpecModel, Update
from gridwright.spec.filesystem import Disks
from gridwright.spec.provider import ProviderKind
from gridwright.yamltext.fields import FieldError, Size, TotalRate, Written, matching
from gridwright.yamltext.source import show

SERVER_POOL, CLIENT_POOL = 1 / 6, 1 / 5
"""Parts of the memory that are the page pool (facts 003: 128 of 768 GiB, and 64 of 320 GiB)."""
_RESTARTED = Update(Change.ROLLING, "the daemon of each node starts again, one after the other")
_LIVE = Update(Change.LIVE, "the cluster's configuration changes while it runs")

ClusterName = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,113}[A-Za-z0-9])?$",
        "the name of a cluster",
        "its name, as mmlscluster shows it, such as storage.example.com",
    ),
]
DeviceName = Annotated[
    str, matching(r"^[A-Za-z][A-Za-z0-9_-]{0,31}$", "the name of a file system", "its name, such as fs1")
]
HostName = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$",
        "the name of a host",
        "one, such as nsd1.example.com",
    ),
]
Share = Annotated[float, Field(gt=0, le=1)]
"""A part of a node's memory; `rules` has the most of it."""


_PUBLIC = (
    r"^[\x20-\x7e\t\n]{32,8000}$",
    "a public key of a cluster",
    "what /var/mmfs/ssh/id_rsa.pub of its nodes has, behind key: |",
)


class PagePool(SpecModel):
    """How much memory the daemon's own cache has."""

    servers: Annotated[Share, _RESTARTED] = Field(
        default=round(SERVER_POOL, 4), description="The part of a server's memory, at most 128 GiB."
    )
    clients: Annotated[Share, _RESTARTED] = Field(
        default=round(CLIENT_POOL, 4), description="The part of a node's memory, at most 64 GiB."
    )


class CallHome(SpecModel):
    """Who IBM's support turns to; without it the cluster tells IBM nothing."""

    company: Annotated[str, _LIVE] = Field(min_length=1, max_length=256, description="The customer's name.")
    id: Annotated[str, _LIVE] = Field(
        pattern=r"^[A-Za-z0-9]{1,32}$", description="The customer's number at IBM."
    )
    country: Annotated[str, _LIVE] = Field(
        pattern=r"^[A-Z]{2}$", description="The customer's country, of two letters, such as DE."
    )
    email: Annotated[str, _LIVE] = Field(
        pattern=r"^[^@\s]{1,64}@[A-Za-z0-9.-]{1,253}$", description="Where IBM's mails go."
    )


class RemoteCluster(SpecModel):
    """A cluster that owns the file system, and that the grid's nodes are clients of."""

    cluster: Annotated[ClusterName, Update(Change.REBUILD, "nodes mount another file system")] = Field(
        description="The name of the cluster that owns it."
    )
    contacts: Annotated[list[HostName], _LIVE] = Field(
        min_length=1, description="Some of its nodes that the grid's cluster asks."
    )
    filesystem: Annotated[DeviceName, Update(Change.REBUILD, "nodes mount another file system")] = Field(
        description="The file system's name there."
    )
    key: Annotated[str | None, matching(*_PUBLIC), _LIVE] = Field(
        default=None,
        description="The public key of that cluster, as /var/mmfs/ssh/id_rsa.pub of its nodes has it. With "
        "it setup makes a cluster of the grid's nodes that mounts the file system (provider site); without "
        "it the nodes are in a cluster, and know that one, already.",
    )


_ADDED = Update(Change.LIVE, "servers and addresses join while others serve; those that leave go by hand")
_EXPORTS = Update(Change.LIVE, "exports are added and changed while others serve; none is removed")
_ADDRESS = r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$"


def _floating(value: object) -> str:
    """An IPv4 address. Raises FieldError."""
    if isinstance(value, str):
        with suppress(ValueError):
            return str(ipaddress.IPv4Address(value))
    raise FieldError(f"{show(value)} is not an IPv4 address", "write one, such as 10.1.0.51")


FloatingAddress = Annotated[str, Written(_floating, _ADDRESS, "10.1.0.51")]
NfsClient = Annotated[
    str,
    matching(
        r"^(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}/(?:[0-9]|[12][0-9]|3[0-2])"
        r"|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)$",
        "an IPv4 network, an address or a host",
        "one, such as 10.2.0.0/16 or app1.example.com",
        "10.2.0.0/16",
    ),
]


class CesExport(SpecModel):
    """A directory that machines mount by NFS, and which of them."""

    path: Annotated[
        str,
        matching(r"^(?:/[A-Za-z0-9._-]+)+$", "a path of a directory", "one below the mount point, from / on"),
        _EXPORTS,
    ] = Field(description="The directory, from / on. It has to be there: its owner and rights are yours.")
    clients: Annotated[list[NfsClient], _EXPORTS] = Field(
        min_length=1, description="Networks, addresses or hosts that mount it, such as [10.2.0.0/16]."
    )
    access: Annotated[Literal["ro", "rw"], _EXPORTS] = Field(
        default="ro", description="Whether these clients only read, or also write."
    )
    squash: Annotated[Literal["root", "none"], _EXPORTS] = Field(
        default="root", description="root: root of a client is nobody here. none: it is root."
    )


class CesNfs(SpecModel):
    """Who serves NFS, at which addresses, and what."""

    servers: Annotated[list[HostName], _ADDED] = Field(
        min_length=1,
        description="Protocol servers, by names that all nodes know: machines of their own, at least two. "
        "Setup makes them members of the cluster.",
    )
    addresses: Annotated[list[FloatingAddress], _ADDED] = Field(
        min_length=1,
        description="Free addresses of the servers' network that clients mount from, one or more for each "
        "server. They move to another server when one dies.",
    )
    directory: Annotated[
        str,
        matching(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$", "a name of a directory", "one below the mount point"),
        Update(Change.NEVER, "Scale moves it only while it is down on all protocol servers, by hand"),
    ] = Field(
        default="ces",
        description="The directory right below the mount point where CES keeps what its servers share.",
    )
    exports: Annotated[list[CesExport], _EXPORTS] = Field(
        default_factory=list,
        description="What is exported, such as [{path: /gpfs/lake/results, clients: [10.2.0.0/16]}]. Exports "
        "that others made stay.",
    )


_LONGEST = 63
"""Scale takes 255 characters; volumes of a cloud have grid, file system and pool in their names of 255."""
_PATTERN = rf"^[A-Za-z][A-Za-z0-9]{{0,{_LONGEST - 1}}}$"
_RULES = Update(Change.LIVE, "rules change at once; files stay where they are until one moves them")


def check_pool_name(name: str) -> str:
    """A pool's name: letters and digits. Raises FieldError with the nearest name that is allowed."""
    if re.fullmatch(_PATTERN, name, re.ASCII):
        return name
    near = re.sub(r"[^A-Za-z0-9]+", "", name).lstrip("0123456789")[:_LONGEST]
    allowed = f"letters and digits, beginning with a letter, at most {_LONGEST} of them"
    raise FieldError(
        f"{show(name)} is not a name of a storage pool",
        f"write {near}, or another name: {allowed}" if near else f"write {allowed}",
    )


PoolName = Annotated[
    str, AfterValidator(check_pool_name), WithJsonSchema({"type": "string", "pattern": _PATTERN})
]


class StoragePool(SpecModel):
    """Further disks of the same servers, which hold data alone."""

    disks: Annotated[Disks, Update(Change.REBUILD, "disks are added; those that go are emptied by hand")] = (
        Field(
            description="The disks that each server is the first one of, such as {type: lower-cost, "
            "count: 4, size: 4 TiB}. Its pair takes them over."
        )
    )


class PoolMigration(SpecModel):
    """Files that leave a pool when it fills, those first that were not read for the longest time."""

    to: Annotated[PoolName, _RULES] = Field(description="The pool that they go to.")
    above: Annotated[int, _RULES] = Field(
        default=85, ge=1, le=100, description="The percentage in use at which files begin to leave."
    )
    until: Annotated[int, _RULES] = Field(
        default=70, ge=0, le=99, description="The percentage in use at which that ends; below `above`."
    )


_MOVED = Update(Change.REBUILD, "disks are added; those that go are emptied by hand")
_SERVERS = Update(Change.ROLLING, "disks get their new server while the other one serves")
_SET = Update(Change.ROLLING, "the daemon of each server starts again, one after the other")
MOST_SITES = 16

LastingDevice = Annotated[
    str,
    matching(
        r"^/dev/(?:disk/by-id|mapper)/[A-Za-z0-9][A-Za-z0-9._:+@=-]{0,200}$",
        "a name of a disk that is the same on both servers and after each start",
        "its name below /dev/disk/by-id or /dev/mapper, such as /dev/disk/by-id/wwn-0x5000c500a1b2c3d4",
        "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4",
    ),
]

LastingDisks = Annotated[list[LastingDevice], Field(min_length=1)]


class ServerPair(SpecModel):
    """Two servers, and the disks that both of them reach."""

    servers: Annotated[list[HostName], _SERVERS] = Field(
        description="Both servers, by the names that all nodes know.",
        json_schema_extra={"minItems": 2, "maxItems": 2},
    )
    disks: Annotated[list[LastingDevice], _MOVED] = Field(
        min_length=1,
        description="Disks that both see, by lasting names, such as /dev/disk/by-id/wwn-0x5000c500a1b2c3d4. "
        "They become the file system's. One that holds anything is refused, and no other disk is touched.",
    )
    pools: Annotated[Mapping[PoolName, LastingDisks] | None, _MOVED] = Field(
        default=None,
        min_length=1,
        description="Disks of this pair in storage pools beside system, such as {capacity: "
        "[/dev/disk/by-id/wwn-0x5000c500a1b2c3d5]}. Those under disks are of pool system.",
    )
    site: Annotated[int, Update(Change.NEVER, "disks keep the failure group that they were made with")] = (
        Field(
            default=1,
            ge=1,
            le=MOST_SITES,
            description="The hall or building that fails as a whole, by a number. With two of them and "
            "replicas: 2, each has a copy of everything, and witness is needed.",
        )
    )
    memory: Annotated[Size | None, _SET] = Field(
        default=None, description="Memory of each of the two, from which their page pool follows."
    )
    network: Annotated[TotalRate | None, _SET] = Field(
        default=None,
        description="What each of the two passes to nodes, such as 3125 MB/s; maxMBpS follows from it.",
    )


class Witness(SpecModel):
    """A machine of a third site, with one small disk that holds a descriptor of the file system alone."""

    server: Annotated[HostName, _SERVERS] = Field(description="The machine, by the name that all nodes know.")
    disk: Annotated[LastingDevice, _MOVED] = Field(description="Its disk, by a lasting name; 1 GiB will do.")


_ONCE = Update(
    Change.NEVER, "the directory keeps the bucket that it was made for; make another one beside it"
)

_Problem = tuple[tuple[str, ...], FieldError]


class AfmBucket(SpecModel):
    """A bucket, and the directory that shows it."""

    directory: Annotated[
        str,
        matching(
            r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$",
            "a name of a directory",
            "one below the mount point, such as raw",
        ),
        _ONCE,
    ] = Field(description="The directory right below the mount point, which is a fileset of this name.")
    bucket: Annotated[
        str,
        matching(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", "a name of a bucket", "it alone, such as lake-raw"),
        _ONCE,
    ] = Field(description="The bucket, which has to be there.")
    prefix: Annotated[
        str | None,
        matching(r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,500}$", "a prefix", "one, such as in/raw"),
        _ONCE,
    ] = Field(default=None, description="Only objects below it.")
    endpoint: Annotated[
        str,
        matching(
            r"^https?://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::\d{1,5})?$",
            "an address of an object store",
            "one, such as https://s3.eu-central-1.amazonaws.com",
        ),
        _ONCE,
    ] = Field(description="Where the store answers, by its S3 dialect.")
    region: Annotated[
        str | None, matching(r"^[a-z0-9-]{2,40}$", "a region", "one, such as eu-central-1"), _ONCE
    ] = Field(default=None, description="Its region, where the store wants to know it.")
    mode: Annotated[Literal["ro", "lu", "sw", "iw"], _ONCE] = Field(
        default="ro",
        description="ro: objects are read. lu: files change here alone. sw: they change here, and objects "
        "follow. iw: both change.",
    )
    keys: Annotated[
        str,
        matching(r"^/[A-Za-z0-9._/-]{1,500}$", "a path of a file", "one on the first server, from / on"),
        Update(Change.LIVE, "the file is read when the directory is made"),
    ] = Field(
        description="A file on the first server with the access key and the secret key, and a colon between "
        "them. It is the site's to put there; no secret is in the spec."
    )


def bucket_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """Directories are apart, and the file system is one's own."""
    given = fields.get("buckets")
    seen: set[str] = set()
    for number, each in enumerate(given) if isinstance(given, list) else ():
        name = each.get("directory") if isinstance(each, Mapping) else None
        if isinstance(name, str) and name in seen:
            yield (
                ("buckets", str(number), "directory"),
                FieldError(f"directory {name} shows a bucket already", "name another directory"),
            )
        elif isinstance(name, str):
            seen.add(name)
    if given and fields.get("remote") is not None:
        yield (
            ("buckets",),
            FieldError(
                "filesets are made by the cluster that has the file system, and that is another one",
                "remove the lines, and ask its administrators",
            ),
        )


_FIRST = Update(Change.LIVE, "nodes without Scale install them; those that have it keep what they have")
SUFFIXES = (".rpm", ".deb")
_WAYS = ("path", "url", "url_from")
_PRE_AUTHENTICATED = re.compile(r"/p/[A-Za-z0-9_-]{20,}/n/")
"""Links of OCI's Object Storage that open by themselves (its user's guide, pre-authenticated requests)."""


class ScalePackage(SpecModel):
    """One package: a file, or where nodes fetch it from."""

    path: Annotated[Directory | None, _FIRST] = Field(
        default=None,
        description="A file on the machine that runs setup, which copies it to nodes. A relative path "
        "starts at the directory of the grid spec. Not on clouds, where nodes set themselves up.",
    )
    url: Annotated[
        str | None,
        matching(r"^https?://[^\s]{1,2000}$", "an address of a package", "one, such as https://depot/g.rpm"),
        _FIRST,
    ] = Field(default=None, description="Where each node fetches it, which nobody has to keep secret.")
    url_from: Annotated[
        str | None,
        matching(r"^[A-Z][A-Z0-9_]{0,63}$", "a name of an environment variable", "one, such as SCALE_BASE"),
        _FIRST,
    ] = Field(
        default=None,
        description="The environment variable, where setup runs, that has a secret address of it, such as "
        "a pre-authenticated link. It is in no file and in no log. Not on clouds.",
    )
    sha256: Annotated[
        str | None,
        matching(r"^[0-9a-f]{64}$", "a SHA-256", "what sha256sum prints, 64 letters and digits"),
        _FIRST,
    ] = Field(default=None, description="Of the file; required where it is fetched.")


def package_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """One way to each, a checksum for what is fetched, no secret, and one format."""
    given = fields.get("packages")
    suffixes: dict[str, str] = {}
    for number, each in enumerate(given) if isinstance(given, list) else ():
        at = ("packages", str(number))
        if not isinstance(each, Mapping):
            continue
        ways = [name for name in _WAYS if each.get(name) is not None]
        if len(ways) != 1:
            yield (
                at,
                FieldError(
                    f"{' and '.join(ways)} are two ways to it" if ways else "nothing says where it is",
                    "write one of path, url and url_from",
                ),
            )
        elif ways != ["path"] and each.get("sha256") is None:
            yield (
                at,
                FieldError(
                    "it runs as root on every node, and nothing says which file it is",
                    "add sha256: with what sha256sum prints of it",
                ),
            )
        for name in ("path", "url"):
            if isinstance(each.get(name), str):
                yield from _named(at, name, each[name], suffixes)
        if isinstance(each.get("url"), str) and _opens_by_itself(each["url"]):
            yield (
                (*at, "url"),
                FieldError(
                    "an address that opens by itself is a secret, and a grid spec holds none",
                    "write url_from: SCALE_BASE, and set that variable where setup runs",
                ),
            )


def _named(at: tuple[str, ...], name: str, written: str, suffixes: dict[str, str]) -> Iterator[_Problem]:
    path = written.partition("?")[0]
    suffix = next((each for each in SUFFIXES if path.endswith(each)), None)
    if suffix is None:
        yield (
            (*at, name),
            FieldError(
                f"{show(path.rpartition('/')[2] or path)} is no package: IBM's installer is unpacked first",
                "run the installer with --dir and --silent, and name the .rpm or .deb files in there",
            ),
        )
    elif suffixes and suffix not in suffixes:
        other = next(iter(suffixes))
        yield (*at, name), FieldError(f"{suffix} beside {other}: nodes install one of them", f"write {other}")
    if suffix is not None:
        suffixes.setdefault(suffix, written)


def _opens_by_itself(url: str) -> bool:
    """Whether it has a query (signatures), an account, or the token of a pre-authenticated request."""
    host = url.partition("://")[2].partition("/")[0]
    return "?" in url or "@" in host or _PRE_AUTHENTICATED.search(url) is not None


def packages_of_cloud(fields: Mapping[str, Any], provider: ProviderKind) -> Iterator[_Problem]:
    """Machines of a cloud set themselves up: nobody copies a file to them or has a variable for them."""
    given = fields.get("packages")
    for number, each in enumerate(given) if isinstance(given, list) and provider.is_cloud else ():
        for name in ("path", "url_from"):
            if isinstance(each, Mapping) and each.get(name) is not None:
                yield (
                    ("packages", str(number), name),
                    FieldError(
                        f"machines of provider {provider.name} set themselves up, and do not have it",
                        "write url: with an address in your network and sha256:, or leave packages out and "
                        "have Scale in the image",
                    ),
                )


def playbook_packages(packages: list[ScalePackage]) -> list[dict[str, str]]:
    """What the role reads of them."""
    return [
        {name: str(value) for name, value in package.model_dump(exclude_none=True).items()}
        for package in packages
    ]


FIRST_COMMAND, LAST_COMMAND = 61000, 61999
"""tscCmdPortRange: beyond the ports of outgoing connections (tuning.yaml, scale-command-ports)."""
CLUSTER_PORTS = (
    Ports("ScaleDaemon", 1191, 1191),
    Ports("ScaleCommands", FIRST_COMMAND, LAST_COMMAND),
    Ports("ScaleRemoteShell", 22, 22),
)
"""Among all nodes of a cluster: the daemon, its commands, and the shell that these start elsewhere."""
NFS_PORTS = tuple(
    Ports(f"ScaleNfs{what}{protocol.capitalize()}", first, last, protocol)
    for what, first, last in (
        ("Files", 2049, 2049),
        ("Portmapper", 111, 111),
        ("Status", 32765, 32765),
        ("Mounts", 32767, 32769),
    )
    for protocol in ("tcp", "udp")
)
"""What clients of CES reach on its servers: statd has 32765; mountd, rquotad and lockd the last three."""
