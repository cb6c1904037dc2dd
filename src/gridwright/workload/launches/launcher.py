"""Starts launches, each under a guard of its own, notices their ends, and makes their records.

The agent of one node runs many at once with it, the job of one launch exactly one.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gridwright.interference.judge import disturbances
from gridwright.interference.watch import LoadWatch, Moment
from gridwright.messages import MessageError, decode, encode
from gridwright.runs.launch_record import LaunchRecord
from gridwright.schedulers.process_tree import children, descendants, kill_all
from gridwright.workload.engines import engine_environment
from gridwright.workload.launches.account import launch_record, oom_kills
from gridwright.workload.launches.control_group import ControlGroup
from gridwright.workload.launches.guard import GONE_S, LaunchOutcome, Order, fork_guard
from gridwright.workload.launches.program_request import ProgramRequest
from gridwright.workload.launches.traffic import LaunchTraffic
from gridwright.workload.messages import PlannedLaunch
from gridwright.workload.private_directories import PrivateDirectories
from gridwright.workload.table_facts import TableFacts

_COMMAND = [sys.executable, "-P", "-m", "gridwright.workload.launches.process"]
_PASSED_ON = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "SHELL",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all launches of a run on one node have in common."""

    node: str
    libraries: Mapping[str, str]
    """Directories by library."""
    settings: Mapping[str, int]
    """Figures of the scale that no table has."""
    tables: Mapping[int, Mapping[str, TableFacts]]
    """What is known of the tables, by copy and name."""
    keep: bool


@dataclass(slots=True)
class LiveLaunch:
    """A launch that runs."""

    launch: PlannedLaunch
    guard: int
    control: int
    result: int
    traffic: LaunchTraffic
    traffic_fd: int
    oom_kills: int
    group: ControlGroup | None
    begin: Moment
    answer: bytes = b""


@dataclass(frozen=True, slots=True)
class EndedLaunch:
    """A launch that has ended. Its counters are unmapped when `ended` has returned."""

    launch: PlannedLaunch
    record: LaunchRecord
    output: str
    left: list[str]
    """Directories that could not be removed."""
    traffic: LaunchTraffic


class Launcher:
    """The launches that run on this node; the caller's loop calls what is registered with its selector."""

    def __init__(
        self,
        surroundings: Surroundings,
        directories: PrivateDirectories,
        groups: ControlGroup | None,
        selector: selectors.BaseSelector,
        watch: LoadWatch,
        ended: Callable[[EndedLaunch], None],
    ) -> None:
        """`watch` sees what else uses the node; `ended` is called with each launch once it has ended."""
        self._surroundings = surroundings
        self._directories = directories
        self._groups = groups
        self._selector = selector
        self._watch = watch
        self._ended = ended
        self.spared: set[int] = set()
        """Processes of the caller's own, which belong to no launch."""
        self.live: dict[int, LiveLaunch] = {}

    def start(self, launch: PlannedLaunch) -> LiveLaunch:
        """Start a launch, its part of the plan. The caller must have no threads. Raises OSError."""
        group = self._groups.for_launch(launch.number) if self._groups else None
        traffic_fd = LaunchTraffic.create()
        before, begin = oom_kills(), self._watch.now()
        guard, control, result = fork_guard(self._order(launch), traffic_fd, group)
        live = LiveLaunch(
            launch, guard, control, result, LaunchTraffic(traffic_fd), traffic_fd, before, group, begin
        )
        self.live[launch.number] = live
        self._selector.register(result, selectors.EVENT_READ, lambda: self._hear(live))
        return live

    def stop(self, turn: Callable[[], None], seconds: float) -> None:
        """Have all launches ended, and wait for their last results for at most `seconds`."""
        for live in self.live.values():
            if live.control >= 0:
                os.close(live.control)
            live.control = -1
        deadline = time.monotonic() + seconds
        while self.live and time.monotonic() < deadline:
            turn()

    def _order(self, launch: PlannedLaunch) -> Order:
        work, util = self._directories.of_launch(launch.number, launch.label)
        request = None
        if launch.test is not None:
            known = self._surroundings.tables[launch.copy]
            request = encode(
                ProgramRequest(
                    test=launch.test,
                    work=work,
                    util=util,
                    tables={name: facts for name, facts in known.items() if name in launch.tables},
                    cores=launch.cores,
                    memory_bytes=launch.memory_bytes,
                    settings=dict(self._surroundings.settings),
                    replay=launch.replay,
                    block_bytes=launch.block_bytes,
                )
            )
        return Order(
            number=launch.number,
            arguments=_COMMAND if launch.test is not None else launch.command,
            environment=self._environment(launch, work, util),
            work=work,
            util=util,
            memory_bytes=launch.memory_bytes,
            time_limit_s=launch.time_limit_s,
            keep=self._surroundings.keep,
            request=request,
        )

    def _environment(self, launch: PlannedLaunch, work: Path, util: Path) -> dict[str, str]:
        ours = {
            "GRIDWRIGHT_DATA": str(self._surroundings.libraries["data"]),
            "GRIDWRIGHT_WORK": str(work),
            "GRIDWRIGHT_UTIL": str(util),
            "GRIDWRIGHT_CORES": str(launch.cores),
            "GRIDWRIGHT_MEMORY": str(launch.memory_bytes),
            "GRIDWRIGHT_BLOCK": str(launch.block_bytes),
            "TMPDIR": str(work),
        }
        if launch.test is None:
            return dict(os.environ) | ours
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return kept | ours | engine_environment(launch.cores)

    def _hear(self, live: LiveLaunch) -> None:
        chunk = os.read(live.result, 1 << 16)
        live.answer += chunk
        if chunk:
            return
        self._selector.unregister(live.result)
        os.close(live.result)
        if live.control >= 0:
            os.close(live.control)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(live.guard, 0)
        if live.group is not None:
            live.group.remove()
        self._finish(live)

    def _finish(self, live: LiveLaunch) -> None:
        try:
            outcome = decode(live.answer, LaunchOutcome)
        except MessageError:
            self._end_strays()
            outcome = LaunchOutcome(live.launch.number, ended_by="lost")
        if live.control < 0 and outcome.ended_by is None and outcome.signal == signal.SIGTERM:
            # A scheduler sends its order to stop to all processes of a job: the guard may come second.
            outcome.ended_by = "stop"
        kills = max(outcome.oom_kills, oom_kills() - live.oom_kills)
        record = launch_record(
            live.launch, outcome, live.traffic.totals(), node=self._surroundings.node, oom_kills=kills
        )
        load = self._watch.between(live.begin, self._watch.now(after=live.begin))
        interferences = disturbances(load)
        record = replace(record, load=load, disturbances=interferences, disturbed=bool(interferences))
        del self.live[live.launch.number]
        self._ended(EndedLaunch(live.launch, record, outcome.output, outcome.left, live.traffic))
        live.traffic.close()
        os.close(live.traffic_fd)

    def _end_strays(self) -> None:
        """End what a launch left whose guard was killed: it is now below this process."""
        guards = {each.guard for each in self.live.values()} | self.spared
        deadline = time.monotonic() + GONE_S
        while (strays := set(children(os.getpid())) - guards) and time.monotonic() < deadline:
            for pid in strays:
                kill_all(iter([pid, *descendants(pid)]), signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.005)
