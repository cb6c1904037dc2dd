"""Puts the catalogue together: the packaged facts, and the user's own on top.

Reads the packaged volume types, managed file systems and their prices.

The user's own catalogue beside the grid spec: `catalog.yaml` with prices and private types.

What it says goes before everything else: before the packaged facts, and before the `catalog.csv`
that `gridwright catalog refresh` writes.

The models of `catalog.yaml`, which has the user's own prices and private instance types.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Self, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    ValidationInfo,
    model_validator,
)

from gridwright.catalog.contents import Catalog
from gridwright.catalog.facts import Fact, Source, optional, rows, source
from gridwright.catalog.instances import (
    Architecture,
    Ebs,
    Instances,
    InstanceStore,
    InstanceType,
    Medium,
    Network,
    Provider,
    read_beside,
    read_instance_rows,
)
from gridwright.catalog.managed import MB, ManagedDeployment, Tier, managed_offers, priced_components
from gridwright.catalog.prices import (
    GIB,
    InstancePrices,
    Price,
    Ratio,
    StoragePrices,
    no_ratio,
    read_service_prices,
)
from gridwright.catalog.volumes import VolumeType
from gridwright.errors import nearest
from gridwright.units import Rate
from gridwright.yamltext.fields import FieldError, Size, TotalRate
from gridwright.yamltext.load import parse, read_file
from gridwright.yamltext.source import FileFormat, show
from gridwright.yamltext.structure import KEY, Refused, Section, validated_with

CATALOG_YAML = FileFormat(
    name="catalogue of your own",
    levels="five",
    beginning="Write prices: or instances:, as in gridwright help catalogue",
    instead_of_nothing=None,
    max_bytes=1 << 20,
    max_values=100_000,
    numbers_name=True,
)
_NEEDED = ("provider", "cores", "memory", "network")
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names that prices can be written for.

    `instances` are the types known without the file, `components` what each volume type and managed file
    system has prices of, `services` what else is priced.
    """

    instances: Mapping[str, InstanceType]
    components: Mapping[str, Iterable[str]]
    services: tuple[str, ...]


def _line(text: str) -> str:
    if text.strip() and len(text) <= _LONGEST_TEXT and text.isprintable():
        return text
    raise FieldError(
        f"{show(text)} is no short text", f"write one line of at most {_LONGEST_TEXT} characters"
    )


