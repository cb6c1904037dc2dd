"""NSD servers that a site has already, as the grid spec names them: pairs, their disks, a witness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from gridwright.filesystems.scale.fields import HostName
from gridwright.filesystems.scale.pool_fields import PoolName
from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import Size, TotalRate, matching

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
