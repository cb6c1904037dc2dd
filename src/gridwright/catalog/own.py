"""The user's own catalogue beside the grid spec: `catalog.yaml` with prices and private types.

What it says goes before everything else: before the packaged facts, and before the `catalog.csv`
that `gridwright catalog refresh` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gridwright.catalog.facts import Source
from gridwright.catalog.instances import Ebs, InstanceStore, InstanceType, Network
from gridwright.catalog.own_file import CATALOG_YAML, KnownNames, OwnCatalog, OwnStore, OwnType, OwnVolumes
from gridwright.catalog.prices import Price
from gridwright.units import Rate
from gridwright.yamltext.load import parse, read_file


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
            name: _type(name, each, known.instances.get(name), said) for name, each in file.instances.items()
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
        group: {name: Price(each, said) for name, each in prices.items()} for group, prices in usd.items()
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
