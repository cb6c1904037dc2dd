"""Makes the record of a launch from what its guard saw."""

from __future__ import annotations

import signal

from gridwright.messages import shared_fields
from gridwright.runs.launch_record import LaunchRecord, LibraryTraffic
from gridwright.units import format_bytes
from gridwright.workload.launches.diagnosis import bound_by, shares_of
from gridwright.workload.launches.guard import LaunchOutcome
from gridwright.workload.messages import PlannedLaunch

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
        waits={name: (each.read_wait_s, each.write_wait_s) for name, each in declared.items()},
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
