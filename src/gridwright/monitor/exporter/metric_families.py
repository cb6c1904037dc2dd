"""Families of OpenMetrics: the names under which readings leave the house, and series of them as text (pure).

The node's own readings have the names of node-exporter with `gridwright_` before them, so that no query that
was written for one of them counts what the other one tells a second time; and they differ here and there.
Those of servers of Lustre have the names of lustrefs-exporter, which is not run beside this one. What
readings mean is a sentence each, as HELP tells it.

Text is OpenMetrics 1.0, or Prometheus' text format 0.0.4, as their specifications have them:
https://prometheus.io/docs/specs/om/open_metrics_spec/ and
https://prometheus.io/docs/instrumenting/exposition_formats/. Written as it is read, in pieces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gridwright.monitor.readings import LABELS

MEANINGS: Mapping[str, str] = {
    "node_cpu_seconds_total": "CPU time of all CPUs of the machine by mode; none of them ever falls.",
    "node_load1": "Tasks that run or wait, over a minute.",
    "node_memory_MemTotal_bytes": "Memory of the machine.",
    "node_memory_MemAvailable_bytes": "Memory that programs can have without swapping.",
    "node_memory_Dirty_bytes": "Memory that waits to be written to storage.",
    "node_pressure_cpu_waiting_seconds_total": "Time in which some task waited for a CPU.",
    "node_pressure_io_waiting_seconds_total": "Time in which some task waited for I/O.",
    "node_pressure_io_stalled_seconds_total": "Time in which all tasks waited for I/O.",
    "node_pressure_memory_waiting_seconds_total": "Time in which some task waited for memory.",
    "node_pressure_memory_stalled_seconds_total": "Time in which all tasks waited for memory.",
    "node_network_receive_bytes_total": "Bytes that a card has received.",
    "node_network_transmit_bytes_total": "Bytes that a card has sent.",
    "node_network_speed_bytes": "Bytes per second that a card can move in each direction, as it tells.",
    "node_disk_read_bytes_total": "Bytes that were read from a disk.",
    "node_disk_written_bytes_total": "Bytes that were written to a disk.",
    "node_disk_reads_completed_total": "Requests to read that a disk has answered.",
    "node_disk_writes_completed_total": "Requests to write that a disk has answered.",
    "node_disk_io_time_seconds_total": "Time in which a disk had a request in flight.",
    "node_disk_io_time_weighted_seconds_total": "Time of all requests of a disk together.",
    "node_filesystem_size_bytes": "Room of a mounted file system; asked once a minute.",
    "node_filesystem_avail_bytes": "Room of it that users have left; asked once a minute.",
    "gridwright_mount_read_bytes_total": "Bytes that this client has read from a target.",
    "gridwright_mount_written_bytes_total": "Bytes that this client has written to a target.",
    "gridwright_mount_reads_total": "Requests to read that this client has sent to the server of a target.",
    "gridwright_mount_writes_total": "Requests to write that this client has sent to the server of a target.",
    "gridwright_job_cpu_seconds_total": "CPU time of the processes of a job on this node.",
    "gridwright_job_read_bytes_total": "Bytes that the processes of a job have read from storage.",
    "gridwright_job_written_bytes_total": "Bytes that the processes of a job have written, cached or not.",
    "gridwright_job_resident_bytes": "Memory of the processes of a job; what they share counts for each.",
    "gridwright_job_processes": "Processes of a job on this node.",
    "node_boot_time_seconds": "When the machine was booted, since 1970.",
    "gridwright_network_limit_bytes": "Bytes per second to which the system shapes what a card sends.",
    "gridwright_network_held_back_packets_total": "Packets that the cloud shaped, by the allowance of the "
    "machine that was exceeded.",
    "gridwright_disk_rotational": "1 for a disk that turns, 0 for one without moving parts.",
    "gridwright_mount_waited_seconds_total": "Time of all requests of this client to a target together.",
    "gridwright_sampler_cpu_seconds_total": "CPU time of the process that samples.",
    "gridwright_sees_all_processes": "1 where all processes of the node can be seen, as root can.",
    "gridwright_others_cpu_seconds_total": "CPU time of processes of no job.",
    "gridwright_others_read_bytes_total": "Bytes that processes of no job have read from storage.",
    "gridwright_others_written_bytes_total": "Bytes that processes of no job have written.",
    "gridwright_group_io_limit_bytes": "Bytes per second that a control group may move at a device.",
    "gridwright_group_io_limit_requests": "Requests per second that a control group may send to a device.",
    "gridwright_group_io_bytes_total": "Bytes that a control group with limits has moved at a device.",
    "gridwright_group_io_requests_total": "Requests of a control group with limits to a device.",
    "gridwright_group_periods_total": "Periods in which a control group with a limit of CPU time ran.",
    "gridwright_group_throttled_periods_total": "Periods in which it was held back.",
    "gridwright_group_throttled_seconds_total": "Time for which it was held back.",
    "gridwright_job_waiting_seconds_total": "Time for which the tasks of a job have waited, by what for.",
    "gridwright_job_open_files": "Files that the processes of a job have open in a directory of a library.",
    "lustre_read_bytes_total": "Bytes that a target has read for its clients.",
    "lustre_write_bytes_total": "Bytes that a target has written for its clients.",
    "lustre_read_samples_total": "Requests to read that a target has answered.",
    "lustre_write_samples_total": "Requests to write that a target has answered.",
    "lustre_stats_total": "Operations of a target.",
    "lustre_oss_ost_stats_total": "Figures of the services of an object server.",
    "lustre_pages_per_bulk_rw_total": "Transfers of a target by their pages.",
    "lustre_disk_io_total": "Requests of a target to its disk by how many were in flight.",
    "lustre_io_time_milliseconds_total": "Requests of a target to its disk by how long they took.",
    "lustre_available_kilobytes": "Room of a target that users have left.",
    "lustre_free_kilobytes": "Room of a target that is free.",
    "lustre_capacity_kilobytes": "Room of a target.",
    "lustre_inodes_free": "Files that a target has room for.",
    "lustre_inodes_maximum": "Files that a target has room for in all.",
    "lustre_exports": "Connections of a target to its clients and other targets.",
    "lustre_lock_count": "Locks that a target has given out.",
    "lustre_health_healthy": "1 while Lustre says that this server is healthy.",
    "lustre_job_read_bytes_total": "Bytes that a target has read for a job.",
    "lustre_job_write_bytes_total": "Bytes that a target has written for a job.",
    "lustre_job_read_samples_total": "Requests to read of a job that a target has answered.",
    "lustre_job_write_samples_total": "Requests to write of a job that a target has answered.",
    "gridwright_lock_grants_total": "Locks that a target has given.",
    "gridwright_lock_cancels_total": "Locks of a target that were given back.",
    "recovery_status": "Recovery of a target: 0 complete, 1 inactive, 2 and 3 waiting, 4 recovering.",
    "recovery_status_connected_clients": "Clients that are back since a target started.",
    "recovery_status_completed_clients": "Clients whose requests a target has replayed.",
    "recovery_status_evicted_clients": "Clients that a target has given up.",
    "gridwright_recovery_expected_clients": "Clients that a target waits for.",
    "gridwright_recovery_seconds_left": "How long a target still waits for its clients, at most.",
    "gridwright_connection_state": "1 with the state of a connection to a target as its label.",
    "gridwright_target_job_operations_total": "Operations of a job at a target.",
    "gridwright_served_job_read_bytes_total": "Bytes that the targets of this server have read for a job.",
    "gridwright_served_job_written_bytes_total": "Bytes that targets of this server have written for a job.",
    "gridwright_served_job_reads_total": "Requests to read of a job to the targets of this server.",
    "gridwright_served_job_writes_total": "Requests to write of a job to the targets of this server.",
    "gridwright_served_job_operations_total": "Operations of a job at the targets of this server.",
    "gridwright_unfollowed_jobs": "Jobs at the targets of this server that are not followed: too many.",
}
"""By metric. One that is not here yet is told all the same, and says that it is a reading of this node."""


_UNITS = ("bytes", "seconds")


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """What all series of one name are."""

    name: str
    """Of a counter without its `_total`."""
    help: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False
    is_info: bool = False
    """Whether it has facts as labels, and 1 as its value; its series end in `_info`."""

    @property
    def series(self) -> str:
        """The name of its series."""
        return f"{self.name}_total" if self.is_counter else f"{self.name}_info" if self.is_info else self.name

    @property
    def unit(self) -> str:
        """Its unit as OpenMetrics has it, with which the name ends; empty where there is none."""
        return next((unit for unit in _UNITS if self.name.endswith(f"_{unit}")), "")


_RENAMED = {
    "node_memory_MemTotal_bytes": "gridwright_node_memory_size_bytes",
    "node_memory_MemAvailable_bytes": "gridwright_node_memory_available_bytes",
    "node_memory_Dirty_bytes": "gridwright_node_memory_dirty_bytes",
}
"""Names of Prometheus have no capitals, and `total` is the end of counters."""

_RENAMED_LABELS = {"job": "jobid"}
"""Prometheus calls what it scrapes a job, and would rename ours; lustrefs-exporter has this name, too."""

_AS_ITS_NAME_SAYS = "A reading of this node."
NOT_TOLD = frozenset({"user", "process"})
"""Labels of readings that stay on the node: everybody who may look at Prometheus would see who does what."""


def _of_reading(metric: str, labels: tuple[str, ...]) -> MetricFamily:
    own = f"gridwright_{metric}" if metric.startswith("node_") else metric
    name = _RENAMED.get(metric, own)
    counter = metric.endswith("_total")
    names = tuple(_RENAMED_LABELS.get(label, label) for label in labels)
    return MetricFamily(
        name.removesuffix("_total"), MEANINGS.get(metric, _AS_ITS_NAME_SAYS), names, is_counter=counter
    )


OF_READINGS: Mapping[str, MetricFamily] = {
    metric: _of_reading(metric, labels) for metric, labels in LABELS.items() if not NOT_TOLD & {*labels}
}
"""By the metric of a reading."""

NODE = MetricFamily(
    "gridwright_node",
    "The node: nodes of one machine have the same boot.",
    ("node", "boot", "version"),
    is_info=True,
)
CORES = MetricFamily("gridwright_node_cores", "Physical cores of the machine.")
CPUS = MetricFamily("gridwright_node_cpus", "Logical CPUs of the machine.")
SILENT = MetricFamily(
    "gridwright_source_silent",
    "1 while a mount, or another source of readings, does not answer; 0 while it does.",
    ("source",),
)
DIRECTORY = MetricFamily(
    "gridwright_directory",
    "What a directory of a library lies on; device is its disk, and empty where servers have it.",
    ("directory", "mountpoint", "fstype", "device"),
    is_info=True,
)
DIRECTORY_DISK = MetricFamily(
    "gridwright_directory_disk",
    "A disk below a directory of a library: its own, or a member of its RAID.",
    ("directory", "device"),
    is_info=True,
)
SAMPLES = MetricFamily(
    "gridwright_exporter_samples", "Samples that were taken; scrapes share them.", is_counter=True
)
COST = MetricFamily("gridwright_exporter_cpu_seconds", "CPU time that sampling took.", is_counter=True)
SAMPLED = MetricFamily("gridwright_exporter_sampled_seconds", "When the sample was taken, since 1970.")
TOOK = MetricFamily("gridwright_exporter_sample_duration_seconds", "How long it took.")
LEFT_OUT = MetricFamily(
    "gridwright_exporter_series_left_out",
    "Series of this sample that are not told: in the sum of jobs, more than a family has, or not told apart.",
)
OF_EXPORTER = (NODE, CORES, CPUS, SILENT, DIRECTORY, DIRECTORY_DISK, SAMPLES, COST, SAMPLED, TOOK, LEFT_OUT)
"""What the exporter tells beside readings."""


def known_series() -> dict[str, tuple[str, ...]]:
    """The names of all series that the exporter can give, each with its labels."""
    return {family.series: family.labels for family in (*OF_READINGS.values(), *OF_EXPORTER)}


MOST_SERIES = 50_000
"""Of one family: what scrapes a node is not made for more, and each costs it memory for hours."""
_EARLIEST_S = 1e9
"""Beginnings of counters before this are of a clock that does not count from 1970."""
_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_PIECE = 1 << 16


class TextFormat(StrEnum):
    """A format of the exposition, by its media type."""

    OPENMETRICS = "application/openmetrics-text"
    PLAIN = "text/plain"

    @property
    def content_type(self) -> str:
        """As the answer's header has it."""
        version = "1.0.0" if self is TextFormat.OPENMETRICS else "0.0.4"
        return f"{self.value}; version={version}; charset=utf-8"


