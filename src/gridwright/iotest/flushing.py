"""Predicts how long a closing fsync takes: what of the written bytes is in memory, and how fast that falls.

For a file system on a device of the node the kernel tells what is in memory (Dirty and Writeback of
/proc/meminfo), for the node as a whole, so other writers count, too: an fsync waits behind them as well. What
clients of servers hold back is in nobody's figures: there the rate of an earlier phase of this test tells.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.runs.iotest_events import Progress

WINDOW_S = 4.0
"""A rate is that of the last seconds: flushing comes in bursts."""
LEAST_S = 1.0
"""A rate over less says nothing."""
_SLOWEST = 1 << 18
"""Bytes a second; below that nothing is known rather than that it takes an hour."""
_MEMINFO = Path("/proc/meminfo")
_COUNTED = ("Dirty:", "Writeback:", "NFS_Unstable:", "WritebackTmp:")


@dataclass(slots=True)
class FlushForecast:
    """Looks at what is unflushed as a phase goes on; times in seconds by any clock that never goes back."""

    _seen: deque[tuple[float, int, int]] = field(default_factory=deque)
    """Time, bytes written so far, bytes in memory."""

    def see(self, now: float, written_bytes: int, unflushed_bytes: int) -> None:
        """Take in a moment."""
        self._seen.append((now, written_bytes, unflushed_bytes))
        while self._seen[-1][0] - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()

    @property
    def seconds(self) -> float | None:
        """How long what is in memory now takes to the disk; None where too little is known.

        What reached the disk is what was written and did not stay in memory. It is over the rate of the last
        seconds, with the streams that write meanwhile: an fsync that has the disk for itself is no slower.
        """
        if not self._seen:
            return None
        (then, written, unflushed), (now, written_now, unflushed_now) = self._seen[0], self._seen[-1]
        if now - then < LEAST_S:
            return None
        rate = ((written_now - written) - (unflushed_now - unflushed)) / (now - then)
        return unflushed_now / rate if rate > _SLOWEST else None


@dataclass(slots=True)
class MachineForecasts:
    """Forecasts of nodes by their machine: nodes of a lab share its memory, and each tells all of it."""

    _of: dict[str, FlushForecast] = field(default_factory=dict)

    def see(self, now: float, nodes: Iterable[tuple[str, Progress]]) -> None:
        """Take in a moment of all nodes, each with the machine that it is on."""
        machines: dict[str, list[Progress]] = {}
        for machine, progress in nodes:
            if progress.unflushed_bytes is not None:
                machines.setdefault(machine, []).append(progress)
        for machine, those in machines.items():
            self._of.setdefault(machine, FlushForecast()).see(
                now,
                sum(each.written_bytes for each in those),
                max(each.unflushed_bytes or 0 for each in those),
            )

    @property
    def seconds(self) -> float | None:
        """How long the slowest machine takes; None where too little is known of all."""
        told = (each.seconds for each in self._of.values())
        return max((each for each in told if each is not None), default=None)


def by_earlier_rate(written_bytes: int, elapsed_s: float, rate_bytes_per_s: float | None) -> float | None:
    """How long all that was written takes yet, at the rate that an earlier phase had with its fsync.

    That rate is bytes over all of the time, so it holds for any mix of memory and disk. None where there is
    none.
    """
    return max(0.0, written_bytes / rate_bytes_per_s - elapsed_s) if rate_bytes_per_s else None


def unflushed_bytes() -> int | None:
    """Bytes of this node that wait for a disk or a server; None where the kernel does not tell."""
    try:
        lines = _MEMINFO.read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(_COUNTED)) << 10
    except (OSError, ValueError, IndexError):
        return None
