"""The array that a node makes of disks of its instance store for a file system of the spec."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchArray:
    """Disks, striped and formatted; node_programs/scratch makes it."""

    disks: int | None
    """How many; None is all that the instance has."""
    chunk_bytes: int
    format: str
