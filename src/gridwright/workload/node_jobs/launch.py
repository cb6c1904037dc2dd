"""The job of one launch on a node of a grid: does for it what the agent of a single node does for many.

It is asked with a `LaunchRequest`, and leaves a `LaunchResult`.

Samples of a node on which each launch is a job of its own: one of the jobs takes them for all.

The first job of a run on a node binds an abstract socket (unix(7): it has no file, and is gone with its
process), the others connect to it and hand over the memory file with their counters. When the
first has ended, the others see their connections end, and one of them takes over.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from gridwright.filesystems.mounts import describe_mount
from gridwright.interference.heartbeat import announcement
from gridwright.interference.presence import Presence
from gridwright.interference.watch import LoadWatch
from gridwright.runs.workload_events import WORKLOAD_EVENTS
from gridwright.schedulers.process_tree import descendants, kill_all
from gridwright.workload.data_set import DataSet
from gridwright.workload.exchange import SAMPLES, ExchangeDirectory, NodeJob, serve
from gridwright.workload.launches.control_group import ControlGroup
from gridwright.workload.launches.guard import LaunchOutcome
from gridwright.workload.launches.launcher import (
    LAST_WORDS_S,
    EndedLaunch,
    Launcher,
    NodeSampler,
    Surroundings,
    launch_record,
)
from gridwright.workload.launches.traffic import SIZE, LaunchTraffic
from gridwright.workload.messages import LaunchRequest, LaunchResult
from gridwright.workload.private_directories import PrivateDirectories

_SAMPLE_S = 1.0
_CREDENTIALS = struct.Struct("3i")
"""struct ucred: process, user, group (SO_PEERCRED, unix(7))."""
_BACKLOG = 4096


class NodeWatch:
    """One job's part in the samples of its node; its loop calls `tick`."""

    def __init__(
        self,
        exchange: ExchangeDirectory,
        node: str,
        libraries: Mapping[str, str],
        selector: selectors.BaseSelector,
        *,
        first: Callable[[], None],
        leads: Callable[[], None],
    ) -> None:
        """`leads` is called when this job begins to sample, `first` if none of this run has sampled yet."""
        self._exchange = exchange
        self._node = node
        self._file = re.sub(r"[^A-Za-z0-9._-]+", "-", node)
        self._libraries = libraries
        self._selector = selector
        self._first = first
        self._leads = leads
        self._address = f"\0gridwright-workload-{exchange.run_id}-{node}"
        self._own: tuple[LaunchTraffic, int] | None = None
        self._listener: socket.socket | None = None
        self._leader: socket.socket | None = None
        self._sampler: NodeSampler | None = None
        self._others: dict[int, tuple[socket.socket, LaunchTraffic]] = {}
        self._sampled = 0.0
        self._left = False

    def join(self, traffic: LaunchTraffic, traffic_fd: int) -> None:
        """Have a launch counted in; its counters stay the caller's."""
        self._own = (traffic, traffic_fd)
        if self._sampler is not None:
            self._sampler.begin_at(traffic)
        self.tick()

    def tick(self) -> None:
        """Sample once a second where that is this job's part; else see that another's does."""
        if self._left:
            return
        if self._sampler is not None:
            if time.monotonic() - self._sampled >= _SAMPLE_S:
                self._sample(self._sampler)
        elif self._leader is None and not self._lead():
            self._follow()

    def leave(self) -> None:
        """Take the launch out, with a last sample if that is this job's part."""
        self._left = True
        own, self._own = self._own, None
        if self._sampler is not None:
            if own is not None:
                self._sampler.add_ended(own[0])
            self._sample(self._sampler)
            self._sampler = None
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        for number in list(self._others):
            self._drop(number)
        self._leave_leader()

    def _lead(self) -> bool:
        """Become the one that samples. Returns False where another is."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            listener.bind(self._address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            return False
        self._listener = listener
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        # Only the one that samples needs it.
        from gridwright.filesystems.mounts import describe_mount

        devices = {name: describe_mount(Path(path)).device for name, path in self._libraries.items()}
        if self._is_first():
            self._first()
        self._sampler = NodeSampler(devices)
        if self._own is not None:
            self._sampler.begin_at(self._own[0])
        self._sampled = time.monotonic()
        self._leads()
        return True

    def _is_first(self) -> bool:
        try:
            path = self._exchange.file(self._file, SAMPLES)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError:
            return False
        return True

    def _follow(self) -> None:
        """Hand the counters over to the one that samples; it may have ended just now."""
        if self._own is None:
            return
        leader = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            leader.settimeout(1.0)
            leader.connect(self._address)
            if not _same_user(leader):
                raise PermissionError
            socket.send_fds(leader, [b"launch"], [self._own[1]])
        except OSError:
            leader.close()
            return
        self._leader = leader
        self._selector.register(leader, selectors.EVENT_READ, self._end_of_leader)

    def _end_of_leader(self) -> None:
        self._leave_leader()
        self.tick()

    def _leave_leader(self) -> None:
        if self._leader is not None:
            self._selector.unregister(self._leader)
            self._leader.close()
            self._leader = None

    def _accept(self) -> None:
        if self._listener is None or self._sampler is None:
            return
        with contextlib.suppress(OSError):
            other, _ = self._listener.accept()
            traffic = _received(other) if _same_user(other) else None
            if traffic is None:
                other.close()
                return
            self._sampler.begin_at(traffic)
            number = other.fileno()
            self._others[number] = (other, traffic)
            self._selector.register(other, selectors.EVENT_READ, lambda: self._drop(number))

    def _drop(self, number: int) -> None:
        """A launch has ended, or this job has."""
        if number not in self._others:
            # Both at once: the selector found it before this job's own end was handled.
            return
        other, traffic = self._others.pop(number)
        self._selector.unregister(other)
        if self._sampler is not None:
            self._sampler.add_ended(traffic)
        traffic.close()
        other.close()

    def _sample(self, sampler: NodeSampler) -> None:
        self._sampled = time.monotonic()
        running = [traffic for _, traffic in self._others.values()]
        if self._own is not None:
            running.append(self._own[0])
        rows = [replace(each, node=self._node) for each in sampler.sample(running, len(running))]
        # A sample that cannot be written is lost; the launch goes on.
        with contextlib.suppress(OSError):
            self._exchange.append(self._file, SAMPLES, *map(WORKLOAD_EVENTS.plain, rows))


def _same_user(connection: socket.socket) -> bool:
    """An abstract address has no permissions: any process of the node can bind it, and connect to it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())


