"""The streams of a run on one node: each starts its next launch as soon as the last has ended."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from pathlib import Path

from gridwright.errors import Finding
from gridwright.filesystems.mounts import describe_mount
from gridwright.runs.workload_events import (
    LaunchEnded,
    LaunchStarted,
    LibraryDevice,
    StreamsBegun,
    WorkloadEvent,
)
from gridwright.workload.control_group import ControlGroup
from gridwright.workload.data_set import DataSet
from gridwright.workload.launcher import EndedLaunch, Launcher, Surroundings
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
        self._launcher = Launcher(surroundings, directories, groups, selector, self._finish)
        self._sampler = NodeSampler(self._devices())
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

    def _devices(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for name, path in self._request.libraries.items():
            mount = describe_mount(Path(path))
            found[name] = mount.device
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
