"""Parts of a Spectrum Scale's section in the grid spec."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import matching

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
