"""Histograms of a target's requests to its disks, as `brw_stats` prints them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping

from gridwright.filesystems.reading import Reading

_SHAPES: Mapping[str, str] = {
    "pages per bulk r/w": "lustre_pages_per_bulk_rw_total",
    "disk I/O size": "lustre_disk_io_total",
    "I/O time (1/1000s)": "lustre_io_time_milliseconds_total",
}
"""Histograms that tell most, with the names of lustrefs-exporter: how many, by the label `size`."""
_TIME = r"^{}:?\s+([0-9]{{1,12}}(?:\.[0-9]{{1,9}})?)"
_ROW = re.compile(r"^([0-9]{1,12})([KMG]?):\s+([0-9]{1,20})\s[^|]*\|\s+([0-9]{1,20})\s")
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_brw_stats(component: str, target: str, text: str) -> Iterator[Reading]:
    """All counts of a target but those of what never happened, by the time of its own snapshot."""
    snapshot, start = (re.search(_TIME.format(name), text, re.MULTILINE) for name in _HEAD)
    at_s = float(snapshot[1]) if snapshot else time.monotonic()
    since_s = float(start[1]) if snapshot and start else None
    metric = ""
    for line in text.splitlines():
        if row := _ROW.match(line):
            size = str(int(row[1]) * _SCALE[row[2]])
            for way, count in (("read", row[3]), ("write", row[4])):
                if metric and count.strip("0"):
                    yield Reading(metric, (component, way, size, target), int(count), at_s, since_s)
        elif "cum %" in line:
            metric = next((_SHAPES[name] for name in _SHAPES if line.startswith(name)), "")


_HEAD = ("snapshot_time", "start_time")