def _as_text(value: object) -> object:
    """2026 of YAML as text."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


_Line = Annotated[str, AfterValidator(_line)]
_Date = Annotated[str, BeforeValidator(_as_text), AfterValidator(_line)]
_Count = Annotated[int, Field(ge=1, lt=10**9)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_ByRegion = Mapping[str, Mapping[str, _Amount]]


class OwnVolumes(Section):
    """What an instance type passes to and from its network volumes."""

    rate: TotalRate | None = Field(default=None, description="What lasts, such as 850 MB/s.")
    peak: TotalRate | None = Field(default=None, description="What a burst reaches, such as 1190 MB/s.")
    iops: _Amount | None = Field(default=None, description="Operations per second that last.")
    peak_iops: _Amount | None = Field(default=None, description="Operations per second of a burst.")
    shared: bool = Field(default=False, description="Whether they share the network cards: true or false.")


class OwnStore(Section):
    """The disks inside a machine."""

    disks: _Count | None = Field(default=None, description="How many disks it has, from 1.")
    disk_size: Size | None = Field(default=None, description="The size of each, such as 900 GB.")
    medium: Medium | None = Field(default=None, description="ssd or hdd.")
    nvme: bool | None = Field(default=None, description="Whether they are NVMe disks: true or false.")
    write: TotalRate | None = Field(default=None, description="A rate of all disks, such as 2 GB/s.")
    read: TotalRate | None = Field(default=None, description="A rate of all disks, such as 2 GB/s.")


class OwnType(Section):
    """A private instance type, or what is to be corrected of a listed one."""

    provider: Provider | None = Field(default=None, description="Who sells it: aws or oci.")
    family: _Line | None = Field(default=None, description="The family it belongs to.")
    cores: _Count | None = Field(default=None, description="Its physical cores, a whole number from 1.")
    vcpus: _Count | None = Field(default=None, description="Its hardware threads, a whole number from 1.")
    memory: Size | None = Field(default=None, description="Its memory, such as 256 GiB.")
    architecture: Architecture | None = Field(default=None, description="x86_64 or arm64.")
    current: bool | None = Field(default=None, description="Whether it is for new grids: true or false.")
    network: TotalRate | None = Field(default=None, description="What lasts, such as 1250 MB/s.")
    network_peak: TotalRate | None = Field(default=None, description="What a burst reaches, such as 3 GB/s.")
    nics: _Count | None = Field(default=None, description="Its network cards, a whole number from 1.")
    volumes: OwnVolumes | None = Field(default=None, description="What passes to and from its volumes.")
    instance_store: OwnStore | None = Field(default=None, description="The disks inside the machine.")


class OwnPrices(Section):
    """Prices in USD by region."""

    instances: _ByRegion = Field(
        default_factory=dict, description="By region and instance type, USD per hour, such as 1.49."
    )
    storage: Mapping[str, Mapping[str, Mapping[str, _Amount]]] = Field(
        default_factory=dict,
        description="By region, volume type or file system, and component, USD per month, such as 0.088.",
    )
    services: _ByRegion = Field(
        default_factory=dict, description="By region and service, USD, such as 0.048."
    )


class OwnCatalog(Section):
    """All of `catalog.yaml`. Its validation context has the KnownNames as `known`."""

    source: _Line | None = Field(default=None, description="Who says so, such as: our contract.")
    date: _Date | None = Field(default=None, description="When that was said, such as 2026-11.")
    prices: OwnPrices = Field(default_factory=OwnPrices, description="Prices of your own, in USD.")
    instances: Mapping[str, OwnType] = Field(
        default_factory=dict, description="Private instance types by name, and corrections of listed ones."
    )

    @model_validator(mode="wrap")
    @classmethod
    def _with_known_names(
        cls,
        data: Any,  # noqa: ANN401 - whatever YAML gave
        handler: ModelWrapValidatorHandler[Self],
        info: ValidationInfo,
    ) -> Self:
        known: KnownNames = (info.context or {})["known"]
        return validated_with(cls, handler, data, _refused(data, known))


def _refused(data: Mapping[str, Any], known: KnownNames) -> Iterator[Refused]:
    """Names that nobody knows, and types that lack what is needed."""
    own = _mapping(data, "instances")
    prices = _mapping(data, "prices")
    for region in _mapping(prices, "instances"):
        for each in _mapping(prices, "instances", region):
            if each not in own:
                yield from _unknown(("prices", "instances", region, each), "instance type", known.instances)
    for region in _mapping(prices, "storage"):
        for item, components in _mapping(prices, "storage", region).items():
            path = ("prices", "storage", region, item)
            yield from _unknown(path, "volume type or file system", known.components)
            for component in components if isinstance(components, Mapping) else ():
                part = f"price of {item}"
                yield from _unknown((*path, component), part, known.components.get(item, (component,)))
    for region in _mapping(prices, "services"):
        for each in _mapping(prices, "services", region):
            yield from _unknown(("prices", "services", region, each), "service", known.services)
    for name, fields in own.items():
        if isinstance(fields, Mapping):
            yield from _lacking(name, fields, known.instances.get(name))


def _lacking(name: str, fields: Mapping[str, Any], listed: InstanceType | None) -> Iterator[Refused]:
    """What a type needs that no listed one gives."""
    missing = [need for need in _NEEDED if need not in fields]
    if missing and listed is None:
        what = f"the private type {name[:64]} lacks {', '.join(missing)}"
        yield ("instances", name), FieldError(what, "add what it lacks; see gridwright help catalogue")
    store = fields.get("instance_store")
    has_none = listed is None or listed.instance_store is None
    if has_none and isinstance(store, Mapping) and not {"disks", "disk_size"} <= set(store):
        path = ("instances", name, "instance_store")
        yield path, FieldError("instance_store lacks disks or disk_size", "add them")


def _unknown(path: tuple[str, ...], kind: str, known: Iterable[str]) -> Iterator[Refused]:
    names = known if isinstance(known, Mapping) else tuple(known)
    if path[-1] in names:
        return
    close = nearest(path[-1], names)
    remedy = f"did you mean {close}?" if close else f"known are {', '.join([*names][:20])}"
    yield (*path, KEY), FieldError(f"no {kind} is called {show(path[-1])}", remedy)


def _mapping(data: Any, *path: str) -> Mapping[str, Any]:  # noqa: ANN401
    """The mapping at a path; an empty one where there is none, which the models report."""
    for part in path:
        data = data.get(part) if isinstance(data, Mapping) else None
    return data if isinstance(data, Mapping) else {}


@dataclass(slots=True)
class Own:
    """What the user's file says; prices in USD, storage prices by item, region and component.

    Prices of services are by region and item.
    """

    instances: dict[str, InstanceType] = field(default_factory=dict)
    instance_prices: dict[str, dict[str, Price]] = field(default_factory=dict)
    storage_prices: dict[str, dict[str, dict[str, Price]]] = field(default_factory=dict)
    service_prices: dict[str, dict[str, Price]] = field(default_factory=dict)


def read_own(path: Path, known: KnownNames) -> Own:
    """Read the user's file. Raises GridwrightError with every problem, each with its line."""
    content = read_file(
        path, CATALOG_YAML, lambda _: "Remove it, or write it as in gridwright help catalogue"
    )
    file, _ = parse(OwnCatalog, CATALOG_YAML, content, str(path), {"known": known})
    said = Source(file.source or str(path), file.date or "the user's own")
    own = Own(
        instances={
            name: _type(name, instance, known.instances.get(name), said)
            for name, instance in file.instances.items()
        },
        instance_prices=_priced(file.prices.instances, said),
        service_prices=_priced(file.prices.services, said),
    )
    for region, items in file.prices.storage.items():
        for item, components in _priced(items, said).items():
            own.storage_prices.setdefault(item, {})[region] = components
    return own