@dataclass(frozen=True, slots=True)
class SeriesValue:
    """One series now."""

    labels: Sequence[str]
    value: float
    since_s: float | None = None
    """When a counter began, in seconds since 1970; another clock's times are left out."""


@dataclass(slots=True)
class Exposition:
    """Writes families, one after the other, and counts what had to be left out."""

    format: TextFormat
    left_out: int = 0

    def family(self, family: MetricFamily, points: Iterable[SeriesValue]) -> Iterator[bytes]:
        """The text of a family in pieces; nothing where it has no series."""
        lines, size, seen = [], 0, set[str]()
        for point in points:
            labels = _labels(family.labels, point.labels)
            if labels in seen or len(seen) >= MOST_SERIES:
                self.left_out += 1
                continue
            if not seen:
                lines.append(self._head(family))
            seen.add(labels)
            lines.append(self._series(family, labels, point))
            size += len(lines[-1])
            if size >= _PIECE:
                yield "".join(lines).encode()
                lines, size = [], 0
        if lines:
            yield "".join(lines).encode()

    def end(self) -> bytes:
        """What ends the text."""
        return b"# EOF\n" if self.format is TextFormat.OPENMETRICS else b""

    def _head(self, family: MetricFamily) -> str:
        help_ = family.help.replace("\\", "\\\\").replace("\n", "\\n")
        if self.format is TextFormat.PLAIN:
            kind = "counter" if family.is_counter else "gauge"
            return f"# HELP {family.series} {help_}\n# TYPE {family.series} {kind}\n"
        kind = "counter" if family.is_counter else "info" if family.is_info else "gauge"
        unit = f"# UNIT {family.name} {family.unit}\n" if family.unit else ""
        help_ = help_.replace('"', '\\"')
        return f"# TYPE {family.name} {kind}\n{unit}# HELP {family.name} {help_}\n"

    def _series(self, family: MetricFamily, labels: str, point: SeriesValue) -> str:
        text = f"{family.series}{labels} {number(point.value)}\n"
        since = point.since_s
        if self.format is TextFormat.OPENMETRICS and family.is_counter and since is not None:
            text += f"{family.name}_created{labels} {number(since)}\n" if since >= _EARLIEST_S else ""
        return text


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    """Label set of a series; a label that is empty is none (Prometheus' data model)."""
    told = ",".join(f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True) if value)
    return f"{{{told}}}" if told else ""


def escaped(value: str) -> str:
    r"""A label's value: bytes that are no text, and control characters, as `\xff`, which is text then."""
    if value.isascii() and value.isprintable() and "\\" not in value and '"' not in value:
        return value
    shown = _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", value)
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """A number as both formats have it."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "+Inf" if value > 0 else "-Inf"
        if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
    return str(value)
