"""The streams of a run on one node: each starts its next launch as soon as the last has ended."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from pathlib import Path

from gridwright.disturbance.presence import Presence
from gridwright.disturbance.watch import LoadWatch
from gridwright.errors import Finding
from gridwright.filesystems.mounts import LibraryMount, describe_mount
from gridwright.runs.workload_events import (
    LaunchEnded,
    LaunchStarted,
    LibraryDevice,
    StreamsBegun,
    WorkloadEvent,
)
from gridwright.workload.data_set import DataSet
from gridwright.workload.launches.control_group import ControlGroup
from gridwright.workload.launches.launcher import EndedLaunch, Launcher, Surroundings
from gridwright.workload.messages import RunRequest
from gridwright.workload.node_samples import NodeSampler
from gridwright.workload.private_directories import PrivateDirectories
from gridwright.workload.scales import scale

_SAMPLE_S = 1.0


class Running:
    """Runs all streams; the agent's loop calls `tick`, the selector what is registered with it."""

    def __init__(
        self,
        request: RunRequest,
        directories: PrivateDirectories,
        groups: ControlGroup | None,
        selector: selectors.BaseSelector,
        say: Callable[[WorkloadEvent], None],
        presence: Presence,
    ) -> None:
        self._request = request
        self._say = say
        self._pending = [list(stream) for stream in request.streams]
        self._stopping = False
        chosen = scale(request.scale)
        data = DataSet.of(Path(request.libraries["data"]), chosen, request.seed)
        surroundings = Surroundings(
            node=request.node,
            libraries=request.libraries,
            settings=chosen.settings,
            tables={copy: data.facts(copy) for copy in range(request.copies)},
            keep=request.keep,
        )
        mounts = self._mounts()
        self._watch = LoadWatch(
            # The command that started this agent works for the run, too.
            roots=[os.getpid(), os.getppid()],
            devices=[mount.device for mount in mounts.values() if mount.device is not None],
            fuse=any(mount.is_fuse for mount in mounts.values()),
            presence=presence,
        )
        self._launcher = Launcher(surroundings, directories, groups, selector, self._watch, self._finish)
        if presence.pid is not None:
            self._launcher.spared.add(presence.pid)
        self._sampler = NodeSampler({name: mount.device for name, mount in mounts.items()})
        self._sampled = time.monotonic()

    @property
    def ended(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self._launcher.live and not any(self._pending)

    def begin(self) -> None:
        """Start the first launch of each stream. Raises OSError."""
        self._say(StreamsBegun(time=time.time(), streams=len(self._pending)))
        for stream in range(len(self._pending)):
            self._start_next(stream)

    def tick(self) -> None:
        """Sample, once a second."""
        self._watch.tick()
        if time.monotonic() - self._sampled >= _SAMPLE_S:
            self._sample()

    def stop(self, turn: Callable[[], None], seconds: float) -> None:
        """Have all launches ended, and wait for their last results for at most `seconds`."""
        self._stopping = True
        self._launcher.stop(turn, seconds)

    def close(self) -> None:
        """Take the last sample."""
        self._sample()

    def _sample(self) -> None:
        self._sampled = time.monotonic()
        live = self._launcher.live.values()
        for row in self._sampler.sample([each.traffic for each in live], len(live)):
            self._say(row)

    def _mounts(self) -> dict[str, LibraryMount]:
        found = {}
        for name, path in self._request.libraries.items():
            mount = found[name] = describe_mount(Path(path))
            self._say(LibraryDevice(library=name, device=mount.to_record()))
        return found

    def _start_next(self, stream: int) -> None:
        if not self._pending[stream] or self._stopping:
            return
        launch = self._pending[stream].pop(0)
        self._launcher.start(launch)
        self._say(
            LaunchStarted(time=time.time(), number=launch.number, label=launch.label, stream=launch.stream)
        )

    def _finish(self, ended: EndedLaunch) -> None:
        self._sampler.add_ended(ended.traffic)
        self._say(LaunchEnded(launch=ended.record, output=ended.output))
        if ended.left:
            text = f"directories of a launch could not be removed: {', '.join(ended.left)}"
            self._say(Finding("warning", "workload-left", text, "remove them by hand"))
        self._start_next(ended.launch.stream - 1)