def _received(connection: socket.socket) -> LaunchTraffic | None:
    """The counters that a job hands over; None if it does not."""
    connection.settimeout(1.0)
    try:
        _, fds, _, _ = socket.recv_fds(connection, 64, 1)
    except OSError:
        return None
    try:
        return LaunchTraffic(fds[0]) if fds and os.fstat(fds[0]).st_size == SIZE else None
    except OSError:
        return None
    finally:
        for fd in fds:
            os.close(fd)


class LaunchJob:
    """One launch, from its directories to its record."""

    def __init__(self, job: NodeJob[LaunchRequest]) -> None:
        self._job = job
        self._launch = job.request.launch
        self._result: LaunchResult | None = None
        libraries = job.request.libraries
        self._data = DataSet.of(Path(libraries["data"]), job.request.scale, job.request.seed)
        self._watch = NodeWatch(
            job.exchange, job.node, libraries, job.selector, first=self._first_here, leads=self._announce
        )
        self._presence = Presence()
        self._launcher: Launcher
        self._directories: PrivateDirectories

    def run(self) -> LaunchResult:
        """Run it to its end; returns the result, also of a launch that could not be started."""
        try:
            with contextlib.ExitStack() as held:
                if self._launch.test is not None:
                    held.enter_context(self._data.in_use())
                self._run()
        except OSError as error:
            return self._failed(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        return self._result if self._result is not None else self._failed("it left no account of itself")

    def _run(self) -> None:
        request = self._job.request
        work, util = (Path(request.libraries[name]) for name in ("work", "util"))
        copy = self._launch.copy
        surroundings = Surroundings(
            node=self._job.node,
            libraries=request.libraries,
            settings=request.scale.settings,
            tables={copy: self._data.facts(copy)} if self._launch.test is not None else {},
            keep=request.keep,
        )
        directories = PrivateDirectories.create(work, util, keep=request.keep, run=self._job.exchange.path)
        groups = ControlGroup.for_run()
        launcher = Launcher(
            surroundings, directories, groups, self._job.selector, self._load_watch(), self._hear
        )
        self._directories, self._launcher = directories, launcher
        try:
            if not self._job.stopped:
                live = launcher.start(self._launch)
                self._watch.join(live.traffic, live.traffic_fd)
            while launcher.live and not self._job.stopped:
                self._job.turn()
                self._watch.tick()
            if self._job.stopped:
                launcher.stop(self._job.turn, LAST_WORDS_S)
        finally:
            self._presence.end(kept=request.keep)
            kill_all(descendants(os.getpid()), signal.SIGKILL)
            directories.remove()
            if groups is not None:
                groups.remove()

    def _announce(self) -> None:
        """One job on each node announces the run there, and hears of others."""
        run, libraries = self._job.exchange.run_id, self._job.request.libraries
        self._presence.begin(
            announcement(run, self._job.request.run, "workload"),
            scratch=[self._directories.work, self._directories.util],
            libraries=[Path(path) for path in libraries.values()],
        )
        if self._presence.pid is not None:
            self._launcher.spared.add(self._presence.pid)

    def _load_watch(self) -> LoadWatch:
        """All jobs of this run on this node are ours: each has the run's directory among its arguments."""
        mounts = [describe_mount(Path(path)) for path in self._job.request.libraries.values()]
        return LoadWatch(
            roots=[os.getpid()],
            tokens=[str(self._job.exchange.path)],
            devices=[mount.device for mount in mounts if mount.device is not None],
            fuse=any(mount.is_fuse for mount in mounts),
            presence=self._presence,
        )

    def _first_here(self) -> None:
        """The first launch on this node takes the tables out of its page cache."""
        if self._launch.test is not None:
            with contextlib.suppress(OSError):
                self._data.evict()

    def _hear(self, ended: EndedLaunch) -> None:
        self._watch.leave()
        self._result = LaunchResult(ended.record, ended.output, ended.left)

    def _failed(self, message: str) -> LaunchResult:
        ended_by = "stop" if self._job.stopped else "start"
        outcome = LaunchOutcome(self._launch.number, ended_by=ended_by, message=message)
        record = launch_record(self._launch, outcome, {}, node=self._job.node, oom_kills=0)
        return LaunchResult(record, "", [])


def run_launch(job: NodeJob[LaunchRequest]) -> LaunchResult:
    """Run the launch of a job."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Launches beside it hand over their counters; the guard gives this one its old limit back.
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return LaunchJob(job).run()


if __name__ == "__main__":
    serve(LaunchRequest, run_launch)
