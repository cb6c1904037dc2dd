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


@dataclass(frozen=True, slots=True)
class VolumePrice:
    """What a component of a volume type costs by the month."""

    volume: str
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


def volume_prices(product: PriceProduct) -> Iterator[VolumePrice]:
    """Prices of volumes; nothing for another product. Raises ValueError for a unit that is not known."""
    found = _VOLUME.fullmatch(product.attribute("usagetype"))
    if found is None:
        return
    for unit, usd in product.prices():
        known = _UNITS.get((found["what"], unit))
        if known is None:
            raise ValueError(f"{product.attribute('usagetype')} is sold by {unit!r}, which is not known here")
        component, factor = known
        yield VolumePrice(
            found["volume"], component + _TIERS[found["tier"] or ""], usd * factor, product.published[:10]
        )
