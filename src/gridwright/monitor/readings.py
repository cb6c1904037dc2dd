"""What is read of a node at one time, each with the time of its own source, and rates between two readings.

Counters may restart, wrap, or be read by clocks that step. No figure is better than a wrong one: a counter
that fell, that began anew, or whose clock did not go on has no rate between these two readings, and has one
again between the next two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.filesystems.counters import Reading

__all__ = ["LABELS", "Labels", "MountedPlace", "NodeSamples", "Reading", "Request", "Snapshot"]

Labels = Sequence[str]
"""Values that tell readings of one metric apart, such as the name of a device; LABELS names them."""

LABELS: Mapping[str, tuple[str, ...]] = {
    "node_cpu_seconds_total": ("mode",),
    "node_load1": (),
    "node_boot_time_seconds": (),
    "node_memory_MemTotal_bytes": (),
    "node_memory_MemAvailable_bytes": (),
    "node_memory_Dirty_bytes": (),
    "node_pressure_cpu_waiting_seconds_total": (),
    "node_pressure_io_waiting_seconds_total": (),
    "node_pressure_io_stalled_seconds_total": (),
    "node_pressure_memory_waiting_seconds_total": (),
    "node_pressure_memory_stalled_seconds_total": (),
    "node_network_receive_bytes_total": ("device",),
    "node_network_transmit_bytes_total": ("device",),
    "node_network_speed_bytes": ("device",),
    "gridwright_network_limit_bytes": ("device",),
    "gridwright_network_held_back_packets_total": ("device", "allowance"),
    "node_disk_read_bytes_total": ("device",),
    "node_disk_written_bytes_total": ("device",),
    "node_disk_reads_completed_total": ("device",),
    "node_disk_writes_completed_total": ("device",),
    "node_disk_io_time_seconds_total": ("device",),
    "node_disk_io_time_weighted_seconds_total": ("device",),
    "gridwright_disk_rotational": ("device",),
    "node_filesystem_size_bytes": ("mountpoint", "fstype", "device"),
    "node_filesystem_avail_bytes": ("mountpoint", "fstype", "device"),
    "gridwright_mount_read_bytes_total": ("mountpoint", "target"),
    "gridwright_mount_written_bytes_total": ("mountpoint", "target"),
    "gridwright_mount_reads_total": ("mountpoint", "target"),
    "gridwright_mount_writes_total": ("mountpoint", "target"),
    "gridwright_mount_waited_seconds_total": ("mountpoint", "target"),
    "lustre_read_bytes_total": ("component", "operation", "target"),
    "lustre_write_bytes_total": ("component", "operation", "target"),
    "lustre_read_samples_total": ("component", "operation", "target"),
    "lustre_write_samples_total": ("component", "operation", "target"),
    "lustre_stats_total": ("component", "operation", "target"),
    "lustre_oss_ost_stats_total": ("operation", "units"),
    "lustre_pages_per_bulk_rw_total": ("component", "operation", "size", "target"),
    "lustre_disk_io_total": ("component", "operation", "size", "target"),
    "lustre_io_time_milliseconds_total": ("component", "operation", "size", "target"),
    "lustre_available_kilobytes": ("component", "target"),
    "lustre_free_kilobytes": ("component", "target"),
    "lustre_capacity_kilobytes": ("component", "target"),
    "lustre_inodes_free": ("component", "target"),
    "lustre_inodes_maximum": ("component", "target"),
    "lustre_exports": ("component", "target"),
    "lustre_lock_count": ("component", "target"),
    "gridwright_lock_grants_total": ("component", "target"),
    "gridwright_lock_cancels_total": ("component", "target"),
    "recovery_status": ("kind", "target"),
    "recovery_status_connected_clients": ("kind", "target"),
    "recovery_status_completed_clients": ("kind", "target"),
    "recovery_status_evicted_clients": ("kind", "target"),
    "gridwright_recovery_expected_clients": ("kind", "target"),
    "gridwright_recovery_seconds_left": ("kind", "target"),
    "lustre_health_healthy": (),
    "gridwright_connection_state": ("connection", "target", "state"),
    "lustre_job_read_bytes_total": ("component", "operation", "target", "jobid"),
    "lustre_job_write_bytes_total": ("component", "operation", "target", "jobid"),
    "lustre_job_read_samples_total": ("component", "operation", "target", "jobid"),
    "lustre_job_write_samples_total": ("component", "operation", "target", "jobid"),
    "gridwright_target_job_operations_total": ("component", "target", "jobid"),
    "gridwright_served_job_read_bytes_total": ("component", "filesystem", "jobid"),
    "gridwright_served_job_written_bytes_total": ("component", "filesystem", "jobid"),
    "gridwright_served_job_reads_total": ("component", "filesystem", "jobid"),
    "gridwright_served_job_writes_total": ("component", "filesystem", "jobid"),
    "gridwright_served_job_operations_total": ("component", "filesystem", "jobid"),
    "gridwright_unfollowed_jobs": (),
    "gridwright_job_cpu_seconds_total": ("job",),
    "gridwright_job_waiting_seconds_total": ("job", "how"),
    "gridwright_job_open_files": ("job", "directory"),
    "gridwright_job_read_bytes_total": ("job",),
    "gridwright_job_written_bytes_total": ("job",),
    "gridwright_job_resident_bytes": ("job",),
    "gridwright_job_processes": ("job",),
    "gridwright_sampler_cpu_seconds_total": (),
    "gridwright_job_user": ("job", "user"),
    "gridwright_user_cpu_seconds_total": ("user",),
    "gridwright_user_read_bytes_total": ("user",),
    "gridwright_user_written_bytes_total": ("user",),
    "gridwright_user_jobs": ("user",),
    "gridwright_sees_all_processes": (),
    "gridwright_others_cpu_seconds_total": (),
    "gridwright_others_read_bytes_total": (),
    "gridwright_others_written_bytes_total": (),
    "gridwright_process_moved_bytes_total": ("process", "user"),
    "gridwright_process_cpu_seconds_total": ("process", "user"),
    "gridwright_group_io_limit_bytes": ("group", "device", "direction"),
    "gridwright_group_io_limit_requests": ("group", "device", "direction"),
    "gridwright_group_io_bytes_total": ("group", "device", "direction"),
    "gridwright_group_io_requests_total": ("group", "device", "direction"),
    "gridwright_group_periods_total": ("group",),
    "gridwright_group_throttled_periods_total": ("group",),
    "gridwright_group_throttled_seconds_total": ("group",),
}
"""Metrics, and the names of their labels. Those of node-exporter mean what they mean there, but that
`node_cpu_seconds_total` is the sum over all CPUs. Those of lustrefs-exporter (`lustre_` and `recovery_`) mean
what they mean there; `lustre_exports` and `lustre_lock_count` end in `_total` there, although they fall."""


@dataclass(frozen=True, slots=True)
class MountedPlace:
    """What a directory of a library lies on, as the mount table says it; empty where nothing is known."""

    mount_point: str = ""
    kernel_type: str = ""
    device: str = ""
    """The disk, such as `nvme0n1`; empty for what servers serve."""
    disks: tuple[str, ...] = ()
    """The disk and those below it: members of a RAID, and the disk that holds the file of a loop device."""
    superblock: str = ""
    """What the kernel counts by, such as `0:52`: what is mounted at two points may be one."""

    @property
    def counted_as(self) -> str:
        """The same for bind mounts, and NFS mounts of one file system: a client counts them as one."""
        return self.mount_point if self.device else self.superblock or self.mount_point


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that was read of a node at one time."""

    node: str
    machine: str
    """The boot id: nodes of one machine have the same kernel, and so the same counters."""
    time: float
    """In seconds since 1970, by the node's clock, which may be set meanwhile."""
    at_s: float
    """By a clock of the node that is never set."""
    cpus: int
    cores: int
    """Physical cores of the machine, and logical CPUs."""
    readings: tuple[Reading, ...]
    earlier: tuple[Reading, ...] = field(default=(), kw_only=True)
    """Of sources that are read less often than samples are taken: what they had told before `readings`."""
    silent: dict[str, str] = field(default_factory=dict)
    """What could not be read, and why; a mount is named by its mount point."""
    places: dict[str, MountedPlace] = field(default_factory=dict)
    """By the path of the directory that was asked for."""
    cost_s: float = 0.0
    """CPU time of the sampler since the snapshot before, of the first one since its start."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a sampler is asked for."""

    interval_s: float = 1.0
    samples: int = 2
    """0: until its input ends."""
    directories: tuple[str, ...] = ()
    """Paths of libraries."""


