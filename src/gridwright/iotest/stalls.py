"""Finds streams that moved nothing for seconds, and a phase that moves nothing for too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.errors import Finding
from gridwright.iotest.engine import Sample
from gridwright.iotest.outcome import Outcome
from gridwright.runs.phase_record import Stall

Unwritten = Callable[[], int | None]
"""Counts pages of files in an fsync that are not written yet; None where the kernel does not tell."""
_LOOK_S = 1.0
_LEAST_PAUSES = 20
"""Pauses between looks are this many times as long as a look."""
UNUSUAL = 20
"""A request that took seconds is a stall if it took this many times as long as half of all requests did:
blocks of 64 MiB take seconds on a slow disk, and nothing is wrong then."""


def stalls_of(outcome: Outcome) -> list[Stall]:
    """The stalls of a phase, by its outcome; those of several streams that overlap are one.

    The engine notes requests of 3 s and more: a failing server takes longer to be replaced (measured: 6 s
    for a master of MooseFS that was down for 4 s), and a healthy one is far from it.
    """
    usual = ((outcome.latency_us and outcome.latency_us.p50) or 0.0) / 1e6
    single = sorted(
        (stall.start_s, stall.seconds, number)
        for number, stream in enumerate(outcome.streams)
        for stall in stream.stalls
        if stall.seconds >= UNUSUAL * usual
    )
    stalls: list[Stall] = []
    end, streams = 0.0, set()
    for start, seconds, number in single:
        if stalls and start <= end:
            streams.add(number)
            stalls[-1] = Stall(stalls[-1].start_s, max(stalls[-1].seconds, seconds), len(streams))
            end = max(end, start + seconds)
        else:
            end, streams = start + seconds, {number}
            stalls.append(Stall(start, seconds, 1))
    return stalls


def stall_finding(stall: Stall, *, library: str, op: str, streams: int, node: str | None) -> Finding:
    """Tell the user of a stall, of a phase of so many streams on the node."""
    on = f" on node {node}" if node else ""
    who = "all streams" if stall.streams == streams else f"{stall.streams} of {streams} streams"
    return Finding(
        "warning",
        "stalled",
        f"library {library}, phase {op}{on}: {who} stood still for up to {stall.seconds:.1f} s, from "
        f"{stall.start_s:.1f} s on; that time is in the rate",
        "look what the file system's servers and the network did then: `dmesg`, the logs of the servers",
    )


@dataclass(slots=True)
class StallWatch:
    """Notices that nothing moves: no byte, no operation; in an fsync, no page of what is flushed.

    Before Linux 6.5 no kernel tells of the pages of one file; then those of the node count. Others dirty
    these all the time on a busy node, so that an fsync that hangs there may not be noticed.
    """

    _moved: tuple[int, int, int] = (0, 0, 0)
    _dirty: tuple[str, ...] = ()
    _unwritten: int | None = None
    _since: float = field(default_factory=time.monotonic)
    _look_at: float = 0.0

    def quiet_s(self, progress: Sample, unwritten: Unwritten | None = None) -> float:
        """Look, and say for how many seconds nothing has moved; `unwritten` is given during an fsync."""
        now = time.monotonic()
        moved = (progress.read_bytes, progress.written_bytes, progress.operations)
        if moved != self._moved or (unwritten is not None and self._pages_move(now, unwritten)):
            self._moved, self._since = moved, now
        return now - self._since

    def _pages_move(self, now: float, unwritten: Unwritten) -> bool:
        if now < self._look_at:
            return False
        pages = unwritten()
        # Of a file that fills memory, each look goes through millions of pages.
        self._look_at = now + max(_LOOK_S, _LEAST_PAUSES * (time.monotonic() - now))
        if pages is not None:
            before, self._unwritten = self._unwritten, pages
            # More of them are those of a stream that has only now begun to flush.
            return before is not None and pages < before
        dirty, self._dirty = self._dirty, _dirty()
        return self._dirty != dirty


def _dirty() -> tuple[str, ...]:
    """Dirty pages and pages under writeback: an fsync that works changes them."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return tuple(line for line in lines if line.startswith(("Dirty:", "Writeback:")))
