"""Takes snapshots of this node, one after the other; remembers what tells processes and mounts apart."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gridwright._native import readings_json
from gridwright.commands import run_here
from gridwright.filesystems.health import Run
from gridwright.filesystems.mount_table import Mount
from gridwright.filesystems.reading import FigureSource
from gridwright.kernel_files import boot_id
from gridwright.machine import physical_cores
from gridwright.messages import encode
from gridwright.monitor.card_allowances import CardAllowances
from gridwright.monitor.group_sources import GroupSources
from gridwright.monitor.held_reads import HeldReads
from gridwright.monitor.job_sources import JobSources
from gridwright.monitor.mount_sources import (
    moved_sources,
    place_of,
    served_sources,
    shown_mounts,
    space_sources,
)
from gridwright.monitor.node_sources import KernelSources
from gridwright.monitor.other_sources import MOST_PART, OtherSources
from gridwright.monitor.paced_source import PacedSource, Told
from gridwright.monitor.queue_limits import queue_readings
from gridwright.monitor.readings import MountedPlace, Reading, Snapshot

LIMIT_S = 0.5
"""For what may hang: files of a kernel that is well take milliseconds, a server's answer a few more."""
SPACE_S = 60.0
"""How often mounts are asked how full they are: each of them asks its servers."""
QUEUES_S = 5.0
"""How often the kernel is asked which queues let through less than their card can do."""
JOBS_PART, MOUNTS_PART = 0.005, 0.001
"""Of one core that jobs and each mount may take: the rest of 1 % is the kernel's figures and other processes.
With some 100 busy jobs, or as client of some 30 targets, they are read less often than each second."""
_JOBS, _OTHERS, _KERNEL, _SPACE = "jobs", "processes of no job", "kernel", "space"
_MOUNT = "mount:"
_EARLIER = "earlier "