@dataclass(frozen=True, slots=True)
class NodeSamples:
    """Two snapshots of a node, or why there are none."""

    node: str
    before: Snapshot | None = None
    after: Snapshot | None = None
    absent: str = ""
    last_known: Snapshot | None = None
    """Of a node that is away: what it said last, where it is remembered."""


Key = tuple[str, ...]
"""The metric, and the values of its labels."""
_BESIDE = {
    "gridwright_process_moved_bytes_total": "gridwright_others_read_bytes_total",
    "gridwright_process_cpu_seconds_total": "gridwright_others_cpu_seconds_total",
    "gridwright_job_cpu_seconds_total": "node_cpu_seconds_total",
    "gridwright_job_read_bytes_total": "node_cpu_seconds_total",
    "gridwright_job_written_bytes_total": "node_cpu_seconds_total",
}
"""Metrics that may have no series at all, and one that is read at the same time."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What two snapshots of a node tell together."""

    rates: Mapping[Key, float]
    """Counters, per second of their own source's clock."""
    gauges: Mapping[Key, float]
    """As they were read last."""
    known: frozenset[Key]
    """All that was read last, with a rate or without."""
    earlier: Mapping[Key, float] = field(default_factory=dict)
    """Gauges as they were read before that, where that is known."""
    _series: dict[str, list[Key]] = field(default_factory=dict, compare=False)
    """Labels by metric, once they were asked for."""

    def rate(self, metric: str, *labels: str) -> float | None:
        """The rate of a counter; None where there is none."""
        return self.rates.get((metric, *labels))

    def gauge(self, metric: str, *labels: str) -> float | None:
        """A gauge; None where it was not read."""
        return self.gauges.get((metric, *labels))

    def labels(self, metric: str) -> list[Key]:
        """The labels that a metric was read with last, in order."""
        if not self._series:
            for key in sorted(self.known):
                self._series.setdefault(key[0], []).append(key[1:])
        return self._series.get(metric, [])


