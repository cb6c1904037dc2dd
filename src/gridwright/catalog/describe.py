"""Describes one thing in the catalogue: every fact in words, with its source, as `catalog show` prints it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gridwright.catalog.instances import (
    Ebs,
    InstanceStore,
    InstanceType,
    Network,
    attachment_limits,
    networks_elsewhere,
)
from gridwright.catalog.managed import MB, ManagedDeployment, ManagedOffer
from gridwright.catalog.prices import Price, ServicePrices, StoragePrices
from gridwright.catalog.volumes import VolumeType

PAPERS = "published measurement"


_PRICE_UNITS = {
    "iops": "USD per operation/s and month",
    "throughput": "USD per MiB/s and month",
    "vpu": "USD per VPU, GiB and month",
    "performance": "USD per performance unit, GiB and month",
    "read": "USD per GiB read",
    "write": "USD per GiB written",
}


@dataclass(frozen=True, slots=True)
class FactLine:
    """One fact: its value in `unit` (bytes, bytes/s, s, USD/h and the like), who says so, and when."""

    fact: str
    value: float | int | str | bool
    unit: str
    source: str
    date: str


def describe_instance(instance: InstanceType) -> list[FactLine]:
    """Return every listed and measured fact of an instance type; prices are not among them."""
    said = instance.source
    values: list[tuple[str, float | int | str | bool | None, str]] = [
        ("physical cores", instance.cores, ""),
        ("hardware threads (vCPU)", instance.vcpus, ""),
        ("memory", instance.memory_bytes, "bytes"),
        ("memory per core", instance.memory_bytes_per_core, "bytes"),
        ("architecture", instance.architecture, ""),
        *_network(instance.network),
        ("network in a placement group", instance.placement_bytes_per_s, "bytes/s"),
        ("network baseline per core", instance.network_bytes_per_s_per_core, "bytes/s"),
        *_volumes(instance.ebs),
        *_disks(instance.instance_store),
        ("accelerators", instance.accelerators or None, ""),
        ("bare metal", instance.bare_metal or None, ""),
        ("CPU on credits", instance.burstable_cpu or None, ""),
        ("recommended for new grids", instance.current, ""),
    ]
    lines = [
        FactLine(fact, value, unit, said.text, said.date) for fact, value, unit in values if value is not None
    ]
    if tcp := instance.network.over_tcp:
        over_tcp = ("network baseline, each direction", "network baseline per core")
        lines = [
            replace(line, source=tcp.text, date=tcp.date) if line.fact in over_tcp else line for line in lines
        ]
    return [
        *lines,
        *_elsewhere(instance.name),
        *_measured(instance),
        *_store_rates(instance.instance_store),
    ]


def _elsewhere(name: str) -> Iterator[FactLine]:
    """What other sources say, and how many volumes can be attached."""
    if other := networks_elsewhere().get(name):
        said = other.source
        yield FactLine(
            "network, each direction, by another source", other.bytes_per_s, "bytes/s", said.text, said.date
        )
    if limit := attachment_limits().get(name):
        what = "volumes, network interfaces among them" if limit.shared else "volumes"
        yield FactLine(f"most {what}", limit.volumes, "", limit.source.text, limit.source.date)


def _network(network: Network) -> Iterator[tuple[str, float | int | None, str]]:
    yield "network baseline, each direction", network.baseline_bytes_per_s, "bytes/s"
    if network.peak_bytes_per_s > network.baseline_bytes_per_s:
        yield "network peak, each direction", network.peak_bytes_per_s, "bytes/s"
    if network.adapter_bytes_per_s is not None:
        yield "Elastic Fabric Adapter, each direction", network.adapter_bytes_per_s, "bytes/s"
    yield "network cards", network.nics, ""


def _volumes(ebs: Ebs | None) -> Iterator[tuple[str, float | int | str | None, str]]:
    if ebs is None:
        yield "volumes", "no rate is listed", ""
        return
    way = "dedicated" if ebs.dedicated else "shared with the network"
    yield "way to volumes", f"{way}, to be asked for" if ebs.optional else way, ""
    yield "volumes baseline", ebs.baseline_bytes_per_s, "bytes/s"
    yield "volumes maximum", ebs.maximum_bytes_per_s, "bytes/s"
    yield "volumes baseline operations", ebs.baseline_iops, "1/s"
    yield "volumes maximum operations", ebs.maximum_iops, "1/s"


def _disks(store: InstanceStore | None) -> Iterator[tuple[str, float | int | str | None, str]]:
    if store:
        kind = f"{'NVMe ' if store.nvme else ''}{store.medium.upper()}"
        yield "own disks", store.disks, kind
        yield "size of each disk", store.disk_bytes, "bytes"


def _measured(instance: InstanceType) -> Iterator[FactLine]:
    network, store = instance.network, instance.instance_store
    if network.measured:
        said = network.measured
        yield FactLine("network, measured steady rate", said.bytes_per_s, "bytes/s", said.source, PAPERS)
    if network.burst_s is not None and network.measured:
        yield FactLine(
            "network, measured length of a burst", network.burst_s, "s", network.measured.source, PAPERS
        )
    for each in store.measured if store else ():
        of = "of each core" if each.per_core else "of all disks"
        yield FactLine(
            f"own disks, measured {each.operation} {of}", each.bytes_per_s, "bytes/s", each.source, PAPERS
        )


def _store_rates(store: InstanceStore | None) -> Iterator[FactLine]:
    if store is None:
        return
    text, _, date = (store.source or "").rpartition(", ")
    for operation, rate in (("write", store.write_bytes_per_s), ("read", store.read_bytes_per_s)):
        if rate is not None:
            yield FactLine(f"own disks, all striped: {operation}", rate, "bytes/s", text, date)
        else:
            yield FactLine(f"own disks, all striped: {operation}", "no rate is known", "", "", "")


def describe_volume(volume: VolumeType) -> list[FactLine]:
    """Return every listed fact of a volume type, and its known prices."""
    lines = [
        FactLine(name.replace("_", " "), fact.value, fact.unit, fact.source.text, fact.source.date)
        for name, fact in volume.facts.items()
    ]
    return [*lines, *_prices(volume.prices)]


def describe_managed(deployment: ManagedDeployment) -> list[FactLine]:
    """Return every listed fact of a managed file system, and its known prices."""
    said = deployment.by_tier[deployment.tiers[0]].source
    values: list[tuple[str, int | bool]] = [
        ("smallest capacity", deployment.smallest_bytes),
        ("next capacity", deployment.next_bytes),
        ("then in steps of", deployment.increment_bytes),
    ]
    lines = [FactLine(fact, value, "bytes", said.text, said.date) for fact, value in values]
    lines.append(FactLine("data survive the loss of a server", deployment.durable, "", said.text, said.date))
    for rate, tier in deployment.by_tier.items():
        for fact, value in (
            ("steady", tier.disk),
            ("steady, writes", tier.disk_write),
            ("burst of the disks", tier.disk_burst),
            ("network of the servers", tier.network),
            ("burst of that network", tier.network_burst),
        ):
            if value is not None:
                name = f"tier {rate / MB:g}: {fact}"
                lines.append(FactLine(name, value, "bytes/s per TiB", tier.source.text, tier.source.date))
    lines += [
        FactLine(
            f"limit: {name.replace('_', ' ')}", fact.value, fact.unit, fact.source.text, fact.source.date
        )
        for name, fact in deployment.limits.items()
    ]
    return [*lines, *_prices(deployment.prices)]


def describe_offer(offer: ManagedOffer, prices: StoragePrices) -> list[FactLine]:
    """Return every published fact of a managed offer, and its known prices."""
    lines = [
        FactLine(name.replace("_", " "), fact.value, fact.unit, fact.source.text, fact.source.date)
        for name, fact in offer.facts.items()
    ]
    return [*lines, *_prices(prices)]


def describe_service(services: ServicePrices, item: str) -> list[FactLine]:
    """Return the known prices of what a cloud asks for beside machines and storage."""
    unit = services.units[item].replace("USD/IOPS-month", _PRICE_UNITS["iops"])
    return [
        price_line(f"price in {region}", price, unit)
        for region, price in sorted(services.by_item[item].items())
    ]


def _prices(prices: StoragePrices) -> Iterator[FactLine]:
    for region, components in sorted(prices.by_region.items()):
        for component, price in components.items():
            where = f" in {region}" if region else ""
            unit = _PRICE_UNITS.get(component.partition(" ")[0], "USD per GiB and month")
            yield price_line(f"price of {component}{where}", price, unit)


def price_line(fact: str, price: Price, unit: str) -> FactLine:
    """Return a price as a fact."""
    return FactLine(fact, price.usd, unit, price.source.text, price.source.date)
