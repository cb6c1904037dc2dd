"""A file system that somebody runs as a service, as a grid spec says it: offer, size, limits, prices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from gridwright.spec.fields import Budget, Change, SpecModel, Update
from gridwright.spec.filesystem import FileSystem
from gridwright.yamltext.fields import Duration, FieldError, Size, TotalRate, Written, matching
from gridwright.yamltext.source import show

_PREDICTED = Update(Change.LIVE, "only predictions read it")


class JointBudget(SpecModel):
    """One budget that reads and writes share: each byte takes of it what it costs."""

    rate: Annotated[TotalRate, _PREDICTED] = Field(
        description="The budget: what passes in all where each byte costs 1, such as 4500 MiB/s."
    )
    read_cost: Annotated[float, _PREDICTED] = Field(
        default=1.0, gt=0, le=1000, description="What each byte read takes of it."
    )
    write_cost: Annotated[float, _PREDICTED] = Field(
        default=1.0, gt=0, le=1000, description="What each byte written takes of it."
    )


class ServiceBurst(SpecModel):
    """What it delivers for a while, until its credit is spent."""

    rate: Annotated[TotalRate, _PREDICTED] = Field(
        description="The budget while the credit lasts, in place of the one that lasts, such as 6 GB/s."
    )
    credit: Annotated[Size | None, _PREDICTED] = Field(
        default=None,
        description="The bytes that a full balance lets through above what lasts, such as 2 TiB. Without it "
        "nobody knows how long a burst lasts.",
    )


class ClientLimits(SpecModel):
    """What one client gets of it."""

    read: Annotated[TotalRate | None, _PREDICTED] = Field(
        default=None, description="What one node reads at most, such as 2 GB/s."
    )
    write: Annotated[TotalRate | None, _PREDICTED] = Field(
        default=None, description="What one node writes at most, such as 1 GB/s."
    )
    both: Annotated[TotalRate | None, _PREDICTED] = Field(
        default=None, description="What one node reads and writes at most together, such as 1500 MiB/s."
    )
    flow: Annotated[TotalRate | None, _PREDICTED] = Field(
        default=None,
        description="What one connection passes at most in each direction, such as 625 MB/s.",
    )
    connections: Annotated[int | None, _PREDICTED] = Field(
        default=None,
        ge=1,
        le=16,
        description="Connections of a node, as nconnect of nfs(5). By default 1, whatever an offer advises.",
    )


class MetadataLimits(SpecModel):
    """How fast files are opened, listed and removed."""

    latency: Annotated[Duration | None, _PREDICTED] = Field(
        default=None, description="What one metadata operation takes, such as 0.5 ms."
    )
    operations: Annotated[int | None, _PREDICTED] = Field(
        default=None,
        ge=1,
        description="Metadata operations per second of all nodes together, such as 400000.",
    )


class ServiceLimits(SpecModel):
    """What the service is known to deliver to all nodes together, and to each."""

    read: Annotated[TotalRate | None, _PREDICTED] = Field(
        default=None, description="Read in all where nothing is written, such as 4500 MiB/s."
    )
    write: Annotated[TotalRate | None, _PREDICTED] = Field(
        default=None, description="Written in all where nothing is read, such as 1500 MiB/s."
    )
    separate: Annotated[bool, _PREDICTED] = Field(
        default=False,
        description="Whether reads and writes take nothing from each other: true or false. By default they "
        "share one budget, which either uses up alone at its own limit.",
    )
    budget: Annotated[JointBudget | None, _PREDICTED] = Field(
        default=None,
        description="The budget that reads and writes share, where it is not what read and write come to.",
    )
    burst: Annotated[ServiceBurst | None, _PREDICTED] = Field(
        default=None, description="What the budget is for a while."
    )
    client: Annotated[ClientLimits | None, _PREDICTED] = Field(
        default=None, description="What one node gets of it."
    )
    metadata: Annotated[MetadataLimits | None, _PREDICTED] = Field(
        default=None, description="Its metadata operations."
    )


OFFER_PATTERN = r"^[a-z][a-z0-9-]{0,63}$"
STORAGE_PRICE_PATTERN = r"^([0-9]{1,9}(?:\.[0-9]{1,9})?) ?USD/(GB|GiB|TB|TiB)/month$"
_BYTES = {"GB": 1e9, "GiB": 2.0**30, "TB": 1e12, "TiB": 2.0**40}
_READ = Update(Change.LIVE, "only predictions read it")


def _storage_price(value: object) -> float:
    """USD for each GiB and month."""
    if isinstance(value, float) and value >= 0:
        return value
    match = re.fullmatch(STORAGE_PRICE_PATTERN, value.strip(), re.ASCII) if isinstance(value, str) else None
    if match is None:
        raise FieldError(
            f"{show(value)} is not a price of storage",
            "write one such as 0.30 USD/GiB/month, or 270 USD/TB/month",
        )
    return float(match[1]) * 2**30 / _BYTES[match[2]]


StoragePrice = Annotated[
    float,
    Written(
        _storage_price,
        STORAGE_PRICE_PATTERN,
        "0.30 USD/GiB/month",
        lambda usd: f"{usd:.9f}".rstrip("0").rstrip(".") + " USD/GiB/month",
    ),
]
"""USD for each GiB and month, from 0 on."""

OfferName = Annotated[
    str,
    matching(
        OFFER_PATTERN,
        "the name of an offer",
        "one that gridwright catalog list names",
        "azure-netapp-files-ultra",
    ),
]
"""The name of a managed offer in the catalogue."""


SERVICE_FIELDS = ("offer", "capacity", "throughput", "limits", "price", "storage_price")
"""What says that somebody runs a file system as a service; `reads` has a value without being written."""


class ServiceFileSystem(FileSystem):
    """A file system whose rates and cost may be known by figures, published or stated."""

    offer: Annotated[
        OfferName | None, Update(Change.REBUILD, "another service is a new file system; its data are copied")
    ] = Field(
        default=None,
        description="The offer of the catalogue whose published limits it has, such as "
        "azure-netapp-files-ultra. Figures under limits go before them.",
    )
    capacity: Annotated[Size | None, Update(Change.LIVE, "services grow while they are used")] = Field(
        default=None,
        description="Its capacity, such as 36 TiB. Needed where throughput or price goes by it.",
    )
    throughput: Annotated[TotalRate | None, Update(Change.LIVE, "services change it in place")] = Field(
        default=None,
        description="Throughput bought for reads and writes together, such as 8 GB/s, where it is not "
        "what the capacity brings.",
    )
    limits: Annotated[ServiceLimits | None, _READ] = Field(
        default=None, description="What it is known to deliver."
    )
    reads: Annotated[int, _READ] = Field(
        default=80,
        ge=1,
        le=99,
        description="Percent of the bytes that are read, where reads and writes at once are predicted.",
    )
    price: Annotated[Budget | None, _READ] = Field(
        default=None,
        description="What it costs, beside what goes by capacity, such as 3.20 USD/h or 2400 USD/month.",
    )
    storage_price: Annotated[StoragePrice | None, _READ] = Field(
        default=None, description="What its capacity costs, such as 0.30 USD/GiB/month."
    )

    @property
    def has_service_figures(self) -> bool:
        """Whether it names an offer, or says limits of its own."""
        return self.offer is not None or self.limits is not None


def service_problems(fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    """Prices by a capacity that nobody names, and limits that contradict each other.

    `fields` are plain and unchecked: whatever has the wrong type is passed over.
    """
    if fields.get("storage_price") is not None and fields.get("capacity") is None:
        yield (
            ("storage_price",),
            FieldError("a price by capacity, and no capacity", "add capacity: 12 TiB"),
        )
    if isinstance(limits := fields.get("limits"), Mapping):
        yield from _contradictions(limits)


def _contradictions(limits: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    if limits.get("separate") is not True:
        return
    if limits.get("budget") is not None:
        yield (
            ("limits", "separate"),
            FieldError(
                "reads and writes have a budget together, so they are not separate", "remove one line"
            ),
        )
    if limits.get("burst") is not None and limits.get("budget") is None:
        yield (
            ("limits", "burst"),
            FieldError(
                "a burst lifts the budget of reads and writes, and separate says that they have none",
                "remove the burst, or separate: true",
            ),
        )
