"""Rules of NFS by Scale's own CES, each with its reason, and what hurts in a spec that is valid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gridwright.errors import Finding
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.spec.provider import ProviderKind
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

_Problem = tuple[tuple[str, ...], FieldError]
_AT = ("nfs",)
_NFS_PACKAGE = "gpfs.nfs-ganesha"
"""The server of NFS, and begins the name of the package with its access to Scale (IBM Storage Scale, packages
of protocols)."""


def nfs_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """What is wrong within the section, as plain data; whatever has the wrong type is passed over."""
    given = fields.get("nfs")
    if not isinstance(given, Mapping):
        return
    if fields.get("remote") is not None:
        yield (
            _AT,
            FieldError(
                "the file system is another cluster's, and so would be what its protocol servers share",
                "remove nfs, and have that cluster's administrators export it",
            ),
        )
    for name in ("servers", "addresses"):
        yield from _once(given.get(name), (*_AT, name))
    yield from _exports(given, fields.get("path"))


def _once(given: Any, at: tuple[str, ...]) -> Iterator[_Problem]:  # noqa: ANN401
    seen: set[str] = set()
    for number, each in enumerate(given) if isinstance(given, list) else ():
        if isinstance(each, str) and each in seen:
            yield (*at, str(number)), FieldError(f"{show(each)} is named twice", "name each once")
        elif isinstance(each, str):
            seen.add(each)


def _exports(given: Mapping[str, Any], root: Any) -> Iterator[_Problem]:  # noqa: ANN401
    """Exports are below the mount point, each once, and leave out what only the servers may change."""
    exports = given.get("exports")
    shared = f"{root}/{given.get('directory', 'ces')}"
    seen: set[str] = set()
    for number, each in enumerate(exports) if isinstance(exports, list) else ():
        if not isinstance(each, Mapping):
            continue
        at = (*_AT, "exports", str(number))
        yield from _once(each.get("clients"), (*at, "clients"))
        path = each.get("path")
        if not isinstance(path, str) or not isinstance(root, str):
            continue
        if path in seen:
            yield (*at, "path"), FieldError(f"{path} is exported twice", "name all its clients in one export")
        seen.add(path)
        if (path != root and not path.startswith(f"{root}/")) or ".." in path.split("/"):
            near = f"{root}/{path.rpartition('/')[2].strip('.') or 'results'}"
            yield (
                (*at, "path"),
                FieldError(f"{path} is not in this file system, which is at {root}", f"write {near}"),
            )
        elif f"{shared}/".startswith(f"{path}/") or path.startswith(f"{shared}/"):
            yield (
                (*at, "path"),
                FieldError(
                    f"{path} has {shared}, where protocol servers keep their own state: a client that writes "
                    "there breaks them",
                    f"export directories beside it, such as {root}/results",
                ),
            )


def nfs_of_provider(
    fields: Mapping[str, Any], grid: Mapping[str, Any], provider: ProviderKind
) -> Iterator[_Problem]:
    """Where addresses do not move by themselves, and addresses that something else has."""
    given = fields.get("nfs")
    if not isinstance(given, Mapping):
        return
    if not provider.names_servers:
        yield _AT, FieldError(*_not_here(provider))
        return
    addresses = given.get("addresses")
    for number, address in enumerate(addresses) if isinstance(addresses, list) else ():
        if isinstance(address, str) and (where := _use_of(address, grid)) is not None:
            yield (
                (*_AT, "addresses", str(number)),
                FieldError(
                    f"{show(address)} is also at {where}: an address that moves between protocol servers "
                    "is nobody else's",
                    "write a free address of the servers' network",
                ),
            )


def _not_here(provider: ProviderKind) -> tuple[str, str]:
    """A cloud delivers to an address by its own records, which ARP does not change.

    Oracle's quick start for Spectrum Scale ends with the remark that such addresses do not work (looked up
    2026-11-28); Amazon EC2 has secondary private addresses that only its API moves, as OCI has.
    """
    if provider.is_cloud:
        return (
            f"protocol servers pass addresses on by ARP, and networks of provider {provider.name} move an "
            "address only by a call of the API: after the death of a server its clients would hang",
            "remove nfs: have clients mount Scale itself, or give them the cloud's own managed NFS",
        )
    return (
        f"protocol servers are machines of a site, and provider {provider.name} has none",
        "remove nfs, or write provider: site",
    )


def _use_of(address: str, grid: Mapping[str, Any]) -> str | None:
    """Where else the spec has this address, as a path of fields; None where it has not."""
    pattern = re.compile(rf"(?<![\d.]){re.escape(address)}(?![\d./])")
    for path, text in _texts(grid, ()):
        is_own = path[-3:-1] == ("nfs", "addresses") or path[-2:-1] == ("clients",)
        if not is_own and pattern.search(text):
            return ".".join(path)
    return None


def _texts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:  # noqa: ANN401
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _texts(each, (*path, str(name)))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _texts(each, (*path, str(number)))


def nfs_findings(name: str, filesystem: ScaleFileSystem) -> Iterator[Finding]:
    """What works, and hurts when a server dies or is busy."""
    nfs = filesystem.nfs
    if nfs is None:
        return
    if len(nfs.servers) < 2:
        yield Finding(
            "warning",
            "scale-nfs-one-server",
            f"NFS of {name} has one protocol server, {nfs.servers[0]}: nobody takes its addresses over",
            "Name a second one under nfs.servers",
        )
    if len(nfs.addresses) < len(nfs.servers):
        yield Finding(
            "warning",
            "scale-nfs-few-addresses",
            f"NFS of {name} has {len(nfs.addresses)} for {len(nfs.servers)} protocol servers: a server "
            "without an address has no clients",
            f"Write {len(nfs.servers)} addresses or more under nfs.addresses",
        )
    yield from _without_ganesha(name, filesystem, nfs.servers)
    disk_servers = {server for pair in filesystem.pairs or () for server in pair.servers}
    if filesystem.witness is not None:
        disk_servers.add(filesystem.witness.server)
    if both := [server for server in nfs.servers if server in disk_servers]:
        yield Finding(
            "warning",
            "scale-nfs-on-disk-servers",
            f"{', '.join(both)} of {name} serve{'s' * (len(both) == 1)} disks and NFS: what NFS takes of "
            "memory and network all nodes of the grid lack, and a server that NFS brings down takes a path "
            "of its disks along",
            "Name machines of their own under nfs.servers",
        )


def _without_ganesha(name: str, filesystem: ScaleFileSystem, servers: Sequence[str]) -> Iterator[Finding]:
    """Packages that have no NFS server; nobody knows what an address in a variable leads to."""
    given = filesystem.packages or []
    files = [str(each.path or each.url or "").rpartition("/")[2] for each in given]
    if files and not any(not file or file.startswith(_NFS_PACKAGE) for file in files):
        yield Finding(
            "warning",
            "scale-nfs-no-package",
            f"packages of {name} have no {_NFS_PACKAGE}, which serves NFS: where {', '.join(servers)} do not "
            "have it, setup ends there",
            f"Add the {_NFS_PACKAGE} packages of IBM's installer to packages, or have them on these servers",
        )
