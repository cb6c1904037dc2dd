"""What a grid spec says of a file system that somebody runs as a service: offer, size, limits, prices."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from gridwright.filesystems.service_limits import ServiceLimits
from gridwright.spec.fields import Budget, Change, Update
from gridwright.spec.filesystem import FileSystem
from gridwright.yamltext.fields import FieldError, Size, TotalRate, Written, matching
from gridwright.yamltext.source import show

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
