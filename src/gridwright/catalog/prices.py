"""Prices of instances by region: the packaged list, read when first asked for, with the user's own on top."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field

from gridwright.catalog.facts import Source
from gridwright.catalog.instances import InstanceType, Provider
from gridwright.catalog.tables import DATA, rows, source

OWN = Source("catalog.yaml", "the user's own")
OCI_RATE_COLUMNS = ("prefix", "usd_per_core_hour", "usd_per_gib_hour", "source", "date")


@dataclass(frozen=True, slots=True)
class Price:
    """One price, in USD, and where it comes from."""

    usd: float
    source: Source


@dataclass(frozen=True, slots=True)
class OciRate:
    """What Oracle asks for shapes whose name begins with `prefix`, the same in all commercial regions."""

    prefix: str
    usd_per_core_hour: float
    usd_per_gib_hour: float
    source: Source

    def price(self, instance: InstanceType) -> Price:
        """Price of one hour: cores and memory, each at its rate."""
        memory = self.usd_per_gib_hour * instance.memory_bytes / 2**30
        return Price(self.usd_per_core_hour * instance.cores + memory, self.source)


@dataclass(slots=True)
class InstancePrices:
    """On-demand prices for Linux, USD per hour: `own[region][type]` go before the packaged ones."""

    own: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)
    _aws_regions: tuple[str, ...] = ()
    _aws: dict[str, tuple[list[str], Source]] | None = None
    _oci: tuple[OciRate, ...] | None = None
    _oci_regions: tuple[str, ...] = ()

    def regions(self, provider: Provider) -> tuple[str, ...]:
        """Names of the provider's regions that have packaged prices, in alphabetical order."""
        if provider == "oci":
            if not self._oci_regions:
                self._oci_regions = tuple(name for (name, _, _) in rows("oci-regions.csv", _REGION_COLUMNS))
            return self._oci_regions
        if not self._aws_regions:
            with (DATA / "prices.csv").open(newline="", encoding="utf-8") as file:
                self._aws_regions = tuple(next(csv.reader(file))[len(_PRICE_COLUMNS) :])
        return self._aws_regions

    def price(self, instance: InstanceType, region: str) -> Price | None:
        """Price of one hour of `instance` in `region`; None where none is known."""
        own = self.own.get(region, {}).get(instance.name)
        if own:
            return own
        if not self.knows(region, instance.provider):
            return None
        return self._oci_price(instance) if instance.provider == "oci" else self._aws_price(instance, region)

    def knows(self, region: str, provider: Provider) -> bool:
        """Whether packaged prices hold in `region`; OCI's hold everywhere, and need no region."""
        return region in self.regions(provider) or (provider == "oci" and not region)

    def _aws_price(self, instance: InstanceType, region: str) -> Price | None:
        if self._aws is None:
            columns = (*_PRICE_COLUMNS, *self.regions("aws"))
            self._aws = {
                name: (cells, source(text, date)) for name, text, date, *cells in rows("prices.csv", columns)
            }
        cells, said = self._aws.get(instance.name, ([], OWN))
        cell = cells[self._aws_regions.index(region)] if cells else ""
        return Price(float(cell), said) if cell else None

    def _oci_price(self, instance: InstanceType) -> Price | None:
        if self._oci is None:
            self._oci = tuple(
                OciRate(prefix, float(core), float(memory), source(text, date))
                for prefix, core, memory, text, date in rows("oci-prices.csv", OCI_RATE_COLUMNS)
            )
        rates = [rate for rate in self._oci if instance.name.startswith(rate.prefix)]
        return max(rates, key=lambda rate: len(rate.prefix)).price(instance) if rates else None


_PRICE_COLUMNS = ("name", "source", "date")
_REGION_COLUMNS = ("name", "source", "date")
