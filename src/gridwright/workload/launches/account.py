"""Makes the record of a launch from what its guard saw.

Finds what held a launch up: its real time by cause.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping

from gridwright.messages import shared_fields
from gridwright.runs.launch_record import LaunchRecord, LibraryTraffic
from gridwright.units import format_bytes
from gridwright.workload.launches.guard import LaunchOutcome
from gridwright.workload.messages import PlannedLaunch


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
