"""Whether a file system is slow, out of how it stands in a picture (pure)."""

from __future__ import annotations

from gridwright.monitor.causes.use import STORAGE
from gridwright.monitor.frame import Frame
from gridwright.monitor.libraries import LibraryRow, Standing

IDLE_CORES = 0.1
"""With fewer cores busy nobody works."""


def is_slow(row: LibraryRow) -> bool | None:
    """Whether somebody waits for what it should give; None where that cannot be told.

    Where nothing is required, or what it moves is not counted, only a resource at its limit makes it slow.
    """
    if row.standing is Standing.BELOW:
        return True
    if row.standing in {Standing.MET, Standing.NOT_ASKED, Standing.IDLE}:
        return False
    if row.wanted and any(use.binds and use.sort in STORAGE for use in row.uses):
        return True
    if row.standing is Standing.NOT_REQUIRED:
        return None if row.wanted else False
    return False if row.busy_cores is not None and row.busy_cores < IDLE_CORES and not row.wanted else None


def was_slow(frame: Frame, filesystem: str) -> bool | None:
    """The same in any picture; None where nothing is known of the file system there."""
    row = next((library for library in frame.libraries if library.filesystem == filesystem), None)
    return None if row is None else is_slow(row)


def why_unknown(row: LibraryRow) -> str:
    """Why it cannot be told whether it is slow."""
    if row.standing is Standing.NOT_REQUIRED:
        return (
            "whether it is slow: somebody waits for it, nothing that was measured is at its limit, and "
            "nothing is required of it (requires: in the grid spec says what it should give)"
        )
    return f"whether it is slow: {row.note or 'a figure is missing'}"
