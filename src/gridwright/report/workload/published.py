"""Published results of mixed workloads on analytics grids, to lay a run beside."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

from gridwright.report.figures import finite


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One published row; figures stand as they were printed, and are empty where none was."""

    fact_id: str
    source: str
    date: str
    title: str
    file_system: str
    counted: str
    """What launches and minutes count: the whole grid, or each node."""
    launches: str
    real_minutes: str
    memory_gb: str
    user_cpu_minutes: str
    system_cpu_minutes: str
    ratio_mean: str
    ratio_stdev: str
    ratio_range: str

    @property
    def ratio_of_sums(self) -> float | None:
        """All CPU minutes over all real minutes; the papers do not print it."""
        real, user, system = (
            finite(float(text)) if text else None
            for text in (self.real_minutes, self.user_cpu_minutes, self.system_cpu_minutes)
        )
        return (user + system) / real if real and user is not None and system is not None else None


def published_workloads() -> list[PublishedRun]:
    """The published rows, in the order of the data file."""
    text = files("gridwright.report").joinpath("data", "published_workloads.csv").read_text(encoding="utf-8")
    return [PublishedRun(**row) for row in csv.DictReader(text.splitlines())]
