"""Instance types: what one machine of the cloud has, in bytes, bytes per second and physical cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gridwright.catalog.facts import MeasuredRate, Source

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
