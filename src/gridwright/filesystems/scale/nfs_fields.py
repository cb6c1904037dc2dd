"""NFS by Scale's own Cluster Export Services (CES), as the grid spec names it: off unless it is there."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from typing import Annotated, Literal

from pydantic import Field

from gridwright.filesystems.scale.fields import HostName
from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import FieldError, Written, matching
from gridwright.yamltext.source import show

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
