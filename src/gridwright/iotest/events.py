"""The events of a test while a phase runs: the same for one node and for many."""

from __future__ import annotations

from collections.abc import Callable

from gridwright.messages import shared_fields
from gridwright.runs.iotest_events import IotestEvent, PhaseProgress, Progress, SampleTaken
from gridwright.runs.samples import Measured

Emit = Callable[[IotestEvent], None]


def sample_taken(op: str, time: float, sample: Measured, *, node: str | None = None) -> SampleTaken:
    """What was measured until the Unix time `time`; of several nodes, by which."""
    return SampleTaken(op=op, time=time, node=node, **shared_fields(sample, SampleTaken))


def phase_progress(op: str, progress: Progress, rate_bytes_per_s: float | None = None) -> PhaseProgress:
    """How far a phase is; of several nodes with the rate of all."""
    return PhaseProgress(op=op, rate_bytes_per_s=rate_bytes_per_s, **shared_fields(progress, PhaseProgress))
