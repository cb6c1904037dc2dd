"""The workload on one node: reads one request, answers in events, a JSON document a line.

It has the data made, runs the streams, each launch under a guard of its own, and samples the node
each second. The end of stdin and SIGTERM are orders to stop: all processes are ended, all
directories removed. It has no threads, so that it can fork.

Its events are those of `gridwright.runs.workload_events`.

The streams of a run on one node: each starts its next launch as soon as the last has ended.
"""

from __future__ import annotations

import os
import resource
import secrets
import selectors
import signal
import time
from collections.abc import Callable
from pathlib import Path

from gridwright.errors import ExitStatus, Finding, Problem
from gridwright.filesystems.mounts import LibraryMount, describe_mount
from gridwright.interference.heartbeat import announcement
from gridwright.interference.presence import Presence
from gridwright.interference.watch import LoadWatch
from gridwright.messages import decode
from gridwright.runs.iotest_events import Ended
from gridwright.runs.workload_events import (
    WORKLOAD_EVENTS,
    LaunchEnded,
    LaunchStarted,
    LibraryDevice,
    StreamsBegun,
    WorkloadDone,
    WorkloadEvent,
)
from gridwright.schedulers.process_tree import adopt_orphans, descendants, kill_all
from gridwright.workload.data_set import DataPreparation, DataSet
from gridwright.workload.launches.control_group import ControlGroup, remove_stale_groups
from gridwright.workload.launches.launcher import (
    LAST_WORDS_S,
    EndedLaunch,
    Launcher,
    NodeSampler,
    Surroundings,
)
from gridwright.workload.messages import RunRequest, scale
from gridwright.workload.private_directories import PrivateDirectories, remove_stale

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


_TICK_S = 0.2


def main() -> None:
    """Serve one request."""
    agent = Agent(decode(_read_line(), RunRequest))
    try:
        status = agent.run()
    except OSError as error:
        agent.say(
            Problem(
                what=f"the workload cannot be run: {error.strerror or error}",
                where=str(error.filename or "") or None,
                remedy="check that the directories of the libraries exist, and who may write there",
            )
        )
        status = ExitStatus.ENVIRONMENT
    words: dict[ExitStatus, Ended] = {
        ExitStatus.INTERRUPTED: "interrupted",
        ExitStatus.ENVIRONMENT: "failed",
    }
    agent.say(WorkloadDone(status=words.get(status, "complete"), exit=status))


def _read_line() -> bytes:
    """The only line on stdin; its end comes much later, and is an order to stop."""
    chunks = []
    while chunk := os.read(0, 1 << 16):
        chunks.append(chunk)
        if chunk.endswith(b"\n"):
            break
    return b"".join(chunks)


class Agent:
    """One run of the workload on this node."""

    def __init__(self, request: RunRequest) -> None:
        self._request = request
        self._libraries = {name: Path(path) for name, path in request.libraries.items()}
        self._selector = selectors.DefaultSelector()
        self._stop = False

    def say(self, event: WorkloadEvent) -> None:
        """Write an event; a reader that is gone is an order to stop."""
        line = memoryview(WORKLOAD_EVENTS.encode(event) + b"\n")
        try:
            while line:
                line = line[os.write(1, line) :]
        except BrokenPipeError:
            self._stop = True

    def run(self) -> ExitStatus:
        """Do all of it. Raises OSError if a library cannot be used."""
        adopt_orphans()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        # A launch takes three files; the guards give the launches their old limit back.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._ordered)
        self._selector.register(wake_read, selectors.EVENT_READ, lambda: os.read(wake_read, 512))
        self._selector.register(0, selectors.EVENT_READ, self._end_of_input)
        self._clear_leftovers()
        if self._request.needs_data and (failed := self._prepare()) is not None:
            return failed
        if self._stop:
            return ExitStatus.INTERRUPTED
        if not self._request.needs_data:
            return self._launch_all()
        data = DataSet.of(self._libraries["data"], scale(self._request.scale), self._request.seed)
        with data.in_use():
            return self._launch_all()

    def _ordered(self, *_: object) -> None:
        self._stop = True

    def _end_of_input(self) -> None:
        if not os.read(0, 4096):
            self._stop = True
            self._selector.unregister(0)

    def _clear_leftovers(self) -> None:
        remove_stale_groups()
        removed = [path for name in ("work", "util") for path in remove_stale(self._libraries[name])]
        if removed:
            text = f"{len(removed)} directories that a killed run had left were removed: "
            text += ", ".join(map(str, removed[:4]))
            remedy = "nothing is to be done"
            self.say(Finding("info", "workload-stale-removed", text, remedy))

    def _prepare(self) -> ExitStatus | None:
        """Have the data set ready; returns the status of a failure."""
        preparation = DataPreparation(self._request, self._selector, self.say)
        while not preparation.ended:
            self._turn()
            if self._stop:
                preparation.stop()
                return ExitStatus.INTERRUPTED
        return preparation.status

    def _turn(self) -> None:
        for key, _ in self._selector.select(_TICK_S):
            key.data()

    def _launch_all(self) -> ExitStatus:
        directories = PrivateDirectories.create(
            self._libraries["work"], self._libraries["util"], keep=self._request.keep
        )
        groups = ControlGroup.for_run()
        presence = Presence()
        presence.begin(
            announcement(secrets.token_hex(8), self._request.run, "workload"),
            scratch=[directories.work, directories.util],
            libraries=list(self._libraries.values()),
        )
        try:
            presence.wait()
            running = Running(self._request, directories, groups, self._selector, self.say, presence)
            running.begin()
            while not running.ended and not self._stop:
                self._turn()
                running.tick()
            if self._stop:
                running.stop(self._turn, LAST_WORDS_S)
            running.close()
        finally:
            presence.end(kept=self._request.keep)
            kill_all(descendants(os.getpid()), signal.SIGKILL)
            directories.remove()
            if groups is not None:
                groups.remove()
        if self._request.keep:
            self._report_directories(directories)
        return ExitStatus.INTERRUPTED if self._stop else ExitStatus.DONE

    def _report_directories(self, directories: PrivateDirectories) -> None:
        text = f"the launches' directories were kept: {directories.work}, {directories.util}"
        remedy = "remove them when you have seen them"
        self.say(Finding("info", "workload-kept", text, remedy))


if __name__ == "__main__":
    main()
