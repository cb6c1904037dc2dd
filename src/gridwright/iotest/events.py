"""The events of a test while a phase runs: the same for one node and for many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from gridwright.iotest.messages import Measured, Progress
from gridwright.runs.journal import Event

Emit = Callable[[Event], None]


def sample_event(op: str, time: float, sample: Measured, *, node: str | None = None) -> Event:
    """What was measured until the Unix time `time`; of several nodes, by which."""
    named = {} if node is None else {"node": node}
    return {"event": "sample", "op": op, "time": time, **named, **asdict(sample)}


def progress_event(op: str, progress: Progress, rate_bytes_per_s: float | None = None) -> Event:
    """How far a phase is; of several nodes with the rate of all."""
    rate = {} if rate_bytes_per_s is None else {"rate_bytes_per_s": rate_bytes_per_s}
    return {"event": "progress", "op": op, **rate, **asdict(progress)}
