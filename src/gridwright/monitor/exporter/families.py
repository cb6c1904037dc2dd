"""Names under which readings leave the house, and what each means: families of OpenMetrics.

The node's own readings have the names of node-exporter with `gridwright_` before them, so that no query that
was written for one of them counts what the other one tells a second time; and they differ here and there.
Those of servers of Lustre have the names of lustrefs-exporter, which is not run beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridwright.monitor.exporter.meanings import MEANINGS
from gridwright.monitor.readings import LABELS

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
    return {each.series: each.labels for each in (*OF_READINGS.values(), *OF_EXPORTER)}
