"""Instance types: what one machine of the cloud has, in bytes, bytes per second and physical cores.

Read from the packaged list with what was measured beside it, and from short lists of what else is known of a
type: volumes that can be attached, adapters, hypervisor, figures of other sources, and options of purchase.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, cast, get_args

from gridwright.catalog.facts import MeasuredRate, Source, optional, per, rows, source

Provider = Literal["aws", "oci"]
PROVIDERS: tuple[Provider, ...] = ("aws", "oci")
Architecture = Literal["x86_64", "arm64"]
Medium = Literal["ssd", "hdd"]
Operation = Literal["read", "write", "unstated"]


@dataclass(frozen=True, slots=True)
class Network:
    """What the instance's network passes, in each direction, over all of its cards together.

    `baseline_bytes_per_s` is what lasts, `peak_bytes_per_s` what a burst reaches. `measured` is a
    published steady rate, and `burst_s` a published length of the burst; None where no paper has
    one. `nics` is the number of network cards: one card alone passes its share only.
    `adapter_bytes_per_s` is what an Elastic Fabric Adapter passes, where that is another figure: file systems
    over TCP never see it, and `over_tcp` says who lists the baseline in its place.
    """

    baseline_bytes_per_s: float
    peak_bytes_per_s: float
    measured: MeasuredRate | None = None
    burst_s: float | None = None
    nics: int = 1
    adapter_bytes_per_s: float | None = None
    over_tcp: Source | None = None


@dataclass(frozen=True, slots=True)
class Ebs:
    """What the instance passes to and from its network volumes, reads and writes together.

    `dedicated` False: volume traffic shares the network cards with everything else, and the rates
    are the network's. `optional`: the dedicated path must be asked for when the instance starts,
    and may cost extra. The rates of operations are None where the provider lists none.
    """

    baseline_bytes_per_s: float
    maximum_bytes_per_s: float
    baseline_iops: float | None
    maximum_iops: float | None
    dedicated: bool
    optional: bool = False


@dataclass(frozen=True, slots=True)
class StoreMeasured:
    """A published rate of an instance's own disks; `per_core`: of one physical core's share."""

    operation: Operation
    bytes_per_s: float
    per_core: bool
    source: str


@dataclass(frozen=True, slots=True)
class InstanceStore:
    """The disks inside the machine: lost with the instance.

    The rates are of the whole store, all disks striped; None where no listed fact is known.
    `source` says whose facts the rates are. `measured` holds published rates, which are checks of
    predictions and never the source of the listed ones.
    """

    disks: int
    disk_bytes: int
    medium: Medium
    nvme: bool
    write_bytes_per_s: float | None = None
    read_bytes_per_s: float | None = None
    source: str | None = None
    measured: tuple[StoreMeasured, ...] = ()

    @property
    def total_bytes(self) -> int:
        """Capacity of all disks, in bytes."""
        return self.disks * self.disk_bytes


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One instance type (AWS) or shape (OCI).

    `cores` are physical; `vcpus` counts hardware threads as the provider sells them. `current`:
    the provider recommends it for new grids. `placement_bytes_per_s` is the network rate inside a
    cluster placement group where that differs from the baseline. `accelerators` counts GPUs,
    FPGAs and other accelerator devices. `burstable_cpu`: the cores run on credits.
    """

    name: str
    provider: Provider
    family: str
    cores: int
    vcpus: int
    memory_bytes: int
    architecture: Architecture
    network: Network
    ebs: Ebs | None
    instance_store: InstanceStore | None
    current: bool
    placement_bytes_per_s: float | None
    accelerators: int
    bare_metal: bool
    burstable_cpu: bool
    source: Source

    @property
    def network_bytes_per_s_per_core(self) -> float:
        """Listed network baseline for each physical core, in bytes per second."""
        return self.network.baseline_bytes_per_s / self.cores

    @property
    def memory_bytes_per_core(self) -> float:
        """Memory for each physical core, in bytes."""
        return self.memory_bytes / self.cores


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


ATTACHMENT_COLUMNS = ("name", "volumes", "shared", "source", "date")


