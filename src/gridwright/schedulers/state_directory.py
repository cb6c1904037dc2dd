"""Where the queue of a grid, its jobs' logs and its records are kept."""

from __future__ import annotations

from pathlib import Path

from gridwright.schedulers import scheduler_kind
from gridwright.spec.model import GridSpec


def state_directory(spec: GridSpec) -> Path:
    """The state directory of a grid: the same path on all of its nodes, and here."""
    if spec.state is not None:
        return spec.state
    if (provided := spec.provider_kind.state_directory(spec)) is not None:
        return provided
    return scheduler_kind(spec.scheduler).state_directory(spec)
