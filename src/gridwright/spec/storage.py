"""What file systems of a grid spec are built from: disks, and servers that have them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import Size, TotalRate

INSTANCE_STORE = "instance-store"
"""The `type` of disks that belong to the machine itself, and are empty after it was stopped."""
MOST_DISKS = 128
"""Most disks of one node or server: what a Nitro machine can attach of all kinds."""
MOST_SERVERS = 1_000
"""Most servers of a file system."""


class Disks(SpecModel):
    """Disks that are alike, striped over (RAID 0 on a node, one target each on a server)."""

    type: Annotated[str, Update(Change.REBUILD, "data are copied to disks of the other type")] = Field(
        description="instance-store for the machine's own disks, or a type of block volume, such as gp3."
    )
    count: Annotated[int | None, Update(Change.REBUILD, "a stripe has its disks for good")] = Field(
        default=None,
        ge=1,
        le=MOST_DISKS,
        description="How many disks each machine has for it. By default all of an instance store, or 1.",
    )
    size: Annotated[Size | None, Update(Change.LIVE, "volumes grow while they are used")] = Field(
        default=None, description="The size of each volume, such as 2 TiB; instance stores have their own."
    )
    iops: Annotated[int | None, Update(Change.LIVE, "volumes change while they are used")] = Field(
        default=None,
        ge=1,
        description="Operations per second bought for each volume, where the type sells them.",
    )
    throughput: Annotated[TotalRate | None, Update(Change.LIVE, "volumes change while they are used")] = (
        Field(
            default=None,
            description="The rate bought for each volume, where the type sells it, such as 500 MB/s.",
        )
    )


class Servers(SpecModel):
    """Servers of a file system that are alike."""

    instance: Annotated[
        str, Update(Change.ROLLING, "servers are replaced one at a time, while all others serve")
    ] = Field(description="The instance type or shape of each server, such as c5n.9xlarge.")
    count: Annotated[int, Update(Change.REBUILD, "targets are added or emptied by hand")] = Field(
        default=1, ge=1, le=MOST_SERVERS, description="How many servers there are."
    )
    disks: Annotated[Disks | None, Update(Change.REBUILD, "data live on them and have to be copied")] = Field(
        default=None, description="The disks that each server serves."
    )


class Delivery(SpecModel):
    """What the disks of a node are known to deliver."""

    write: Annotated[TotalRate | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None, description="Written in all, such as 1 GB/s."
    )
    read: Annotated[TotalRate | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None, description="Read in all, such as 1 GB/s."
    )