@dataclass(frozen=True, slots=True)
class AttachmentLimit:
    """Most volumes of one instance, the one it starts from among them.

    `shared`: every network interface beyond the first takes the place of one volume. The first one, NVMe
    disks of an instance store and accelerators share the limit, too, and are taken off `volumes` already:
    an m5d.24xlarge with four disks has 28 places (Amazon EBS User Guide, volume limits), and EC2 lists 23.
    """

    volumes: int
    shared: bool
    source: Source


def free_attachments(name: str, interfaces: int = 0) -> int | None:
    """Return how many volumes `name` takes beside the one it starts from; None where no limit is known.

    `interfaces`: how many network interfaces it has beyond the first. An Elastic Fabric Adapter that is the
    first one takes no place of its own.
    """
    limit = attachment_limits().get(name)
    return None if limit is None else limit.volumes - 1 - (interfaces if limit.shared else 0)


@cache
def attachment_limits() -> dict[str, AttachmentLimit]:
    """Return the limit of each EC2 type, as EC2 lists it."""
    return {
        name: AttachmentLimit(int(volumes), shared == "1", source(text, date))
        for name, volumes, shared, text, date in rows("attachments.csv", ATTACHMENT_COLUMNS)
    }


EFA_COLUMNS = ("name", "source", "date")


@cache
def efa_types() -> frozenset[str]:
    """Names of the types that EC2 lists with an adapter."""
    return frozenset(name for name, _, _ in rows("efa-types.csv", EFA_COLUMNS))


XEN_COLUMNS = ("name", "source", "date")


@cache
def xen_types() -> frozenset[str]:
    """Names of the types that EC2 lists with the hypervisor Xen; all others are built on Nitro."""
    return frozenset(name for name, _, _ in rows("xen-types.csv", XEN_COLUMNS))


DISAGREEMENT_COLUMNS = ("name", "gbit_per_s", "source", "date")
TOLERANCE = 0.01
"""Two sources disagree when their figures differ by more than this part."""

PART = 0.9
"""The part of the disagreements that is used, as of the errors of predictions."""

_GBIT = 1e9 / 8


@dataclass(frozen=True, slots=True)
class OtherFigure:
    """What another source says of an instance's network, in bytes per second in each direction."""

    bytes_per_s: float
    source: Source


@cache
def networks_elsewhere() -> dict[str, OtherFigure]:
    """Return the figures that differ from those of the catalogue, by instance type."""
    return {
        name: OtherFigure(float(gbit) * _GBIT, source(text, date))
        for name, gbit, text, date in rows("network-elsewhere.csv", DISAGREEMENT_COLUMNS)
    }


def disagreement_factor(listed: Mapping[str, float]) -> float:
    """Return by which factor two sources differ at most on nine in ten of the types they differ on.

    `listed` has the catalogue's own figure of each type, in bytes per second. Either may be the larger.
    """
    factors = sorted(
        max(other.bytes_per_s / listed[name], listed[name] / other.bytes_per_s)
        for name, other in networks_elsewhere().items()
    )
    return factors[math.ceil(PART * len(factors)) - 1]


PurchaseOption = Literal["one-year", "one-year-upfront", "three-years", "three-years-upfront", "spot"]
PURCHASE_OPTIONS: tuple[PurchaseOption, ...] = get_args(PurchaseOption)
PURCHASE_COLUMNS = (
    "name",
    "one_year",
    "one_year_upfront",
    "three_years",
    "three_years_upfront",
    "spot",
    "spot_interrupted",
    "source",
    "date",
)


@dataclass(frozen=True, slots=True)
class PurchaseFactors:
    """Prices of one instance type by option, over its price on demand in the same list and region.

    Years are standard reserved instances, paid by the hour or all at the start (then spread over the term);
    `spot` is the mean over the zones of the region on one day. `spot_interrupted` says how often spot
    instances were taken away within a month, as AWS publishes it, such as `>20%`; empty where it does not.
    """

    factors: Mapping[PurchaseOption, float]
    spot_interrupted: str
    source: Source


@cache
def purchase_factors() -> dict[str, PurchaseFactors]:
    """Return the factors of each EC2 type that the list has them of."""
    found = {}
    for name, *figures, interrupted, text, date in rows("purchase.csv", PURCHASE_COLUMNS):
        factors = {
            option: factor
            for option, figure in zip(PURCHASE_OPTIONS, figures, strict=True)
            if (factor := optional(figure)) is not None
        }
        found[name] = PurchaseFactors(factors, interrupted, source(text, date))
    return found
