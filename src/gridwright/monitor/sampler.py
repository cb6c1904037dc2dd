"""Takes snapshots of this node, one after the other; remembers what tells processes and mounts apart."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from gridwright.filesystems.mount_table import Mount
from gridwright.kernel_files import boot_id
from gridwright.machine import physical_cores
from gridwright.monitor.group_sources import GroupSources
from gridwright.monitor.held_reads import HeldReads
from gridwright.monitor.job_sources import JobSources
from gridwright.monitor.mount_sources import moved_sources, place_of, shown_mounts, space_sources
from gridwright.monitor.node_sources import kernel_readings
from gridwright.monitor.queue_limits import queue_readings
from gridwright.monitor.readings import MountedPlace, Reading, Snapshot

LIMIT_S = 0.5
"""For what may hang: files of a kernel that is well take milliseconds, a server's answer a few more."""
SPACE_S = 60.0
"""How often mounts are asked how full they are: each of them asks its servers."""
_JOBS = "jobs"


@dataclass(slots=True)
class Sampler:
    """Samples this node. Ends nothing that hangs: see `HeldReads`."""

    directories: tuple[str, ...] = ()
    _jobs: JobSources = field(default_factory=JobSources)
    _groups: GroupSources = field(default_factory=GroupSources)
    _reads: HeldReads[list[Reading]] = field(default_factory=lambda: HeldReads(LIMIT_S))
    _spaces: HeldReads[list[Reading]] = field(default_factory=lambda: HeldReads(LIMIT_S))
    _mounts: list[Mount] = field(default_factory=list)
    _places: Mapping[str, MountedPlace] = field(default_factory=dict)
    _space: list[Reading] = field(default_factory=list)
    _hang: Mapping[str, str] = field(default_factory=dict)
    _space_at: float | None = None
    _cost_s: float = 0.0

    def sample(self) -> Snapshot:
        """All readings, now; takes LIMIT_S where something hangs, twice that once a minute."""
        self._look_at_mounts()
        readings = [*kernel_readings(), *queue_readings(), *self._groups.readings()]
        told, silent = self._reads.read()
        for each in told.values():
            readings += each
        silent = {_without_mark(name): why for name, why in silent.items()}
        used, self._cost_s = time.process_time() - self._cost_s, time.process_time()
        return Snapshot(
            node=socket.gethostname(),
            machine=boot_id(),
            time=time.time(),
            at_s=time.monotonic(),
            cpus=os.cpu_count() or 1,
            cores=physical_cores(),
            readings=(*readings, *self._space),
            silent={**self._hang, **silent},
            places=dict(self._places),
            cost_s=used,
        )

    def _look_at_mounts(self) -> None:
        """Once a minute, and whenever something was mounted or unmounted."""
        now, mounts = time.monotonic(), shown_mounts()
        if self._space_at is not None and mounts == self._mounts and now - self._space_at < SPACE_S:
            return
        if self._space_at is None or mounts != self._mounts:
            moved = {f"mount:{point}": read for point, read in moved_sources(mounts).items()}
            self._reads.keep({_JOBS: lambda: list(self._jobs.readings()), **moved})
            self._spaces.keep(space_sources(mounts))
            self._places = {path: place_of(path) for path in self.directories}
        self._mounts, self._space_at = mounts, now
        told, self._hang = self._spaces.read()
        self._space = [reading for each in told.values() for reading in each]


def _without_mark(name: str) -> str:
    return name.removeprefix("mount:")
