"""Prices by region: of instances, of storage, and of services beside them.

Of instances those of the packaged lists, with the user's own on top. Of two packaged lists the newer one
counts. A type that is newer than the list of its region is estimated from its price in us-east-1; a type that
the list of its region leaves out is not sold there and has no price. In a region that no list has, every type
that us-east-1 has is estimated.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import median

from gridwright.catalog.facts import DATA, Source, rows, source
from gridwright.catalog.instances import InstanceType, Provider
from gridwright.errors import GridwrightError, input_error, nearest

OWN = Source("catalog.yaml", "the user's own")
OCI_RATE_COLUMNS = (
    *("prefix", "usd_per_core_hour", "usd_per_gib_hour", "usd_per_disk_tb_hour"),
    *("source", "date"),
)
LISTED_COLUMNS = ("name", "region", "usd", "source", "date")
HOME = "us-east-1"
"""Prices of other regions are estimated from those of this one."""


@dataclass(frozen=True, slots=True)
class Price:
    """One price, in USD, and where it comes from.

    `estimate`: nobody lists it; it is the price of us-east-1 times what the region asks more or less.
    """

    usd: float
    source: Source
    estimate: bool = False


@dataclass(frozen=True, slots=True)
class OciRate:
    """What Oracle asks for shapes whose name begins with `prefix`, the same in all commercial regions.

    Memory or disks that are in the price of the cores have the rate 0.
    """

    prefix: str
    usd_per_core_hour: float
    usd_per_gib_hour: float
    usd_per_disk_tb_hour: float
    source: Source

    def price(self, instance: InstanceType) -> Price:
        """Price of one hour: cores, memory and own disks, each at its rate."""
        memory = self.usd_per_gib_hour * instance.memory_bytes / 2**30
        store = instance.instance_store
        disks = self.usd_per_disk_tb_hour * store.total_bytes / 1e12 if store else 0.0
        return Price(self.usd_per_core_hour * instance.cores + memory + disks, self.source)


@dataclass(slots=True)
class InstancePrices:
    """On-demand prices for Linux, USD per hour: `own[region][type]` go before the packaged ones."""

    own: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)
    own_oci: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)
    """Oracle's newer rates by prefix and component: core-hour, gib-hour, disk-tb-hour."""
    _listed: tuple[str, ...] = ()
    _unlisted: tuple[str, ...] = ()
    _aws: dict[str, tuple[list[str], Source]] | None = None
    _oci: tuple[OciRate, ...] | None = None
    _oci_regions: tuple[str, ...] = ()
    _ratios: dict[str, float | None] = field(default_factory=dict)

    def regions(self, provider: Provider) -> tuple[str, ...]:
        """Names of the provider's regions that have packaged prices or estimates, in alphabetical order."""
        if provider == "oci":
            if not self._oci_regions:
                self._oci_regions = tuple(name for (name, _, _) in rows("oci-regions.csv", _REGION_COLUMNS))
            return self._oci_regions
        if not self._unlisted:
            self._unlisted = tuple(name for (name, _, _) in rows("aws-regions.csv", _REGION_COLUMNS))
        return tuple(sorted((*self.aws_listed(), *self._unlisted)))

    def aws_listed(self) -> tuple[str, ...]:
        """The regions of the packaged list, in its order."""
        if not self._listed:
            with (DATA / "prices.csv").open(newline="", encoding="utf-8") as file:
                self._listed = tuple(next(csv.reader(file))[len(_PRICE_COLUMNS) :])
        return self._listed

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
        if newer := _newer().get((instance.name, region)):
            return newer
        older = self._older()
        if instance.name not in older or region not in self.aws_listed():
            return self._estimate(instance, region)
        cells, said = older[instance.name]
        cell = cells[self.aws_listed().index(region)]
        return Price(float(cell), said) if cell else None

    def _older(self) -> dict[str, tuple[list[str], Source]]:
        if self._aws is None:
            columns = (*_PRICE_COLUMNS, *self.aws_listed())
            self._aws = {
                name: (cells, source(text, date)) for name, text, date, *cells in rows("prices.csv", columns)
            }
        return self._aws

    def _estimate(self, instance: InstanceType, region: str) -> Price | None:
        if region == HOME:
            return None
        home, ratio = self._aws_price(instance, HOME), self.regional_ratio(region)
        return scaled(home, ratio) if home and ratio else None

    def regional_ratio(self, region: str) -> float | None:
        """What `region` asks relative to us-east-1: the median of all instance types listed in both.

        For a region that no list has, the median of the regions in its part of the world (`ap-`). None for
        a region that is not known.
        """
        if region not in self._ratios:
            found: list[float] = []
            if region in self.aws_listed():
                here, home = (self.aws_listed().index(each) for each in (region, HOME))
                both = ((cells[here], cells[home]) for cells, _ in self._older().values())
                found = [float(usd) / float(of_home) for usd, of_home in both if usd and of_home]
            elif region in self.regions("aws"):
                part = region.partition("-")[0]
                near = [each for each in self.aws_listed() if each.partition("-")[0] == part]
                found = [ratio for each in near if (ratio := self.regional_ratio(each))]
            self._ratios[region] = median(found) if found else None
        return self._ratios[region]

    def _oci_price(self, instance: InstanceType) -> Price | None:
        if self._oci is None:
            self._oci = tuple(
                _newest(
                    OciRate(prefix, float(core), float(memory), float(disk), source(text, date)),
                    self.own_oci.get(prefix, {}),
                )
                for prefix, core, memory, disk, text, date in rows("oci-prices.csv", OCI_RATE_COLUMNS)
            )
        rates = [rate for rate in self._oci if instance.name.startswith(rate.prefix)]
        return max(rates, key=lambda rate: len(rate.prefix)).price(instance) if rates else None