def _priced(usd: Mapping[str, Mapping[str, float]], said: Source) -> dict[str, dict[str, Price]]:
    return {
        group: {name: Price(price, said) for name, price in prices.items()} for group, prices in usd.items()
    }


def _given(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - values of fields of any type
    """Those that were given; rates in bytes per second."""
    return {
        name: float(value.bytes_per_s) if isinstance(value, Rate) else value
        for name, value in fields.items()
        if value is not None
    }


def _type(name: str, own: OwnType, listed: InstanceType | None, said: Source) -> InstanceType:
    """The type as described; what is not, from the listed one of that name."""
    base = listed or _plain_type(name, own, said)
    network = _network(own, base.network)
    return replace(
        base,
        **_given(
            provider=own.provider,
            family=own.family,
            cores=own.cores,
            vcpus=own.vcpus,
            memory_bytes=own.memory,
            architecture=own.architecture,
            current=own.current,
        ),
        network=network,
        ebs=_volumes(own.volumes, network) if own.volumes else base.ebs,
        instance_store=_store(own.instance_store, base.instance_store, said),
        source=said,
    )


def _plain_type(name: str, own: OwnType, said: Source) -> InstanceType:
    """A private type with what it must have, and nothing else."""
    # OwnCatalog has refused a type without these four; the other values only satisfy the type checker.
    cores, rate = own.cores or 1, float(own.network.bytes_per_s if own.network else 1)
    return InstanceType(
        name=name,
        provider=own.provider or "aws",
        family=name.partition(".")[0],
        cores=cores,
        vcpus=2 * cores,
        memory_bytes=own.memory or 1,
        architecture="x86_64",
        network=Network(rate, rate),
        ebs=None,
        instance_store=None,
        current=True,
        placement_bytes_per_s=None,
        accelerators=0,
        bare_metal=False,
        burstable_cpu=False,
        source=said,
    )


def _network(own: OwnType, base: Network) -> Network:
    changed = replace(
        base,
        **_given(baseline_bytes_per_s=own.network, peak_bytes_per_s=own.network_peak, nics=own.nics),
    )
    return replace(changed, peak_bytes_per_s=max(changed.peak_bytes_per_s, changed.baseline_bytes_per_s))


def _volumes(own: OwnVolumes, network: Network) -> Ebs:
    steady = float(own.rate.bytes_per_s) if own.rate else network.baseline_bytes_per_s
    return Ebs(
        baseline_bytes_per_s=steady,
        maximum_bytes_per_s=max(steady, own.peak.bytes_per_s if own.peak else steady),
        baseline_iops=own.iops,
        maximum_iops=own.iops if own.peak_iops is None else own.peak_iops,
        dedicated=not own.shared,
    )


def _store(own: OwnStore | None, base: InstanceStore | None, said: Source) -> InstanceStore | None:
    if own is None:
        return base
    if base is None:
        # OwnCatalog has refused disks without these two.
        base = InstanceStore(own.disks or 1, own.disk_size or 1, medium="ssd", nvme=True)
    rates = _given(write_bytes_per_s=own.write, read_bytes_per_s=own.read)
    return replace(
        base,
        **_given(disks=own.disks, disk_bytes=own.disk_size, medium=own.medium, nvme=own.nvme),
        **rates,
        source=str(said) if rates else base.source,
    )


FACT_COLUMNS = ("provider", "volume", "fact", "value", "unit", "source", "date")
PRICE_COLUMNS = ("provider", "item", "component", "region", "usd", "unit", "source", "date")
MANAGED_COLUMNS = (
    *("provider", "deployment", "tier", "smallest_gib", "next_gib", "increment_gib"),
    *("network_mb_per_s_per_tib", "network_burst_mb_per_s_per_tib"),
    *("disk_mb_per_s_per_tib", "disk_burst_mb_per_s_per_tib", "disk_write_mb_per_s_per_tib"),
    *("durable", "source", "date"),
)
LIMIT_COLUMNS = ("limit", "value", "unit", "source", "date")

_GIB_OF_GB = GIB / 1e9
PricesByRegion = dict[str, dict[str, Price]]


def read_storage_prices(own: Mapping[str, Mapping[str, Mapping[str, Price]]]) -> dict[str, PricesByRegion]:
    """Prices by item, region and component; `own` (item, region, component) go before the packaged ones.

    What goes by capacity is for each GiB, also where it is listed for each GB of 10^9 bytes. Items of a
    provider that asks the same of all its volume types stand under its name.
    """
    storage_prices: dict[str, PricesByRegion] = defaultdict(lambda: defaultdict(dict))
    for provider, item, component, region, usd, unit, text, date in rows("storage-prices.csv", PRICE_COLUMNS):
        factor = _GIB_OF_GB if "GB-month" in unit else 1.0
        storage_prices[item or provider][region][component] = Price(float(usd) * factor, source(text, date))
    for item, by_region in own.items():
        for region, prices in by_region.items():
            storage_prices[item][region].update(prices)
    return storage_prices


def read_volumes(prices: Mapping[str, PricesByRegion], ratio: Ratio = no_ratio) -> dict[str, VolumeType]:
    """Return all packaged volume types, by name."""
    facts: dict[tuple[str, str], dict[str, Fact]] = defaultdict(dict)
    for provider, volume, fact, value, unit, text, date in rows("volume-facts.csv", FACT_COLUMNS):
        facts[provider, volume][fact] = Fact(float(value), unit, source(text, date))
    return {
        name: VolumeType(
            name=name,
            provider=cast("Provider", provider),
            minimum_bytes=round(each["size_min"].value * GIB),
            maximum_bytes=round(each["size_max"].value * GIB),
            facts=each,
            prices=StoragePrices(name, _merged(prices.get(provider, {}), prices.get(name, {})), ratio),
        )
        for (provider, name), each in facts.items()
    }


def _merged(general: PricesByRegion, particular: PricesByRegion) -> PricesByRegion:
    regions = {**general, **particular}
    return {region: {**general.get(region, {}), **particular.get(region, {})} for region in regions}


def read_managed(
    prices: Mapping[str, PricesByRegion], ratio: Ratio = no_ratio
) -> dict[str, ManagedDeployment]:
    """Return all packaged deployment types of managed file systems, by name."""
    limits = {
        limit: Fact(float(value), unit, source(text, date))
        for limit, value, unit, text, date in rows("managed-limits.csv", LIMIT_COLUMNS)
    }
    tiers: dict[str, dict[float, Tier]] = defaultdict(dict)
    about: dict[str, list[str]] = {}
    for row in rows("managed.csv", MANAGED_COLUMNS):
        network, network_burst, disk, disk_burst, disk_write = row[6:11]
        tiers[row[1]][float(row[2]) * MB] = Tier(
            disk=float(disk) * MB,
            disk_burst=optional(disk_burst, MB),
            disk_write=optional(disk_write, MB),
            network=float(network) * MB,
            network_burst=optional(network_burst, MB),
            source=source(row[12], row[13]),
        )
        about[row[1]] = row
    return {
        name: ManagedDeployment(
            name=name,
            provider=cast("Provider", about[name][0]),
            tiers=tuple(sorted(tier)),
            by_tier=tier,
            smallest_bytes=int(about[name][3]) * GIB,
            next_bytes=int(about[name][4]) * GIB,
            increment_bytes=int(about[name][5]) * GIB,
            limits=limits,
            durable=about[name][11] == "1",
            prices=StoragePrices(name, prices.get(name, {}), ratio),
        )
        for name, tier in tiers.items()
    }


_REFRESHED, _REFRESHED_PRICES, _OWN = "catalog.csv", "catalog-prices.csv", "catalog.yaml"
"""Files of the user's own, in the directory of the grid spec."""


def load_catalog(beside: Path | None = None) -> Catalog:
    """Return the catalogue.

    `beside` is the directory of the grid spec. A `catalog.yaml` there adds private types and puts
    the user's own prices before all others; a `catalog.csv`, written by `gridwright catalog
    refresh`, puts newer facts before the packaged ones. Raises GridwrightError with all that is
    wrong with these files.
    """
    if beside is None or not any((beside / name).is_file() for name in (_REFRESHED, _REFRESHED_PRICES, _OWN)):
        return _packaged()
    return _loaded(beside)


@cache
def _packaged() -> Catalog:
    """The packaged facts alone: most commands ask for them several times."""
    return _loaded(None)


def _loaded(beside: Path | None) -> Catalog:
    rows, facts = read_instance_rows(), read_beside()
    types: dict[str, InstanceType] = {}
    prices: PricesByRegion = {}
    storage: dict[str, PricesByRegion] = {}
    services: PricesByRegion = {}
    if beside is not None and (path := beside / _REFRESHED).is_file():
        from gridwright.catalog.refreshed import read_refreshed

        refreshed = read_refreshed(path, facts)
        types, prices = refreshed.instances, refreshed.prices
    newer_rates: PricesByRegion = {}
    if beside is not None and (path := beside / _REFRESHED_PRICES).is_file():
        storage, newer_rates = _refreshed_prices(path)
    if beside is not None and (path := beside / _OWN).is_file():
        known = KnownNames(Instances(rows, facts, types), _components(), tuple(read_service_prices({}).units))
        own = read_own(path, known)
        types, prices = types | own.instances, _joined(prices, own.instance_prices)
        storage = {
            item: _joined(storage.get(item, {}), own.storage_prices.get(item, {}))
            for item in {**storage, **own.storage_prices}
        }
        services = own.service_prices
    of_storage, of_instances = read_storage_prices(storage), InstancePrices(prices, newer_rates)
    ratio = of_instances.regional_ratio
    return Catalog(
        instances=Instances(rows, facts, types),
        volumes=MappingProxyType(read_volumes(of_storage, ratio)),
        managed=MappingProxyType(read_managed(of_storage, ratio)),
        prices=of_instances,
        services=read_service_prices(services, ratio),
        offers=MappingProxyType(managed_offers()),
        offer_prices={
            item: StoragePrices(item, of_storage.get(item, {}), ratio) for item in managed_offers()
        },
    )


def _refreshed_prices(path: Path) -> tuple[dict[str, PricesByRegion], PricesByRegion]:
    """Prices of storage by item and region, and Oracle's rates by prefix, out of `catalog-prices.csv`."""
    from gridwright.catalog.refreshed import read_price_rows

    storage: dict[str, PricesByRegion] = {}
    rates: PricesByRegion = {}
    for row in read_price_rows(path):
        if row.component.endswith("-hour"):
            rates.setdefault(row.item, {})[row.component] = row.price
        else:
            storage.setdefault(row.item, {}).setdefault(row.region, {})[row.component] = row.price
    return storage, rates


def _joined(below: PricesByRegion, above: PricesByRegion) -> PricesByRegion:
    return {region: {**below.get(region, {}), **above.get(region, {})} for region in {**below, **above}}


def _components() -> dict[str, tuple[str, ...]]:
    """What each volume type and managed file system has prices of."""
    components: dict[str, tuple[str, ...]] = {}
    for volume in read_volumes({}).values():
        components[volume.name] = ("capacity",)
        components[volume.name] += ("iops",) if volume.provisions_iops else ()
        components[volume.name] += ("iops over 32000", "iops over 64000") if volume.name == "io2" else ()
        components[volume.name] += ("throughput",) if volume.provisions_throughput else ()
        components[volume.name] += ("vpu",) if volume.provider == "oci" else ()
    for deployment in read_managed({}).values():
        components[deployment.name] = tuple(f"{tier / MB:g}" for tier in deployment.tiers)
    for offer in managed_offers().values():
        components[offer.name] = priced_components(offer)
    return components