def figures(before: Snapshot, after: Snapshot) -> Figures:
    """Rates and gauges of a node; of another boot, counters have no rates."""
    same = before.machine == after.machine
    found = rates(before.readings, after.readings) if same else {}
    # What is read less often has the rate of its own last two readings, until it is read again.
    found |= {key: rate for key, rate in rates(after.earlier, after.readings).items() if key not in found}
    return Figures(
        rates=found,
        gauges={reading.key: reading.value for reading in after.readings if not reading.is_counter},
        known=frozenset(reading.key for reading in after.readings),
        earlier={reading.key: reading.value for reading in before.readings if not reading.is_counter}
        if same
        else {},
    )


def rates(before: Iterable[Reading], after: Iterable[Reading]) -> dict[Key, float]:
    """The rate of each counter of which one can be told.

    That is of those that both have, and of those that began at zero since others of their metric were read.
    """
    earlier = {reading.key: reading for reading in before if reading.is_counter}
    last = read_at(earlier.values())
    found = {}
    for new in after:
        old = earlier.get(new.key) or begun_at_zero(new, last)
        rate = None if old is None else rate_between(old, new)
        if rate is not None:
            found[new.key] = rate
    return found


def read_at(readings: Iterable[Reading]) -> dict[str, float]:
    """When the counters of each metric were read last."""
    last: dict[str, float] = {}
    for reading in readings:
        if reading.is_counter:
            last[reading.metric] = max(reading.at_s, last.get(reading.metric, reading.at_s))
    return last


def begun_at_zero(new: Reading, read: Mapping[str, float]) -> Reading | None:
    """What a counter was when others of its metric were read last, if it began after that."""
    last = read.get(new.metric, read.get(_BESIDE.get(new.metric, "")))
    if not new.is_counter or new.since_s is None or last is None or new.since_s < last:
        return None
    return Reading(new.metric, new.labels, 0.0, last, new.since_s)


def rate_between(old: Reading, new: Reading) -> float | None:
    """Per second; None where the counter began anew or fell meanwhile, or no time passed by its clock."""
    span, moved = new.at_s - old.at_s, new.value - old.value
    if old.since_s != new.since_s or not span > 0 or not moved >= 0:
        return None
    rate = moved / span
    return rate if math.isfinite(rate) else None