def _newest(listed: OciRate, newer: Mapping[str, Price]) -> OciRate:
    """Rates that were fetched in the place of packaged ones; the oldest of what is left says the date."""
    if not newer:
        return listed
    rates = [listed.usd_per_core_hour, listed.usd_per_gib_hour, listed.usd_per_disk_tb_hour]
    components = ("core-hour", "gib-hour", "disk-tb-hour")
    fetched = [newer.get(component) for component in components]
    # A rate of 0 is not sold apart.
    is_whole = all(price is not None or not rate for price, rate in zip(fetched, rates, strict=True))
    said = next(price.source for price in newer.values()) if is_whole else listed.source
    core, memory, disk = (price.usd if price else rate for price, rate in zip(fetched, rates, strict=True))
    return OciRate(listed.prefix, core, memory, disk, said)


_PRICE_COLUMNS = ("name", "source", "date")
_REGION_COLUMNS = ("name", "source", "date")


@cache
def _newer() -> dict[tuple[str, str], Price]:
    """Prices of the newer list, by type and region."""
    return {
        (name, region): Price(float(usd), source(text, date))
        for name, region, usd, text, date in rows("listed-prices.csv", LISTED_COLUMNS)
    }


def scaled(home: Price, ratio: float) -> Price:
    """Return an estimate of a price that is listed in us-east-1 only."""
    said = source(f"estimate: {ratio:.3g} times the price of {HOME} ({home.source.text})", home.source.date)
    return Price(home.usd * ratio, said, estimate=True)


GIB = 2**30
"""Providers bill storage by the GiB and call it GB."""

Ratio = Callable[[str], float | None]
"""What a region asks relative to us-east-1; None where that is not known."""


def no_ratio(_: str) -> float | None:
    """Nothing is known of any region."""
    return None


@dataclass(frozen=True, slots=True)
class StoragePrices:
    """USD per month of one item, by region and component.

    `by_region["us-east-1"]["capacity"]` is USD per GiB and month. Prices that hold in every region
    stand under the empty name. A region without a price of its own is estimated: what instances cost there
    relative to us-east-1 (`ratio`), times the price in us-east-1.
    """

    item: str
    by_region: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)
    ratio: Ratio = no_ratio

    def regions(self) -> tuple[str, ...]:
        """Regions with prices; empty when one price holds everywhere."""
        return tuple(sorted(region for region in self.by_region if region))

    def known(self, component: str, region: str) -> Price | None:
        """Price of one component in `region`, listed or estimated; None where none is known."""
        own = self.by_region.get(region, {}).get(component)
        return own or self.by_region.get("", {}).get(component) or self._estimate(component, region)

    def _estimate(self, component: str, region: str) -> Price | None:
        home = self.by_region.get(HOME, {}).get(component)
        ratio = self.ratio(region) if home else None
        return scaled(home, ratio) if home and ratio else None

    def components(self) -> tuple[str, ...]:
        """What has a price in any region, in alphabetical order."""
        return tuple(sorted({name for prices in self.by_region.values() for name in prices}))

    def of(self, component: str, region: str) -> Price:
        """Price of one component in `region`.

        Raises GridwrightError where none is known: it names the nearest region that has one and
        how to state it.
        """
        found = self.known(component, region)
        if found is None:
            raise self.missing(component, region)
        return found

    def missing(self, component: str, region: str) -> GridwrightError:
        """Return the error for a price that nobody told the catalogue."""
        with_price = [each for each in self.regions() if component in self.by_region[each]]
        close = nearest(region, with_price) or next(iter(with_price), None)
        there = f"the nearest region with a price is {close}; " if close else "no region has one; "
        return input_error(
            f"no price of {self.item} ({component}) is known in the region {region}",
            remedy=f"{there}write yours into catalog.yaml beside the grid spec, under "
            f"prices: storage: {region}: {self.item}: {component}",
        )


_COLUMNS = ("provider", "item", "region", "usd", "unit", "source", "date")


@dataclass(frozen=True, slots=True)
class ServicePrices:
    """USD by item and region; `units` says per what, such as USD/h or USD/GB-month."""

    by_item: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    ratio: Ratio = no_ratio

    def usd(self, item: str, region: str) -> float | None:
        """Price of one unit of `item` in `region`, listed or estimated; None where none is known."""
        prices = self.by_item.get(item, {})
        if price := prices.get(region):
            return price.usd
        home, ratio = prices.get(HOME), self.ratio(region)
        return scaled(home, ratio).usd if home and ratio else None


def read_service_prices(own: Mapping[str, Mapping[str, Price]], ratio: Ratio = no_ratio) -> ServicePrices:
    """The packaged prices, with the user's `own[region][item]` before them."""
    found: dict[str, dict[str, Price]] = {}
    units: dict[str, str] = {}
    for _, item, region, usd, unit, text, date in rows("cloud-prices.csv", _COLUMNS):
        found.setdefault(item, {})[region] = Price(float(usd), source(text, date))
        units[item] = unit
    for region, prices in own.items():
        for item, price in prices.items():
            found[item][region] = price
    return ServicePrices(found, units, ratio)
