"""Takes snapshots of this node, one after the other; remembers what tells processes and mounts apart."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

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
from gridwright.monitor.node_sources import kernel_readings
from gridwright.monitor.other_sources import MOST_PART, OtherSources
from gridwright.monitor.paced_source import PacedSource, Told
from gridwright.monitor.queue_limits import queue_readings
from gridwright.monitor.readings import MountedPlace, Reading, Snapshot

LIMIT_S = 0.5
"""For what may hang: files of a kernel that is well take milliseconds, a server's answer a few more."""
SPACE_S = 60.0
"""How often mounts are asked how full they are: each of them asks its servers."""
_JOBS, _OTHERS, _KERNEL, _SPACE = "jobs", "processes of no job", "kernel", "space"
_MOUNT = "mount:"


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
    _allowances: CardAllowances = field(default_factory=CardAllowances)
    _mounts: list[Mount] = field(default_factory=list)
    _places: Mapping[str, MountedPlace] = field(default_factory=dict)
    _space: list[Reading] = field(default_factory=list)
    _hang: Mapping[str, str] = field(default_factory=dict)
    _space_at: float | None = None
    _cost_s: float = 0.0
    _texts: dict[str, tuple[Sequence[Reading], bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look at nothing yet."""
        self._groups = GroupSources(self.root)

    def sample(self) -> Snapshot:
        """All readings, now; takes LIMIT_S where something hangs, twice that once a minute."""
        snapshot, told = self._sampled()
        readings = [each for source in told.values() for each in source.readings]
        earlier = [each for source in told.values() for each in source.earlier]
        return replace(snapshot, readings=tuple(readings), earlier=tuple(earlier))

    def line(self) -> bytes:
        """The same as a message; what was not read anew is not written anew either."""
        snapshot, told = self._sampled()
        head = encode(snapshot)
        for field_name, parts in (
            (b"readings", (self._text(name, source.readings) for name, source in told.items())),
            (b"earlier", (self._text(f"earlier {name}", source.earlier) for name, source in told.items())),
        ):
            texts = b",".join(filter(None, parts))
            # A quotation mark within a text is behind a backslash, so that this is the field.
            head = head.replace(b'"%b":[]' % field_name, b'"%b":[%b]' % (field_name, texts), 1)
        return head

    def _text(self, name: str, readings: Sequence[Reading]) -> bytes:
        known = self._texts.get(name)
        if known is None or known[0] is not readings:
            known = self._texts[name] = readings, encode(readings)[1:-1]
        return known[1]

    def _sampled(self) -> tuple[Snapshot, dict[str, Told]]:
        """A snapshot without readings, and all of these by their source."""
        self._look_at_mounts()
        kernel = [*kernel_readings(self.root), *queue_readings()]
        kernel += [*self._groups.readings(), *self._allowances.readings()]
        found = {_KERNEL: Told(kernel, []), _SPACE: Told(self._space, [])}
        told, silent = self._reads.read()
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
            f"{_MOUNT}{point}": FigureSource(read, every_s=0.0)
            for point, read in moved_sources(mounts, self.root).items()
        }
        served = served_sources(mounts, self.root, self.run)
        others = OtherSources(jobs.members, self.root / "proc")
        return {
            _JOBS: FigureSource(jobs.readings, every_s=0.0),
            _OTHERS: FigureSource(others.readings, every_s=0.0, most_part=1.0 if self.brief else MOST_PART),
            **moved,
            **served,
        }
