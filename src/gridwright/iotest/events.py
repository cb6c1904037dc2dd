"""The events of a test while a phase runs: the same for one node and for many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from gridwright.iotest.messages import Measured, Progress
from gridwright.runs.iotest_events import IotestEvent, PhaseProgress, SampleTaken

Emit = Callable[[IotestEvent], None]


def sample_taken(op: str, time: float, sample: Measured, *, node: str | None = None) -> SampleTaken:
    """What was measured until the Unix time `time`; of several nodes, by which."""
    return SampleTaken(op=op, time=time, node=node, **asdict(sample))


def phase_progress(op: str, progress: Progress, rate_bytes_per_s: float | None = None) -> PhaseProgress:
    """How far a phase is; of several nodes with the rate of all."""
    return PhaseProgress(op=op, rate_bytes_per_s=rate_bytes_per_s, **asdict(progress))
