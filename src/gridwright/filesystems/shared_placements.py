"""What the fullest target has to carry while streams of several libraries use the same targets at once.

Streams of a library all go as fast as each other, and each asks as much of every target of its file.
Libraries place their files without heed of each other, so what their streams ask of a target adds up,
placement by placement: a library more never asks less of any target.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache

from gridwright.filesystems.allocation import TargetSpace, candidates, is_weighted
from gridwright.filesystems.placements import PLACEMENTS, SURE, round_robin_loads, weighted_loads


@dataclass(frozen=True, slots=True)
class LibraryStreams:
    """Streams of a library, each with a file of so many stripes (below 1: on all) at so many bytes/s."""

    library: str
    streams: int
    stripes: int
    bytes_per_s: float


@lru_cache(maxsize=1024)
def load_of_fullest(
    libraries: tuple[LibraryStreams, ...], targets: int, space: tuple[TargetSpace, ...] | None = None
) -> float:
    """What these ask of the target that has to deliver most, in bytes/s: at most, in 95 % of placements.

    `space` has the free space of each target; None where all have as much.
    """
    import numpy as np

    there = None if space is None else candidates(space)
    count = targets if there is None else len(there)
    asked = np.zeros((PLACEMENTS, count))
    for library in libraries:
        width = count if library.stripes < 1 else min(library.stripes, count)
        part = library.bytes_per_s / width
        # The name makes the placements of a library its own, and the same ones whoever else is there.
        seed = zlib.crc32(library.library.encode())
        if width == count:
            asked += part * library.streams
        elif there is not None and is_weighted([one.available_bytes for one in there]):
            asked += part * weighted_loads(library.streams, there, width, seed)
        else:
            asked += part * round_robin_loads(library.streams, count, width, seed)
    return float(np.quantile(asked.max(axis=1), SURE, method="inverted_cdf"))