@dataclass(slots=True)
class Sampler:
    """Samples the node whose files lie below `root`. Ends nothing that hangs: see `HeldReads`."""

    directories: tuple[str, ...] = ()
    root: Path = Path("/")
    run: Run = run_here
    """Starts a process for what no file tells: at most one a minute."""
    brief: bool = False
    """Whether it takes a few samples alone, so that processes of no job may be looked at with each."""
    _reads: HeldReads[Told] = field(default_factory=lambda: HeldReads(LIMIT_S))
    _spaces: HeldReads[list[Reading]] = field(default_factory=lambda: HeldReads(LIMIT_S))
    _paced: dict[str, PacedSource] = field(default_factory=dict)
    _groups: GroupSources = field(init=False)
    _kernel: KernelSources = field(init=False)
    _queues: PacedSource = field(
        default_factory=lambda: PacedSource(FigureSource(lambda: list(queue_readings()), every_s=QUEUES_S))
    )
    _allowances: CardAllowances = field(default_factory=CardAllowances)
    _mounts: list[Mount] = field(default_factory=list)
    _places: Mapping[str, MountedPlace] = field(default_factory=dict)
    _space: list[Reading] = field(default_factory=list)
    _hang: Mapping[str, str] = field(default_factory=dict)
    _space_at: float | None = None
    _cost_s: float = 0.0
    _texts: dict[str, tuple[list[Reading], bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look at nothing yet."""
        self._groups, self._kernel = GroupSources(self.root), KernelSources(self.root)

    def sample(self) -> Snapshot:
        """All readings, now; takes LIMIT_S where something hangs, twice that once a minute."""
        snapshot, told = self._sampled()
        readings = [each for source in told.values() for each in source.readings]
        earlier = [each for source in told.values() for each in source.earlier]
        return replace(snapshot, readings=tuple(readings), earlier=tuple(earlier))

    def line(self) -> bytes:
        """The same as a message; what was not read anew is not written anew either."""
        snapshot, told = self._sampled()
        # A quotation mark within a text is behind a backslash, so that these are the fields.
        head, readings, rest = encode(snapshot).partition(b'"readings":[')
        between, earlier, rest = rest.partition(b'"earlier":[')
        now = self._texts_of((name, source.readings) for name, source in told.items())
        before = self._texts_of((f"{_EARLIER}{name}", source.earlier) for name, source in told.items())
        return b"".join([head, readings, *now, between, earlier, *before, rest])

    def _texts_of(self, parts: Iterable[tuple[str, list[Reading]]]) -> list[bytes]:
        """The readings of all parts as JSON, with commas between them."""
        found: list[bytes] = []
        for name, readings in parts:
            known = self._texts.get(name)
            if known is None or known[0] is not readings:
                if known is not None:
                    # What a source said before is told once more, beside what it says now.
                    self._texts[f"{_EARLIER}{name}"] = known
                known = self._texts[name] = readings, readings_json(readings)
            if known[1]:
                found += [b",", known[1]] if found else [known[1]]
        return found

    def _sampled(self) -> tuple[Snapshot, dict[str, Told]]:
        """A snapshot without readings, and all of these by their source."""
        self._look_at_mounts()
        kernel = [*self._kernel.readings(), *self._queues.read().readings]
        kernel += [*self._groups.readings(), *self._allowances.readings()]
        found = {_KERNEL: Told(kernel, []), _SPACE: Told(self._space, [])}
        # What is not due says the same as before: no thread has to be asked for that.
        resting = {name: now for name, source in self._paced.items() if (now := source.resting) is not None}
        answers, silent = self._reads.read(resting)
        told = resting | answers
        for name, source in self._paced.items():
            # What does not answer is shown as it was, with the reason, and without rates.
            found[name] = told.get(name) or Told(source.last.readings, [])
        silent = {name.removeprefix(_MOUNT): why for name, why in silent.items()}
        used, self._cost_s = time.process_time() - self._cost_s, time.process_time()
        snapshot = Snapshot(
            node=socket.gethostname(),
            machine=boot_id(),
            time=time.time(),
            at_s=time.monotonic(),
            cpus=os.cpu_count() or 1,
            cores=physical_cores(),
            readings=(),
            silent={**self._hang, **silent},
            places=dict(self._places),
            cost_s=used,
        )
        return snapshot, found

    def _look_at_mounts(self) -> None:
        """Once a minute, and whenever something was mounted or unmounted."""
        now, mounts = time.monotonic(), shown_mounts(self.root)
        if self._space_at is not None and mounts == self._mounts and now - self._space_at < SPACE_S:
            return
        if self._space_at is None or mounts != self._mounts:
            self._paced = {
                name: self._paced.get(name) or PacedSource(source)
                for name, source in self._sources(mounts).items()
            }
            self._reads.keep({name: paced.read for name, paced in self._paced.items()})
            self._spaces.keep(space_sources(mounts))
            self._places = {path: place_of(path, self.root) for path in self.directories}
        self._mounts, self._space_at = mounts, now
        told, self._hang = self._spaces.read()
        self._space = [reading for each in told.values() for reading in each]

    def _sources(self, mounts: list[Mount]) -> dict[str, FigureSource]:
        jobs = JobSources(self.root / "proc", self.root / "sys/fs/cgroup", self.directories)
        moved = {
            f"{_MOUNT}{point}": FigureSource(read, every_s=0.0, most_part=self._part(MOUNTS_PART))
            for point, read in moved_sources(mounts, self.root).items()
        }
        served = served_sources(mounts, self.root, self.run)
        others = OtherSources(jobs.members, self.root / "proc")
        return {
            _JOBS: FigureSource(jobs.readings, every_s=0.0, most_part=self._part(JOBS_PART)),
            _OTHERS: FigureSource(others.readings, every_s=0.0, most_part=self._part(MOST_PART)),
            **moved,
            **served,
        }

    def _part(self, most: float) -> float:
        """Of one core; few samples may cost what they do."""
        return 1.0 if self.brief else most
