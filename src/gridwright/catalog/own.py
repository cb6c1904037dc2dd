"""The user's own catalogue beside the grid spec: `catalog.yaml` with prices and private types.

What it says goes before everything else: before the packaged facts, and before the `catalog.csv`
that `gridwright catalog refresh` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from gridwright.catalog.facts import Source
from gridwright.catalog.instances import (
    PROVIDERS,
    Architecture,
    Ebs,
    InstanceStore,
    InstanceType,
    Medium,
    Network,
    Provider,
)
from gridwright.catalog.prices import Price
from gridwright.catalog.yaml_values import Reader, amount, count, flag, name, one_of, rate, size
from gridwright.errors import GridwrightError, nearest

_TYPE_FIELDS = (
    *("provider", "family", "cores", "vcpus", "memory", "architecture", "current"),
    *("network", "network_peak", "nics", "volumes", "instance_store"),
)
_VOLUMES_FIELDS = ("rate", "peak", "iops", "peak_iops", "shared")
_STORE_FIELDS = ("disks", "disk_size", "medium", "nvme", "write", "read")
_NEEDED = ("provider", "cores", "memory", "network")


@dataclass(slots=True)
class Own:
    """What the user's file says; prices in USD, storage prices by item, region and component.

    Prices of services are by region and item.
    """

    instances: dict[str, InstanceType] = field(default_factory=dict)
    instance_prices: dict[str, dict[str, Price]] = field(default_factory=dict)
    storage_prices: dict[str, dict[str, dict[str, Price]]] = field(default_factory=dict)
    service_prices: dict[str, dict[str, Price]] = field(default_factory=dict)


def read_own(
    path: Path,
    listed: Mapping[str, InstanceType],
    components: Mapping[str, Iterable[str]],
    services: Iterable[str] = (),
) -> Own:
    """Read the user's file.

    `listed` are the instance types known so far, `components` what each volume type and managed
    file system has prices of, `services` the names of what else is priced. Raises GridwrightError
    with every problem, each with its line.
    """
    reader = Reader(path)
    root = reader.root()
    own = Own()
    if root is not None:
        parts = reader.mapping(root, "", ("source", "date", "prices", "instances"))
        said = _source(reader, parts, path)
        if node := parts.get("instances"):
            _read_types(reader, node, listed, said, own)
        if node := parts.get("prices"):
            prices = reader.mapping(node, "prices", ("instances", "storage", "services"))
            if each := prices.get("instances"):
                _read_instance_prices(reader, each, {**listed, **own.instances}, said, own)
            if each := prices.get("storage"):
                _read_storage_prices(reader, each, components, said, own)
            if each := prices.get("services"):
                _read_service_prices(reader, each, tuple(services), said, own)
    if reader.problems:
        raise GridwrightError(*reader.problems)
    return own


def _source(reader: Reader, parts: Mapping[str, Any], path: Path) -> Source:
    text, date = parts.get("source"), parts.get("date")
    return Source(
        (reader.scalar(text, "source", name, "a short text") if text else None) or str(path),
        (reader.scalar(date, "date", name, "a date") if date else None) or "the user's own",
    )


def _known(reader: Reader, key: str, names: Iterable[str], kind: str, node: Any, path: str) -> bool:  # noqa: ANN401
    known = tuple(names)
    if key in known:
        return True
    close = nearest(key, known)
    remedy = f"The nearest is {close}." if close else f"Known are {', '.join(known[:20])}."
    reader.report(node.start_mark, f"no {kind} is called {key[:64]!r}", remedy, path)
    return False


def _read_instance_prices(
    reader: Reader,
    node: Any,  # noqa: ANN401
    types: Mapping[str, InstanceType],
    said: Source,
    own: Own,
) -> None:
    for region, of_region in reader.mapping(node, "prices.instances").items():
        path = f"prices.instances.{region}"
        for each, price in reader.mapping(of_region, path).items():
            usd = reader.scalar(price, f"{path}.{each}", amount, "a price in USD per hour")
            if _known(reader, each, types, "instance type", price, f"{path}.{each}") and usd is not None:
                own.instance_prices.setdefault(region, {})[each] = Price(usd, said)


def _read_storage_prices(
    reader: Reader,
    node: Any,  # noqa: ANN401
    components: Mapping[str, Iterable[str]],
    said: Source,
    own: Own,
) -> None:
    for region, of_region in reader.mapping(node, "prices.storage").items():
        for item, prices in reader.mapping(of_region, f"prices.storage.{region}").items():
            path = f"prices.storage.{region}.{item}"
            if not _known(reader, item, components, "volume type or file system", prices, path):
                continue
            for component, price in reader.mapping(prices, path, components[item]).items():
                usd = reader.scalar(price, f"{path}.{component}", amount, "a price in USD per month")
                if usd is not None:
                    by_region = own.storage_prices.setdefault(item, {})
                    by_region.setdefault(region, {})[component] = Price(usd, said)


def _read_service_prices(
    reader: Reader,
    node: Any,  # noqa: ANN401
    services: tuple[str, ...],
    said: Source,
    own: Own,
) -> None:
    for region, of_region in reader.mapping(node, "prices.services").items():
        path = f"prices.services.{region}"
        for item, price in reader.mapping(of_region, path, services).items():
            usd = reader.scalar(price, f"{path}.{item}", amount, "a price in USD")
            if usd is not None:
                own.service_prices.setdefault(region, {})[item] = Price(usd, said)


@dataclass(slots=True)
class _Fields:
    """The fields of one mapping, each read on demand."""

    reader: Reader
    path: str
    nodes: dict[str, Any]

    def get(self, key: str, read: Callable[[str], Any], wanted: str, default: Any = None) -> Any:  # noqa: ANN401
        if key not in self.nodes:
            return default
        found = self.reader.scalar(self.nodes[key], f"{self.path}.{key}", read, wanted)
        return default if found is None else found

    def below(self, key: str, allowed: tuple[str, ...]) -> _Fields | None:
        if key not in self.nodes:
            return None
        path = f"{self.path}.{key}"
        return _Fields(self.reader, path, self.reader.mapping(self.nodes[key], path, allowed))


def _read_types(
    reader: Reader,
    node: Any,  # noqa: ANN401
    listed: Mapping[str, InstanceType],
    said: Source,
    own: Own,
) -> None:
    for each, description in reader.mapping(node, "instances").items():
        path = f"instances.{each}"
        fields = _Fields(reader, path, reader.mapping(description, path, _TYPE_FIELDS))
        missing = [need for need in _NEEDED if need not in fields.nodes]
        before = len(reader.problems)
        if each not in listed and missing:
            what = f"the private type {each[:64]} lacks {', '.join(missing)}"
            reader.report(description.start_mark, what, "Add what it lacks; see docs/catalogue.md.", path)
        made = _type(fields, each, listed.get(each), said)
        if len(reader.problems) == before:
            own.instances[each] = made


def _type(fields: _Fields, each: str, base: InstanceType | None, said: Source) -> InstanceType:
    """The type as described; what is not, from the listed one of that name."""
    cores = fields.get("cores", count, "a whole number from 1", base.cores if base else 1)
    network = _network(fields, base)
    return InstanceType(
        name=each,
        provider=cast(
            "Provider",
            fields.get("provider", one_of(*PROVIDERS), "aws or oci", base.provider if base else "aws"),
        ),
        family=fields.get("family", name, "a name", base.family if base else each.partition(".")[0]),
        cores=cores,
        vcpus=fields.get("vcpus", count, "a whole number from 1", base.vcpus if base else 2 * cores),
        memory_bytes=fields.get("memory", size, "a size, such as 256 GiB", base.memory_bytes if base else 1),
        architecture=cast(
            "Architecture",
            fields.get(
                "architecture",
                one_of("x86_64", "arm64"),
                "x86_64 or arm64",
                base.architecture if base else "x86_64",
            ),
        ),
        network=network,
        ebs=_volumes(fields.below("volumes", _VOLUMES_FIELDS), base, network),
        instance_store=_store(fields.below("instance_store", _STORE_FIELDS), base, said),
        current=fields.get("current", flag, "true or false", base.current if base else True),
        placement_bytes_per_s=base.placement_bytes_per_s if base else None,
        accelerators=base.accelerators if base else 0,
        bare_metal=base.bare_metal if base else False,
        burstable_cpu=base.burstable_cpu if base else False,
        source=said,
    )


def _network(fields: _Fields, base: InstanceType | None) -> Network:
    old = base.network if base else None
    steady = fields.get(
        "network", rate, "a rate, such as 1250 MB/s", old.baseline_bytes_per_s if old else 1.0
    )
    peak = fields.get("network_peak", rate, "a rate", old.peak_bytes_per_s if old else steady)
    nics = fields.get("nics", count, "a whole number from 1", old.nics if old else 1)
    peak = max(peak, steady)
    if old is None:
        return Network(steady, peak, nics=nics)
    return replace(old, baseline_bytes_per_s=steady, peak_bytes_per_s=peak, nics=nics)


def _volumes(fields: _Fields | None, base: InstanceType | None, network: Network) -> Ebs | None:
    if fields is None:
        return base.ebs if base else None
    shared = fields.get("shared", flag, "true or false", False)
    steady = fields.get("rate", rate, "a rate, such as 850 MB/s", network.baseline_bytes_per_s)
    iops = fields.get("iops", amount, "a number")
    return Ebs(
        baseline_bytes_per_s=steady,
        maximum_bytes_per_s=max(steady, fields.get("peak", rate, "a rate", steady)),
        baseline_iops=iops,
        maximum_iops=fields.get("peak_iops", amount, "a number", iops),
        dedicated=not shared,
    )


def _store(fields: _Fields | None, base: InstanceType | None, said: Source) -> InstanceStore | None:
    if fields is None:
        return base.instance_store if base else None
    old = base.instance_store if base else None
    if old is None and not {"disks", "disk_size"} <= set(fields.nodes):
        mark = next((node.start_mark for node in fields.nodes.values()), None)
        fields.reader.report(mark, f"{fields.path} lacks disks or disk_size", "Add them.", fields.path)
    write = fields.get(
        "write", rate, "a rate of all disks, such as 2 GB/s", old.write_bytes_per_s if old else None
    )
    read = fields.get(
        "read", rate, "a rate of all disks, such as 2 GB/s", old.read_bytes_per_s if old else None
    )
    return InstanceStore(
        disks=fields.get("disks", count, "a whole number from 1", old.disks if old else 1),
        disk_bytes=fields.get("disk_size", size, "a size, such as 900 GB", old.disk_bytes if old else 1),
        medium=cast(
            "Medium", fields.get("medium", one_of("ssd", "hdd"), "ssd or hdd", old.medium if old else "ssd")
        ),
        nvme=fields.get("nvme", flag, "true or false", old.nvme if old else True),
        write_bytes_per_s=write,
        read_bytes_per_s=read,
        source=str(said) if {"write", "read"} & set(fields.nodes) else old.source if old else None,
        measured=old.measured if old else (),
    )
