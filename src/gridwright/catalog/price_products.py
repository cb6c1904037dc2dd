"""Reads products of AWS's Pricing API: what an instance type costs by the hour, and volumes by the month."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

GIB_PER_MIB = 1024
"""The list has throughput of volumes by GiB/s and month, the catalogue by MiB/s and month."""
_VOLUME = re.compile(
    r"(?:.*-)?EBS:Volume(?P<what>Usage|P-IOPS|P-Throughput)\.(?P<volume>gp2|gp3|io2|st1|sc1)(?P<tier>\.tier[23])?"
)
"""Usage types of volumes: a mark of the region, what is bought, the type, the tier of io2's operations."""
_UNITS: Mapping[tuple[str, str], tuple[str, float]] = {
    ("Usage", "GB-Mo"): ("capacity", 1.0),
    ("P-IOPS", "IOPS-Mo"): ("iops", 1.0),
    ("P-Throughput", "GiBps-mo"): ("throughput", 1 / GIB_PER_MIB),
    ("P-Throughput", "MiBps-Mo"): ("throughput", 1.0),
}
"""Components of the catalogue by what is bought and its unit; how many of that unit one of ours is."""
_TIERS = {"": "", ".tier2": " over 32000", ".tier3": " over 64000"}

_Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Dimension(BaseModel):
    unit: str
    price: Mapping[str, _Usd] = Field(alias="pricePerUnit")


class _Term(BaseModel):
    dimensions: Mapping[str, _Dimension] = Field(alias="priceDimensions")


class _Terms(BaseModel):
    on_demand: Mapping[str, _Term] = Field(default_factory=dict, alias="OnDemand")


class _Product(BaseModel):
    attributes: Mapping[str, Any]


class PriceProduct(BaseModel):
    """One product, as far as its price on demand goes."""

    product: _Product
    terms: _Terms = Field(default_factory=_Terms)
    published: str = Field(default="", alias="publicationDate")

    def attribute(self, name: str) -> str:
        """An attribute as text; empty where it has none."""
        found = self.product.attributes.get(name, "")
        return found if isinstance(found, str) else ""

    def prices(self) -> Iterator[tuple[str, float]]:
        """Units and prices in USD that are more than nothing: what is free is listed, too."""
        for term in self.terms.on_demand.values():
            for dimension in term.dimensions.values():
                usd = dimension.price.get("USD", 0.0)
                if usd > 0:
                    yield dimension.unit, usd


_LUSTRE_TIERS: Mapping[tuple[str, str], tuple[str, str]] = {
    **{("SSD", tier): ("persistent-1", tier) for tier in ("50", "100")},
    **{("SSD", tier): ("persistent-2", tier) for tier in ("125", "250", "500", "1000")},
    **{("HDD", tier): (f"fsx-lustre-hdd-{tier}", "storage") for tier in ("12", "40")},
}
"""Items and components of the catalogue by medium and MB/s per TiB. 200 is sold of two deployment types."""


@dataclass(frozen=True, slots=True)
class StorageListPrice:
    """What a component of a volume type or a file system costs by the month."""

    item: str
    component: str
    usd: float
    date: str


def read_product(text: object) -> PriceProduct:
    """A product out of the text that the API has it in. Raises ValueError for anything else."""
    try:
        return PriceProduct.model_validate_json(text if isinstance(text, (str, bytes)) else b"")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error


def hourly_prices(product: PriceProduct) -> Iterator[tuple[str, float]]:
    """Instance types and USD per hour."""
    name = product.attribute("instanceType")
    for unit, usd in product.prices():
        if name and unit == "Hrs":
            yield name, usd


def volume_prices(product: PriceProduct) -> Iterator[StorageListPrice]:
    """Prices of volumes; nothing for another product. Raises ValueError for a unit that is not known."""
    found = _VOLUME.fullmatch(product.attribute("usagetype"))
    if found is None:
        return
    for unit, usd in product.prices():
        known = _UNITS.get((found["what"], unit))
        if known is None:
            raise ValueError(f"{product.attribute('usagetype')} is sold by {unit!r}, which is not known here")
        component, factor = known
        yield StorageListPrice(
            found["volume"], component + _TIERS[found["tier"] or ""], usd * factor, product.published[:10]
        )


def lustre_prices(product: PriceProduct) -> Iterator[StorageListPrice]:
    """Prices of storage of FSx for Lustre; nothing for its backups and requests.

    Raises ValueError for a tier that the catalogue does not have, or that two deployment types have.
    """
    medium, said = product.attribute("storageType"), product.attribute("throughputCapacity")
    if product.attribute("fileSystemType") != "Lustre" or medium not in ("SSD", "HDD"):
        return
    tier = re.match(r"[0-9]{1,5}(?![0-9])", said, re.ASCII)
    for unit, usd in product.prices():
        if unit != "GB-Mo":
            continue
        known = _LUSTRE_TIERS.get((medium, tier[0] if tier else ""))
        if known is None:
            usage = product.attribute("usagetype") or "a product without usage type"
            raise ValueError(
                f"{usage}: {medium} of throughput {said[:40]!r} is no tier that is known for sure"
            )
        yield StorageListPrice(*known, usd, product.published[:10])
