"""Histories that were never sampled: a day's course, day after day, written as a sampler's sums would be.

A year of a node takes about a second, and is the same for the same arguments.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.monitor.history.measured import SAMPLER
from gridwright.monitor.history.store import FINEST, LEVELS, BlockColumn, HistoryStore, encode
from gridwright.monitor.readings import Key

MB = 1e6
YEAR_S = 365 * 86400
CONTEXT = {"machine": "", "cpus": 8, "cores": 4, "silent": {}, "places": {}}


@dataclass(frozen=True, slots=True)
class DailyCourse:
    """Lowest at midnight, highest at noon (UTC); `noise` is a part of the value."""

    low: float
    high: float
    noise: float = 0.1
    spike: tuple[float, float, float] | None = None
    """From a time to a time, that value instead."""

    def at(self, time_s: float) -> float:
        """The value at a time."""
        if self.spike is not None and self.spike[0] <= time_s < self.spike[1]:
            return self.spike[2]
        part = 0.5 - 0.5 * math.cos(time_s * (2 * math.pi / 86400))
        # Knuth's multiplicative hash: noise that is the same each time.
        wobble = ((int(time_s) * 2654435761) >> 8 & 0xFFFF) / 0x8000 - 1.0
        return (self.low + (self.high - self.low) * part) * (1.0 + self.noise * wobble)


def node_courses(
    disk: str = "sda", mount: str = "/grid", jobs: Sequence[str] = ("17",)
) -> dict[Key, DailyCourse]:
    """What a small node has: CPUs, memory, a card, a disk, a mount, and some jobs."""
    found: dict[Key, DailyCourse] = {
        ("node_cpu_seconds_total", "user"): DailyCourse(0.1, 5.0),
        ("node_cpu_seconds_total", "nice"): DailyCourse(0, 0),
        ("node_cpu_seconds_total", "system"): DailyCourse(0.05, 0.8),
        ("node_cpu_seconds_total", "idle"): DailyCourse(7.5, 1.0),
        ("node_cpu_seconds_total", "iowait"): DailyCourse(0.0, 0.6),
        ("node_memory_MemTotal_bytes",): DailyCourse(64e9, 64e9, noise=0.0),
        ("node_memory_MemAvailable_bytes",): DailyCourse(60e9, 20e9, 0.02),
        ("node_pressure_cpu_waiting_seconds_total",): DailyCourse(0.0, 0.1),
        ("node_pressure_io_waiting_seconds_total",): DailyCourse(0.0, 0.3),
        ("node_pressure_memory_waiting_seconds_total",): DailyCourse(0.0, 0.0),
        ("node_network_receive_bytes_total", "eth0"): DailyCourse(1 * MB, 600 * MB),
        ("node_network_transmit_bytes_total", "eth0"): DailyCourse(1 * MB, 300 * MB),
        ("node_network_speed_bytes", "eth0"): DailyCourse(1250 * MB, 1250 * MB, noise=0.0),
        ("node_disk_read_bytes_total", disk): DailyCourse(0.1 * MB, 400 * MB),
        ("node_disk_written_bytes_total", disk): DailyCourse(0.1 * MB, 250 * MB),
        ("node_disk_reads_completed_total", disk): DailyCourse(1, 900),
        ("node_disk_writes_completed_total", disk): DailyCourse(1, 700),
        ("node_disk_io_time_seconds_total", disk): DailyCourse(0.01, 0.8),
        ("node_disk_io_time_weighted_seconds_total", disk): DailyCourse(0.01, 4.0),
        ("node_filesystem_size_bytes", mount, "xfs", f"/dev/{disk}"): DailyCourse(10e12, 10e12, noise=0.0),
        ("node_filesystem_avail_bytes", mount, "xfs", f"/dev/{disk}"): DailyCourse(6e12, 5.5e12, noise=0.0),
        (SAMPLER,): DailyCourse(0.004, 0.006),
    }
    for job in jobs:
        found |= {
            ("gridwright_job_cpu_seconds_total", job): DailyCourse(0.1, 2.0),
            ("gridwright_job_resident_bytes", job): DailyCourse(1e8, 4e9),
            ("gridwright_job_processes", job): DailyCourse(2, 2, noise=0.0),
            ("gridwright_job_read_bytes_total", job): DailyCourse(0, 200 * MB),
            ("gridwright_job_written_bytes_total", job): DailyCourse(0, 120 * MB),
        }
    return found


def generate_history(
    path: Path,
    end_s: float,
    seconds: float = YEAR_S,
    courses: Mapping[Key, DailyCourse] | None = None,
    *,
    gaps: Sequence[tuple[float, float]] = (),
    context: Mapping[str, object] = CONTEXT,
) -> None:
    """Write a history that ends at the last whole minute before `end_s`; nothing is known within `gaps`."""
    courses = node_courses() if courses is None else courses
    end = math.floor(end_s / 60) * 60
    with HistoryStore(path, write=True) as store:
        store.put_context(end - seconds, json.dumps({**CONTEXT, **context}))
        ids: dict[int, int] = {}
        for level, each in enumerate(LEVELS):
            length, last = each.block_s, ids
            ids = {}
            newest = end // length * length
            oldest = max(end - seconds, newest - each.kept_s) // length * length
            with store.transaction():
                for start in range(int(oldest), int(newest), length):
                    finer = [number for at, number in last.items() if start <= at < start + length]
                    pieces = _pieces(courses, level, start, end - seconds, gaps)
                    if pieces:
                        store.put_block(level, start, each.steps, max(finer, default=0), pieces)
                        ids[start] = store.blocks(level)[-1].id


def _pieces(
    courses: Mapping[Key, DailyCourse],
    level: int,
    start: int,
    first: float,
    gaps: Sequence[tuple[float, float]],
) -> dict[str, bytes]:
    here = LEVELS[level]
    times = [start + (number + 0.5) * here.step_s for number in range(here.steps)]
    known = [each >= first and not any(low <= each < high for low, high in gaps) for each in times]
    if not any(known):
        return {}
    by_metric: dict[str, dict[tuple[str, ...], BlockColumn]] = {}
    for key, course in courses.items():
        at: Callable[[float], float] = course.at
        mean = array(
            "f", [at(each) if is_known else math.nan for each, is_known in zip(times, known, strict=True)]
        )
        high = mean if level == FINEST else array("f", [1.2 * each for each in mean])
        by_metric.setdefault(key[0], {})[key[1:]] = BlockColumn(mean, high, None)
    return {
        metric: encode(columns, here.steps, rounded=metric.endswith("_total"))
        for metric, columns in by_metric.items()
    }
