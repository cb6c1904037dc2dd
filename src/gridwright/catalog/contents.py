"""The catalogue as the rest of the program sees it: instance types, volumes, managed file systems, prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.catalog.instances import PROVIDERS, InstanceType, Provider
from gridwright.catalog.managed import ManagedDeployment, ManagedOffer
from gridwright.catalog.prices import InstancePrices, Price, ServicePrices, StoragePrices
from gridwright.catalog.volumes import VolumeType
from gridwright.errors import GridwrightError, input_error, nearest


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that can be bought, by name; read-only."""

    instances: Mapping[str, InstanceType]
    volumes: Mapping[str, VolumeType]
    managed: Mapping[str, ManagedDeployment]
    prices: InstancePrices
    services: ServicePrices = field(default_factory=ServicePrices)
    offers: Mapping[str, ManagedOffer] = field(default_factory=dict)
    offer_prices: Mapping[str, StoragePrices] = field(default_factory=dict)
    """Prices of offers, by their names."""

    def regions(self, provider: Provider = "aws") -> tuple[str, ...]:
        """Regions with prices of instances: the packaged ones, then those of the user's own prices."""
        packaged = self.prices.regions(provider)
        other = {region for each in PROVIDERS for region in self.prices.regions(each)}
        own = sorted(
            region
            for region, prices in self.prices.own.items()
            if region not in other and any(self._provider_of(name) == provider for name in prices)
        )
        return packaged + tuple(own)

    def _provider_of(self, name: str) -> Provider | None:
        return self.instances[name].provider if name in self.instances else None

    def instance(self, name: str, provider: str | None = None) -> InstanceType:
        """Return the instance type `name`.

        Raises GridwrightError with the nearest name when there is none, or none of `provider`.
        """
        found = self.instances.get(name)
        if found and provider in (None, found.provider):
            return found
        if found:
            raise input_error(
                f"{name} is an instance type of {found.provider}, and the grid's provider is {provider}",
                remedy=f"choose one of {provider}, or set provider: {found.provider}; "
                f"gridwright catalog list --provider {provider} shows them",
            )
        names = [
            instance.name for instance in self.instances.values() if provider in (None, instance.provider)
        ]
        if sizes := [each for each in names if self.instances[each].family == name]:
            raise input_error(
                f"{name} is a family of instance types", remedy=f"choose one of {', '.join(sizes)}"
            )
        raise unknown("instance type", name, names)

    def volume(self, name: str, provider: str | None = None) -> VolumeType:
        """Return the volume type `name`; raises GridwrightError with the nearest name."""
        found = self.volumes.get(name)
        if found and provider in (None, found.provider):
            return found
        names = [volume.name for volume in self.volumes.values() if provider in (None, volume.provider)]
        raise unknown("volume type", name, names, show_all=True)

    def deployment(self, name: str) -> ManagedDeployment:
        """Return the managed file system `name`; raises GridwrightError with the nearest name."""
        if found := self.managed.get(name):
            return found
        raise unknown("managed file system", name, list(self.managed), show_all=True)

    def instance_usd_per_hour(self, name: str, region: str) -> float | None:
        """Return USD for one hour of `name` in `region`, on demand, Linux; None where no price is known.

        Raises GridwrightError with the nearest name for an instance type or a region that does
        not exist.
        """
        price = self.instance_price(name, region)
        return price.usd if price else None

    def instance_price(self, name: str, region: str) -> Price | None:
        """Return what instance_usd_per_hour returns, with its source."""
        instance = self.instance(name)
        self.check_region(region, instance.provider)
        return self.prices.price(instance, region)

    def offer(self, name: str) -> ManagedOffer:
        """Return the managed offer `name`; raises GridwrightError with the nearest name."""
        if found := self.offers.get(name):
            return found
        raise unknown("managed offer", name, list(self.offers), show_all=True)

    def check_region(self, region: str, provider: Provider = "aws") -> None:
        """Raise GridwrightError with the nearest region unless `provider` has prices in `region`.

        An empty region will do for OCI, which asks the same everywhere.
        """
        if not self.prices.knows(region, provider) and region not in self.prices.own:
            raise unknown(f"{provider} region with prices", region, self.regions(provider))


def unknown(
    kind: str, name: str, names: Sequence[str], *, show_all: bool = False, where: str | None = None
) -> GridwrightError:
    """Return the error for a name that the catalogue does not have, with the nearest that it has."""
    close = nearest(name, names)
    remedy = f"the nearest is {close}; " if close else ""
    if show_all:
        remedy += f"choose one of {', '.join(names)}"
    elif "region" in kind:
        remedy += "prices of another region can be written into catalog.yaml beside the grid spec"
        remedy += "" if close else f"; known are {', '.join(names)}"
    else:
        remedy += (
            "gridwright catalog list shows all; a private type can be described in catalog.yaml "
            "beside the grid spec"
        )
    return input_error(f"no {kind} is called {name[:64]!r}", where=where, remedy=remedy)
