"""What only a lab has: its private network, and the system of its nodes."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.units import Bytes, Rate
from gridwright.yamltext.fields import FieldError, Size, TotalRate
from gridwright.yamltext.source import show

SMALLEST_DISK = 512 * 2**20
"""MooseFS gives out space in chunks of 64 MiB, and keeps some of each disk free."""
SLOWEST_NETWORK = 10**6
"""Bytes a second."""
STORAGE = "storage"
"""Nodes of a lab that serve a file system: storage1, storage2 and so on."""


def _private_network(value: str) -> str:
    example = "write a private range of addresses, such as 10.77.0.0/24"
    try:
        network = ipaddress.IPv4Network(value)
    except ValueError:
        raise FieldError(f"{show(value)} is no range of IPv4 addresses", example) from None
    if not network.is_private or network.prefixlen > 29 or network.is_loopback or network.is_link_local:
        raise FieldError(f"{value} is not a private range of 8 addresses or more", example)
    return value


def _disk(size: Bytes) -> Bytes:
    if size < SMALLEST_DISK:
        raise FieldError(
            f"{size} is too small for a disk of MooseFS", f"write {Bytes(SMALLEST_DISK)} or more"
        )
    return size


def _bandwidth(rate: Rate) -> Rate:
    if rate.bytes_per_s < SLOWEST_NETWORK:
        raise FieldError(f"{rate} is too little for ssh and Slurm on every node", "write 1 MB/s or more")
    return rate


class Lab(SpecModel):
    """A grid of several nodes in Linux namespaces of one machine."""

    network: Annotated[
        Annotated[str, AfterValidator(_private_network), WithJsonSchema({"type": "string"})],
        Update(Change.REBUILD, "every node gets another address"),
    ] = Field(
        default="10.77.0.0/24",
        description="The range of addresses of its nodes; nothing outside the lab sees them.",
    )
    disk: Annotated[
        Annotated[Size, AfterValidator(_disk)] | None,
        Update(Change.REBUILD, "storage nodes get empty disks"),
    ] = Field(
        default=None,
        description="The size of the disk of each storage node, such as 4 GiB. It takes room on this machine "
        "as it fills. By default storage nodes share what is free on this machine.",
    )
    bandwidth: Annotated[
        Annotated[TotalRate, AfterValidator(_bandwidth)] | None,
        Update(Change.REBUILD, "nodes get their interfaces when they are made"),
    ] = Field(
        default=None,
        description="What each node sends at most, and receives at most, such as 100 MB/s, as if a network "
        "were between them. By default there is no limit.",
    )
