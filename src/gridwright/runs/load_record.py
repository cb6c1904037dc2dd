"""Declares what was measured of a node beside a test: its own load, that of others, and what disturbed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """Processes of one name and user that are not ours."""

    name: str
    user: str
    pid: int
    """Of the busiest of them."""
    cpu_s: float
    moved_bytes: int
    """Read from and written to devices; 0 where only root may know."""
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Pressure:
    """Part of the time in which some, or all, tasks waited for a resource (pressure stall information)."""

    some: float
    full: float


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """What a block device moved in bytes, and what of it was not ours."""

    device: str
    read_bytes: int
    written_bytes: int
    foreign_read_bytes: int
    foreign_written_bytes: int

    @property
    def moved_bytes(self) -> int:
        """Read and written by all."""
        return self.read_bytes + self.written_bytes

    @property
    def foreign_bytes(self) -> int:
        """Read and written by others."""
        return self.foreign_read_bytes + self.foreign_written_bytes


@dataclass(frozen=True, slots=True)
class Throttling:
    """How often a control group that we are in reached its CPU limit."""

    group: str
    periods: int
    throttled: int
    seconds: float


@dataclass(frozen=True, slots=True)
class OtherRun:
    """Another run of Gridwright that works on the same file system."""

    run: str
    host: str
    user: str
    what: str
    """iotest or workload."""


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What happened on a node within some seconds; CPU times in seconds, over the CPUs that we may use."""

    seconds: float
    cpus: int
    busy_s: float
    own_s: float
    foreign_s: float
    kernel_s: float
    """Of kernel threads, which work for everybody."""
    steal_s: float
    memory_bytes: int
    foreign_memory_bytes: int
    machine: str
    """Names the machine: nodes in containers of one machine share its CPUs."""
    sees_all: bool
    """Whether all processes of the machine can be seen: not from within a container."""
    sees_traffic: bool
    """Whether what other processes move can be read: by root."""
    pressure: Mapping[str, Pressure] = field(default_factory=dict)
    throttling: Throttling | None = None
    devices: list[DeviceLoad] = field(default_factory=list)
    processes: list[ForeignProcess] = field(default_factory=list)
    """The busiest that are not ours."""
    runs: list[OtherRun] = field(default_factory=list)
    unseen_runs: str | None = None
    """Why there may have been more of them; null where all were seen."""

    @property
    def cpu_s(self) -> float:
        """CPU time that there was."""
        return self.cpus * self.seconds

    @property
    def unseen_s(self) -> float:
        """CPU time of no process that can be seen."""
        return max(0.0, self.busy_s - self.own_s - self.foreign_s - self.kernel_s)


InterferenceKind = Literal["cpu", "steal", "throttling", "traffic", "memory", "run"]


@dataclass(frozen=True, slots=True)
class Interference:
    """A user of more of a node than a proof can bear, a noisy neighbour; shares and limits from 0 to 1."""

    kind: InterferenceKind
    name: str
    """Of the process, the control group or the other run; `hypervisor` for steal."""
    user: str | None
    share: float | None
    """Null for another run, of which there may be none."""
    limit: float | None
    text: str
    node: str | None = None
    """Null where one node was tested."""
