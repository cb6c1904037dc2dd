"""When nothing moves: how long a phase stood still, and when that is too long."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.errors import Finding
from gridwright.iotest.engine import Sample

NOTED_S = 3.0
"""A phase that stands still for this long is reported. A slow disk's fsync at the end of a lap is
shorter, or shows in the dirty pages; a failing server takes longer (measured: 6 s for a master of MooseFS
that was down for 4 s)."""


@dataclass(frozen=True, slots=True)
class Stall:
    """No byte moved: from `start_s` after the start of the phase, for `seconds`."""

    start_s: float
    seconds: float


@dataclass(slots=True)
class StallWatch:
    """Notices that nothing moves: no byte, no operation; in an fsync, no dirty page of the node.

    On a busy node others dirty pages all the time, so that they tell nothing of a stream that writes.
    """

    stalls: list[Stall] = field(default_factory=list)
    """Those that are over and were long."""
    _moved: tuple[int, int, int] = (0, 0, 0)
    _dirty: tuple[str, ...] = ()
    _since: float = field(default_factory=time.monotonic)
    _since_s: float = 0.0
    _looked: float = 0.0

    def quiet_s(self, progress: Sample, *, syncing: bool) -> float:
        """Look, and say for how many seconds nothing has moved."""
        now = time.monotonic()
        moved = (progress.read_bytes, progress.written_bytes, progress.operations)
        if moved != self._moved or (syncing and self._pages_move(now)):
            self._note(now)
            self._moved, self._since, self._since_s = moved, now, progress.elapsed_s
        return now - self._since

    def end(self) -> list[Stall]:
        """All stalls of a phase that has ended."""
        self._note(time.monotonic())
        return self.stalls

    def _note(self, now: float) -> None:
        quiet = now - self._since
        if quiet >= NOTED_S:
            self.stalls.append(Stall(self._since_s, quiet))

    def _pages_move(self, now: float) -> bool:
        if now - self._looked < 1.0:
            return False
        self._looked = now
        before, self._dirty = self._dirty, _dirty()
        return self._dirty != before


def stall_finding(stall: Stall, *, library: str, op: str, node: str | None) -> Finding:
    """Tell the user of a stall."""
    on = f" on node {node}" if node else ""
    return Finding(
        "warning",
        "stalled",
        f"library {library}, phase {op}{on}: no byte moved for {stall.seconds:.1f} s, from "
        f"{stall.start_s:.1f} s on; that time is in the rate",
        "look what the file system's servers and the network did then: `dmesg`, the logs of the servers",
    )


def _dirty() -> tuple[str, ...]:
    """Dirty pages and pages under writeback: an fsync that works changes them."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return tuple(line for line in lines if line.startswith(("Dirty:", "Writeback:")))
