"""The job of one launch on a node of a grid: does for it what the agent of a single node does for many.

It is asked with a `LaunchRequest`, and leaves a `LaunchResult`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from pathlib import Path

from gridwright.disturbance.herald import announcement
from gridwright.disturbance.presence import Presence
from gridwright.disturbance.watch import LoadWatch
from gridwright.filesystems.mounts import describe_mount
from gridwright.schedulers.process_tree import descendants, kill_all
from gridwright.workload.data_set import DataSet
from gridwright.workload.launches.account import launch_record
from gridwright.workload.launches.control_group import ControlGroup
from gridwright.workload.launches.guard import GONE_S, GRACE_S, LaunchOutcome
from gridwright.workload.launches.launcher import EndedLaunch, Launcher, Surroundings
from gridwright.workload.messages import LaunchRequest, LaunchResult
from gridwright.workload.node_jobs.job import NodeJob, serve
from gridwright.workload.node_jobs.watch import NodeWatch
from gridwright.workload.private_directories import PrivateDirectories

_LAST_WORDS_S = GRACE_S + GONE_S + 1.0


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
                launcher.stop(self._job.turn, _LAST_WORDS_S)
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
