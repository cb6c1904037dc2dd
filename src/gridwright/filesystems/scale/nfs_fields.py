"""NFS by Scale's own Cluster Export Services (CES), as the grid spec asks for it: off where it does not."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from gridwright.filesystems.scale.fields import HostName
from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.spec.provider import ProviderKind
from gridwright.yamltext.fields import FieldError, matching

MOST_SERVERS = 16
"""CES nodes of a cluster (IBM Storage Scale, configuring Cluster Export Services nodes)."""
_KEPT = Update(Change.LIVE, "exports are made; those that are there are left as they are")
_ADDED = Update(Change.LIVE, "they are added; none is taken away")
_Problem = tuple[tuple[str, ...], FieldError]

Directory = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9][A-Za-z0-9._-]{0,100}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,100}){0,8}$",
        "a directory below the mount point",
        "one without a / at its start, such as results",
    ),
]
Clients = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?:/\d{1,2})?$",
        "a network or a host",
        "one, such as 10.20.0.0/16; everybody is no choice",
        "10.20.0.0/16",
    ),
]
Address = Annotated[
    str, matching(r"^\d{1,3}(?:\.\d{1,3}){3}$", "an IPv4 address", "one that nothing has, such as 10.20.0.50")
]


class NfsExport(SpecModel):
    """A directory that is shown by NFS, and to whom."""

    directory: Annotated[Directory, _KEPT] = Field(
        description="The directory below the mount point, which has to be there."
    )
    clients: Annotated[list[Clients], _KEPT] = Field(
        min_length=1, description="Networks or hosts that may mount it, such as [10.20.0.0/16]."
    )
    access: Annotated[Literal["ro", "rw"], _KEPT] = Field(default="ro", description="Whether they may write.")
    squash: Annotated[Literal["root", "none"], _KEPT] = Field(
        default="root", description="root: their root is nobody here. none: it is root."
    )


class NfsServices(SpecModel):
    """Servers that show directories by NFS, and the addresses that move among them."""

    addresses: Annotated[list[Address], _ADDED] = Field(
        min_length=1,
        description="Addresses that clients mount from: each is at one server, and goes to another one when "
        "that dies. They are of the servers' network, and nothing else has them.",
    )
    servers: Annotated[list[HostName] | None, _ADDED] = Field(
        default=None,
        min_length=2,
        max_length=MOST_SERVERS,
        description="NSD servers that do it, two at least. By default those of the first pair.",
    )
    exports: Annotated[list[NfsExport], _KEPT] = Field(
        min_length=1,
        description="What is shown, such as [{directory: results, clients: [10.20.0.0/16], access: rw}].",
    )


def nfs_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """What is wrong between fields, as plain data; whatever has the wrong type is passed over."""
    nfs = fields.get("nfs")
    if not isinstance(nfs, Mapping):
        return
    if fields.get("remote") is not None:
        yield (
            ("nfs",),
            FieldError(
                "the file system is another cluster's, and its own servers show it by NFS",
                "remove the lines, and ask its administrators",
            ),
        )
    yield from _addresses(nfs)
    yield from _servers(fields, nfs)
    seen: set[str] = set()
    for number, each in _listed(nfs.get("exports")):
        directory = each.get("directory") if isinstance(each, Mapping) else None
        if isinstance(directory, str) and directory in seen:
            yield (
                ("nfs", "exports", str(number), "directory"),
                FieldError(f"{directory} is shown twice", "name all clients in one export"),
            )
        elif isinstance(directory, str):
            seen.add(directory)


def provider_nfs_problems(fields: Mapping[str, Any], provider: ProviderKind) -> Iterator[_Problem]:
    """A cloud's network carries an address only to the card that it gave it to."""
    if isinstance(fields.get("nfs"), Mapping) and not provider.names_servers:
        yield (
            ("nfs",),
            FieldError(
                "addresses of CES go from server to server by themselves, and networks of provider "
                f"{provider.name} carry an address only to the card that has it there",
                "remove the lines: nodes mount Scale itself; or write provider: site",
            ),
        )


def _addresses(nfs: Mapping[str, Any]) -> Iterator[_Problem]:
    seen: set[str] = set()
    for number, each in _listed(nfs.get("addresses")):
        place = ("nfs", "addresses", str(number))
        if not isinstance(each, str):
            continue
        try:
            address = ipaddress.IPv4Address(each)
        except ValueError:
            yield place, FieldError(f"{each} is no address", "write one, such as 10.20.0.50")
            continue
        if address.is_loopback or address.is_multicast or address.is_unspecified:
            yield place, FieldError(f"{each} is at no server's card", "write one of the servers' network")
        if each in seen:
            yield place, FieldError(f"{each} is named twice", "name each address once")
        seen.add(each)


def _servers(fields: Mapping[str, Any], nfs: Mapping[str, Any]) -> Iterator[_Problem]:
    """Servers are those of pairs: a machine that is nobody's server is no member of the cluster."""
    known = {
        server
        for _, pair in _listed(fields.get("pairs"))
        for _, server in _listed(pair.get("servers") if isinstance(pair, Mapping) else None)
        if isinstance(server, str)
    }
    seen: set[str] = set()
    for number, each in _listed(nfs.get("servers")):
        place = ("nfs", "servers", str(number))
        if not isinstance(each, str):
            continue
        if known and each not in known:
            yield (
                place,
                FieldError(
                    f"{each} is no server of a pair", f"name one of pairs, such as {', '.join(sorted(known))}"
                ),
            )
        elif each in seen:
            yield place, FieldError(f"{each} is named twice", "name another server")
        seen.add(each)


def _listed(value: Any) -> Iterator[tuple[int, Any]]:  # noqa: ANN401
    return enumerate(value) if isinstance(value, list) else enumerate(())
