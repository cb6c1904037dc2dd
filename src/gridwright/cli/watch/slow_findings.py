"""What `gridwright watch` found, as marks in the answer to why something is slow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridwright.monitor.causes.changes import MarkedEvent
    from gridwright.spec.model import GridSpec


def finding_marks(watch: Path, start_s: float, end_s: float) -> Iterator[MarkedEvent]:
    """Findings that opened, closed or flapped between two times (seconds since 1970); none without a watch.

    `watch` is the directory of a watch.
    """
    from gridwright.monitor.causes.changes import MarkedEvent
    from gridwright.watch.state import change_marks

    for mark in change_marks(watch, start_s, end_s):
        where = f" ({mark.where})" if mark.where else ""
        yield MarkedEvent(
            at_s=mark.time, sort="finding", text=f"{mark.what}{where}", source="gridwright watch"
        )


def watch_of(spec: GridSpec | None) -> Path:
    """Where the watch of a grid, or of this machine, keeps what it found."""
    from gridwright.watch.state import watch_directory

    return watch_directory(spec)
