"""What a service is known to deliver, as a grid spec says it: limits, a joint budget, burst, metadata."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import Duration, Size, TotalRate

_READ = Update(Change.LIVE, "only predictions read it")


class JointBudget(SpecModel):
    """One budget that reads and writes share: each byte takes of it what it costs."""

    rate: Annotated[TotalRate, _READ] = Field(
        description="The budget: what passes in all where each byte costs 1, such as 4500 MiB/s."
    )
    read_cost: Annotated[float, _READ] = Field(
        default=1.0, gt=0, le=1000, description="What each byte read takes of it."
    )
    write_cost: Annotated[float, _READ] = Field(
        default=1.0, gt=0, le=1000, description="What each byte written takes of it."
    )


class ServiceBurst(SpecModel):
    """What it delivers for a while, until its credit is spent."""

    rate: Annotated[TotalRate, _READ] = Field(
        description="The budget while the credit lasts, in place of the one that lasts, such as 6 GB/s."
    )
    credit: Annotated[Size | None, _READ] = Field(
        default=None,
        description="The bytes that a full balance lets through above what lasts, such as 2 TiB. Without it "
        "nobody knows how long a burst lasts.",
    )


class ClientLimits(SpecModel):
    """What one client gets of it."""

    read: Annotated[TotalRate | None, _READ] = Field(
        default=None, description="What one node reads at most, such as 2 GB/s."
    )
    write: Annotated[TotalRate | None, _READ] = Field(
        default=None, description="What one node writes at most, such as 1 GB/s."
    )
    both: Annotated[TotalRate | None, _READ] = Field(
        default=None, description="What one node reads and writes at most together, such as 1500 MiB/s."
    )
    flow: Annotated[TotalRate | None, _READ] = Field(
        default=None,
        description="What one connection passes at most in each direction, such as 625 MB/s.",
    )
    connections: Annotated[int | None, _READ] = Field(
        default=None,
        ge=1,
        le=16,
        description="Connections of a node, as nconnect of nfs(5). By default 1, whatever an offer advises.",
    )


class MetadataLimits(SpecModel):
    """How fast files are opened, listed and removed."""

    latency: Annotated[Duration | None, _READ] = Field(
        default=None, description="What one metadata operation takes, such as 0.5 ms."
    )
    operations: Annotated[int | None, _READ] = Field(
        default=None,
        ge=1,
        description="Metadata operations per second of all nodes together, such as 400000.",
    )


class ServiceLimits(SpecModel):
    """What the service is known to deliver to all nodes together, and to each."""

    read: Annotated[TotalRate | None, _READ] = Field(
        default=None, description="Read in all where nothing is written, such as 4500 MiB/s."
    )
    write: Annotated[TotalRate | None, _READ] = Field(
        default=None, description="Written in all where nothing is read, such as 1500 MiB/s."
    )
    separate: Annotated[bool, _READ] = Field(
        default=False,
        description="Whether reads and writes take nothing from each other: true or false. By default they "
        "share one budget, which either uses up alone at its own limit.",
    )
    budget: Annotated[JointBudget | None, _READ] = Field(
        default=None,
        description="The budget that reads and writes share, where it is not what read and write come to.",
    )
    burst: Annotated[ServiceBurst | None, _READ] = Field(
        default=None, description="What the budget is for a while."
    )
    client: Annotated[ClientLimits | None, _READ] = Field(
        default=None, description="What one node gets of it."
    )
    metadata: Annotated[MetadataLimits | None, _READ] = Field(
        default=None, description="Its metadata operations."
    )
