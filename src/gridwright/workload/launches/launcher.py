"""Starts launches, each under a guard of its own, notices their ends, and makes their records.

What a node does each second is sampled here, too.

The agent of one node runs many at once with it, the job of one launch exactly one.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import psutil

from gridwright.interference.judge import disturbances
from gridwright.interference.watch import LoadWatch, Moment
from gridwright.messages import MessageError, decode, encode, shared_fields
from gridwright.runs.launch_record import LaunchRecord, LibraryTraffic
from gridwright.runs.workload_events import WorkloadSample
from gridwright.schedulers.process_tree import children, descendants, kill_all
from gridwright.units import format_bytes
from gridwright.workload.launches.control_group import ControlGroup
from gridwright.workload.launches.guard import GONE_S, GRACE_S, LaunchOutcome, Order, fork_guard
from gridwright.workload.launches.program_request import ProgramRequest, TableFacts
from gridwright.workload.launches.traffic import LIBRARIES, LaunchTraffic
from gridwright.workload.messages import PlannedLaunch
from gridwright.workload.private_directories import PrivateDirectories
from gridwright.workload.programs.program import engine_environment

LAST_WORDS_S = GRACE_S + GONE_S + 1.0
"""How long launches that were told to end may take to, and to be accounted for."""
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


def shares_of(
    *,
    real_s: float,
    cpu_s: float,
    core_wait_s: float,
    memory_wait_s: float,
    waits: Mapping[str, tuple[float, float]],
) -> dict[str, float]:
    """Divide a launch's real time by cause, as fractions that add up to 1.

    `waits` are the seconds a launch waited to read and to write, by library. Threads compute and
    wait for cores at the same time: their seconds are divided by how many at once wanted a core
    on average, (CPU + core wait) / real, where that is above 1. Time in which memory stalled it
    (pressure stall information) is taken from the rest, for a refault also waits for a disk.
    """
    if real_s <= 0:
        return {}
    required = max(1.0, (cpu_s + core_wait_s) / real_s)
    found = {"cpu": cpu_s / required, "core": core_wait_s / required}
    for library, (read, write) in waits.items():
        if library == "util":
            found["util"] = read + write
        else:
            found[f"{library} read"] = read
            found[f"{library} write"] = write
    rest = real_s - sum(found.values())
    found["memory"] = min(memory_wait_s, max(0.0, rest))
    found["other"] = max(0.0, rest - found["memory"])
    total = sum(found.values())
    # Clocks of different kinds were read: together they may say a little more than the real time.
    return {cause: round(seconds / total, 4) for cause, seconds in found.items() if seconds > 0.0005 * total}


def bound_by(shares: Mapping[str, float]) -> tuple[str | None, float | None]:
    """The cause with the largest share, and that share."""
    if not shares:
        return None, None
    cause = max(shares, key=lambda each: shares[each])
    return cause, shares[cause]


_KILLED = 128
"""A shell says 128 + n of a command that died of signal n."""


def launch_record(
    launch: PlannedLaunch,
    outcome: LaunchOutcome,
    moved: dict[str, LibraryTraffic],
    *,
    node: str,
    oom_kills: int,
) -> LaunchRecord:
    """The record of a launch; `launch` is its part of the request.

    `oom_kills` counts processes that the kernel killed for memory on the node meanwhile.
    """
    real, user, system = outcome.real_s, outcome.user_s, outcome.system_s
    # A command declares nothing: what it waited for cannot be told by library.
    declared = moved if launch.test is not None else {}
    shares = shares_of(
        real_s=real,
        cpu_s=user + system,
        core_wait_s=outcome.core_wait_s,
        memory_wait_s=outcome.memory_wait_s or 0.0,
        waits={name: (traffic.read_wait_s, traffic.write_wait_s) for name, traffic in declared.items()},
    )
    reason = _reason(launch, outcome, oom_kills)
    cause, share = bound_by(shares)
    if outcome.ended_by == "memory" or (reason and "for memory" in reason):
        cause, share = "memory", None
    measured = {
        "test": launch.label,
        "node": node,
        "started": outcome.started or None,
        "ended": outcome.ended or None,
        "memory_limit_bytes": launch.memory_bytes,
        "libraries": declared,
        "io_wait_s": max(0.0, real - user - system - outcome.core_wait_s) if real else None,
        "cpu_real_ratio": (user + system) / real if real > 0 else None,
        "bound_by": cause,
        "bound_share": share,
        "shares": shares,
        "signal": _signal_name(outcome.signal) if outcome.signal else None,
        "ok": reason is None,
        "reason": reason,
    }
    same = shared_fields(outcome, LaunchRecord) | shared_fields(launch, LaunchRecord)
    return LaunchRecord(**same | measured)


def _reason(launch: PlannedLaunch, outcome: LaunchOutcome, oom_kills: int) -> str | None:
    """Why the launch failed, in one line; None if it did not."""
    used, limit = format_bytes(outcome.peak_memory_bytes), format_bytes(launch.memory_bytes)
    ended = {
        "stop": "interrupted",
        "start": f"could not be started: {outcome.message}",
        "hang": "hangs in the kernel and cannot be ended: the file system does not answer",
        "time": f"did not end within its time limit of {launch.time_limit_s:g} s",
        "memory": f"used {used} of memory, above its limit of {limit}",
        "lost": "the process that watched it was killed",
    }
    if outcome.ended_by is not None:
        return ended[outcome.ended_by]
    killed = outcome.signal == signal.SIGKILL or outcome.exit_status == _KILLED + signal.SIGKILL
    if killed and oom_kills:
        return "killed by the kernel for memory (out of memory on the node or in its control group)"
    if outcome.signal:
        return f"killed by {_signal_name(outcome.signal)}"
    return _exit_reason(launch, outcome) if outcome.exit_status else None


def _exit_reason(launch: PlannedLaunch, outcome: LaunchOutcome) -> str:
    last = (str(outcome.output).strip().splitlines() or [""])[-1][:300]
    if launch.test is not None and last:
        return last
    return f"ended with exit status {outcome.exit_status}{f': {last}' if last else ''}"


def _signal_name(number: int) -> str:
    """The name of a signal; most real-time signals have none (signal(7))."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def oom_kills() -> int:
    """Processes the kernel has killed for memory on this node since it started (proc_vmstat(5))."""
    try:
        with open("/proc/vmstat", "rb") as file:  # noqa: PTH123 - once a launch
            return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
    except (OSError, ValueError):
        return 0


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
