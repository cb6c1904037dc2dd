"""What is read of a node at one time: readings, each with the time of its own source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
