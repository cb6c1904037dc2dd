"""What a node does each second: its cores, its memory, its devices, and the launches' traffic."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TypedDict

import psutil

from gridwright.runs.workload_events import WorkloadSample
from gridwright.workload.launches.traffic import LIBRARIES, LaunchTraffic


class _Device(TypedDict):
    device: str | None
    device_read_bytes: int | None
    device_written_bytes: int | None


class NodeSampler:
    """Turns counters into samples: one row per library and second."""

    def __init__(self, devices: Mapping[str, str | None]) -> None:
        """Begin to count; `devices` names the disk below each library, where the kernel has one."""
        self._devices = devices
        self._ended = dict.fromkeys(LIBRARIES, (0, 0))
        self._shown = dict(self._ended)
        self._disks = _disks()
        self._began = self._last = time.monotonic()
        psutil.cpu_percent()

    def begin_at(self, traffic: LaunchTraffic) -> None:
        """Leave out what a launch has moved so far: another sampler has counted it."""
        for library, moved in traffic.totals().items():
            read, written = self._ended[library]
            self._ended[library] = (read - moved.read_bytes, written - moved.written_bytes)

    def add_ended(self, traffic: LaunchTraffic) -> None:
        """Keep what a launch moved that has ended."""
        for library, moved in traffic.totals().items():
            read, written = self._ended[library]
            self._ended[library] = (read + moved.read_bytes, written + moved.written_bytes)

    def sample(self, running: Iterable[LaunchTraffic], launches_running: int) -> list[WorkloadSample]:
        """What happened since the last sample, one row per library."""
        now = time.monotonic()
        interval, self._last = now - self._last, now
        totals = dict(self._ended)
        for traffic in running:
            for library, moved in traffic.totals().items():
                read, written = totals[library]
                totals[library] = (read + moved.read_bytes, written + moved.written_bytes)
        before, self._shown = self._shown, totals
        disks_before, self._disks = self._disks, _disks()
        memory = psutil.virtual_memory()
        at, cpu = time.time(), psutil.cpu_percent()
        return [
            WorkloadSample(
                time=at,
                elapsed_s=now - self._began,
                interval_s=interval,
                cpu_percent=cpu,
                memory_used_bytes=memory.total - memory.available,
                launches_running=launches_running,
                library=library,
                read_bytes=totals[library][0] - before[library][0],
                written_bytes=totals[library][1] - before[library][1],
                **self._device(library, disks_before),
            )
            for library in LIBRARIES
        ]

    def _device(self, library: str, before: Mapping[str, tuple[int, int]]) -> _Device:
        name = self._devices.get(library)
        if name is None or name not in before or name not in self._disks:
            return {"device": name, "device_read_bytes": None, "device_written_bytes": None}
        return {
            "device": name,
            "device_read_bytes": self._disks[name][0] - before[name][0],
            "device_written_bytes": self._disks[name][1] - before[name][1],
        }


def _disks() -> dict[str, tuple[int, int]]:
    counters = psutil.disk_io_counters(perdisk=True)
    return {name: (counter.read_bytes, counter.write_bytes) for name, counter in counters.items()}
