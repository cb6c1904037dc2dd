"""Reads the packaged instance types, with the published rates and the rates of local disks beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import cast

from gridwright.catalog.facts import MeasuredRate, Source
from gridwright.catalog.instances import (
    Architecture,
    Ebs,
    InstanceStore,
    InstanceType,
    Medium,
    Network,
    Operation,
    Provider,
    StoreMeasured,
)
from gridwright.catalog.tables import optional, per, rows, source

GBIT = 1e9 / 8
"""Bytes per second of one Gbit/s; networks are listed in decimal bits."""
MB = 1e6
GB = 10**9
"""Providers list the disks of an instance in decimal GB."""

INSTANCE_COLUMNS = (
    *("name", "provider", "family", "cores", "vcpus", "memory_bytes", "architecture"),
    *("network_gbit_per_s", "network_peak_gbit_per_s", "nics"),
    *("volumes", "volume_mb_per_s", "volume_peak_mb_per_s", "volume_iops", "volume_peak_iops"),
    *("store_disks", "store_disk_gb", "store_medium", "store_nvme"),
    *("current", "placement_gbit_per_s", "accelerators", "bare_metal", "burstable_cpu", "source", "date"),
)
MEASURED_COLUMNS = ("name", "quantity", "value", "unit", "burst_s", "fact")
STORE_COLUMNS = ("name", "operation", "value", "unit", "source", "date")
TCP_COLUMNS = ("family", "tcp_gbit_per_s", "source", "date")
BLOCK = 4096
"""Bytes of one operation in the providers' tables of local disks.

Large sequential blocks pass at least the bytes of saturated 4 KiB operations, so a listed rate of
operations times the block is a floor of the throughput.
"""


@dataclass(frozen=True, slots=True)
class Beside:
    """What other files know about instance types: by type, or by family for all of its types."""

    network: dict[str, MeasuredRate]
    burst_s: dict[str, float]
    store: dict[str, tuple[StoreMeasured, ...]]
    store_rates: dict[tuple[str, str], tuple[float, str]]
    tcp: dict[str, tuple[float, Source]] = field(default_factory=dict)
    """Gbit/s over TCP by family, where EC2 lists the adapter's rate, and who says so."""


class Instances(Mapping[str, InstanceType]):
    """Instance types by name, each made when it is first asked for: most commands need a few of 1500."""

    __slots__ = ("_beside", "_made", "_rows")

    def __init__(
        self, rows: Mapping[str, list[str]], beside: Beside, own: Mapping[str, InstanceType]
    ) -> None:
        self._rows = {**rows, **{name: [] for name in own}}
        self._beside = beside
        self._made = dict(own)

    def __getitem__(self, name: str) -> InstanceType:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = instance_from(self._rows[name], self._beside)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@cache
def read_instance_rows() -> Mapping[str, list[str]]:
    """Return the cells of all packaged instance types, by name."""
    return {row[0]: row for row in rows("instances.csv", INSTANCE_COLUMNS)}


@cache
def read_beside() -> Beside:
    """Return published rates, and listed rates of local disks."""
    beside = Beside({}, {}, {}, {})
    for name, quantity, value, unit, burst_s, fact in rows("measured.csv", MEASURED_COLUMNS):
        factor, divisor = per(unit)
        rate = float(value) * factor
        if quantity == "network":
            beside.network[name] = MeasuredRate(rate, fact)
            if burst_s:
                beside.burst_s[name] = float(burst_s)
        else:
            kind = cast("Operation", quantity.partition(" ")[2])
            measured = StoreMeasured(kind, rate, divisor == "core", fact)
            beside.store[name] = (*beside.store.get(name, ()), measured)
    for name, operation, value, unit, text, date in rows("store-rates.csv", STORE_COLUMNS):
        beside.store_rates[name, operation] = float(value) * BLOCK, f"{text} ({value} {unit}), {date}"
    for family, gbit, text, date in rows("tcp-bandwidth.csv", TCP_COLUMNS):
        beside.tcp[family] = float(gbit), source(text, date)
    return beside


def instance_from(cells: list[str], beside: Beside) -> InstanceType:
    """Return the instance type of one row of INSTANCE_COLUMNS; raises ValueError on a damaged one."""
    name, provider, family, cores, vcpus, memory, architecture, *row = cells
    base, peak, nics, volumes, *row = row
    adapter: float | None = None
    tcp = beside.tcp.get(family)
    if tcp is not None and tcp[0] < float(base):
        # EC2 lists the adapter's rate as if it were the network's.
        adapter, base = float(base) * GBIT, str(tcp[0])
        peak = base
    network = Network(
        float(base) * GBIT,
        float(peak) * GBIT,
        beside.network.get(name),
        beside.burst_s.get(name),
        int(nics),
        adapter,
        tcp[1] if adapter is not None and tcp is not None else None,
    )
    current, placement, accelerators, bare_metal, burstable, text, date = row[8:]
    return InstanceType(
        name=name,
        provider=cast("Provider", provider),
        family=family,
        cores=int(cores),
        vcpus=int(vcpus),
        memory_bytes=int(memory),
        architecture=cast("Architecture", architecture),
        network=network,
        ebs=_ebs(volumes, row[:4], network),
        instance_store=_store(name, family, row[4:8], beside) if row[4] else None,
        current=current == "1",
        placement_bytes_per_s=optional(placement, GBIT),
        accelerators=int(accelerators),
        bare_metal=bare_metal == "1",
        burstable_cpu=burstable == "1",
        source=source(text, date),
    )


def _ebs(volumes: str, cells: list[str], network: Network) -> Ebs | None:
    if not volumes:
        return None
    baseline, peak, iops, peak_iops = cells
    return Ebs(
        optional(baseline, MB) or network.baseline_bytes_per_s,
        optional(peak, MB) or network.peak_bytes_per_s,
        optional(iops),
        optional(peak_iops),
        dedicated=volumes != "shared",
        optional=volumes == "optional",
    )


def _store(name: str, family: str, cells: list[str], beside: Beside) -> InstanceStore:
    disks, disk_gb, medium, nvme = cells
    write = beside.store_rates.get((name, "write"))
    read = beside.store_rates.get((name, "read"))
    return InstanceStore(
        disks=int(disks),
        disk_bytes=round(float(disk_gb) * GB),
        medium=cast("Medium", medium),
        nvme=nvme == "1",
        write_bytes_per_s=write[0] if write else None,
        read_bytes_per_s=read[0] if read else None,
        source="; ".join(dict.fromkeys(rate[1] for rate in (write, read) if rate)) or None,
        measured=beside.store.get(name, ()) + beside.store.get(family, ()),
    )
