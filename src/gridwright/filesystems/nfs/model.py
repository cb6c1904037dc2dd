"""A directory of an NFS server as the grid spec describes it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from gridwright.filesystems.service_model import ServiceFileSystem
from gridwright.spec.fields import Change, HostName, Update
from gridwright.spec.filesystem import NEW_KIND, Delivery
from gridwright.yamltext.fields import matching

EXPORT_PATTERN = r"^/[A-Za-z0-9._/@+-]{0,1023}$"


def _version_text(value: object) -> object:
    """4.2 and 3 of YAML as text. What is no version is refused by the type."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


NfsVersion = Annotated[
    Literal["4.2", "4.1", "4.0", "3"],
    BeforeValidator(_version_text),
    WithJsonSchema({"enum": ["4.2", "4.1", "4.0", "3", 4.2, 4.1, 4.0, 3]}),
]
"""A version of NFS as nfs(5) has it; unquoted it is a number in YAML."""
ExportPath = Annotated[
    str, matching(EXPORT_PATTERN, "an absolute directory of a server", "one, such as /export/grid")
]
"""A directory that an NFS server exports."""


class NfsFileSystem(ServiceFileSystem):
    """A directory that an NFS server exports."""

    type: Annotated[Literal["nfs"], NEW_KIND] = Field(
        description="The kind of file system: nfs is a directory that an NFS server exports."
    )
    server: Annotated[HostName, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        description="Host name or address of the server."
    )
    export: Annotated[ExportPath, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        description="The directory that it exports, such as /export/grid."
    )
    version: Annotated[NfsVersion, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        default="4.2", description="The version of NFS: 4.2, 4.1, 4.0 or 3."
    )
    connections: Annotated[int, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        default=1,
        ge=1,
        le=16,
        description="TCP connections of a node to the server, as nconnect of nfs(5); one flow of a cloud's "
        "network is slower than its NIC.",
    )
    delivers: Annotated[Delivery | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None,
        description="What the server is known to deliver to all nodes together. Not beside offer and limits, "
        "which say more.",
    )
