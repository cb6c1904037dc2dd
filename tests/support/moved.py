"""What a recorded launch moved."""

from __future__ import annotations

from typing import Literal

from gridwright.runs.profiles import LaunchProfile
from gridwright.spec import LibraryName


def moved_bytes(profile: LaunchProfile, library: LibraryName, way: Literal["read", "write"]) -> int:
    """Bytes of all phases to or from one library, as the test asked for them."""
    sums = (each.read_bytes if way == "read" else each.written_bytes for each in profile.phases)
    return sum(each.get(library, 0) for each in sums)
