"""On which targets Lustre puts the stripes of a new file, by the space that each has left.

Sources: ltd_qos_penalties_calc and ltd_qos_update in lustre/obdclass/lu_tgt_descs.c, lod_ost_alloc_qos in
lustre/lod/lod_qos.c (Lustre 2.15, microsoft/amlFilesystem-lustre at 4d979b63). While free space is alike,
targets take turns. Else each stripe is drawn: a target's chance is its weight in that of all which the file
does not have yet. The weight is its free space less penalties: its own and its server's, which rise when it
is chosen and fall with each choice of another. Together they are about a tenth of the free space, and time
forgets them, so they matter for files that are made one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PARTS = 256
"""QOS_THRESHOLD_MAX: thresholds and priorities are kept in so many parts."""
THRESHOLD = 17 * PARTS // 100
"""qos_threshold_rr, 17 % by default, in those parts: 43, which is 16.8 %."""
PRIO_WIDE = PARTS - 90 * PARTS // 100
"""What qos_prio_free (90 % by default) leaves to penalties, in those parts: 26."""


@dataclass(frozen=True, slots=True)
class TargetSpace:
    """What the allocator knows of a target. Sizes in bytes."""

    name: str
    available_bytes: int
    total_bytes: int
    server: str = ""
    """Its server's address or name; empty where nobody says."""
    takes_files: bool = True
    """False for one that is degraded, read-only, or told to take no new files."""

    @property
    def free_part(self) -> float:
        """What is available of it (0 to 1)."""
        return self.available_bytes / self.total_bytes if self.total_bytes else 0.0


def candidates(space: Sequence[TargetSpace]) -> tuple[TargetSpace, ...]:
    """The targets that new files may lie on: not those without space."""
    return tuple(each for each in space if each.takes_files and each.available_bytes >> 8 > 0)


def fullest_and_emptiest(space: Sequence[TargetSpace]) -> tuple[TargetSpace, TargetSpace] | None:
    """Of targets that new files may lie on; None where they take turns, as their space is alike."""
    there = candidates(space)
    if not is_weighted([each.available_bytes for each in there]):
        return None

    def space_left(target: TargetSpace) -> int:
        return target.available_bytes

    return min(there, key=space_left), max(there, key=space_left)


def is_weighted(available_bytes: Sequence[int]) -> bool:
    """Whether the free space of targets is so far apart that Lustre no longer goes round them in turn.

    It holds the least against the most, in units of 256 bytes; a target without space counts for neither.
    """
    there = [each >> 8 for each in available_bytes if each >> 8 > 0]
    if len(there) < 2:
        return False
    return max(there) * (PARTS - THRESHOLD) // PARTS >= min(there)


def drawn(weights: Sequence[int], stripes: int, files: int, seed: int) -> NDArray[np.bool_]:
    """Which targets each of `files` files lies on, drawn one by one by weight, each target once a file.

    Each file forgets the others: penalties have faded. A target with a key of exponential distribution over
    its weight comes first with the chance of its weight in that of all, and so do those that are left.
    """
    import numpy as np

    chance = np.random.default_rng(seed)
    keys = chance.standard_exponential((files, len(weights)), dtype=np.float32)
    keys /= np.asarray(weights, dtype=np.float64) / max(weights)
    found = np.zeros(keys.shape, dtype=np.bool_)
    first = np.argpartition(keys, stripes - 1, axis=1)[:, :stripes]
    np.put_along_axis(found, first, values=True, axis=1)
    return found


def made_in_a_row(
    space: Sequence[TargetSpace], stripes: int, files: int, rows: int, seed: int
) -> NDArray[np.int64]:
    """How many stripes lie on each target after `files` files were made one after another, in each of `rows`.

    With penalties as the allocator keeps them, from none on.
    """
    import numpy as np

    penalties = _Penalties(space, rows)
    chance = np.random.default_rng(seed)
    loads = np.zeros((rows, len(space)), dtype=np.int64)
    each_row = np.arange(rows)
    for _ in range(files):
        usable = np.ones(loads.shape, dtype=np.bool_)
        for _ in range(stripes):
            upto = np.cumsum(penalties.weights() * usable, axis=1)
            drawn_at = chance.random((rows, 1)) * upto[:, -1:]
            # Of those that are left; where none has any weight, the first of them.
            reached = ((upto >= drawn_at) & usable).argmax(axis=1)
            usable[each_row, reached] = False
            loads[each_row, reached] += 1
            penalties.chose(reached)
    return loads


class _Penalties:
    """What targets and servers lose of their weight, in each of several rows of files."""

    def __init__(self, space: Sequence[TargetSpace], rows: int) -> None:
        import numpy as np

        self._free = np.asarray([each.available_bytes >> 8 for each in space], dtype=np.float64)
        names = sorted({each.server for each in space})
        self._server = np.asarray([names.index(each.server) for each in space])
        count, servers = len(space), len(names)
        self._targets, self._servers = count, servers
        self._of_target = np.floor(PRIO_WIDE * self._free / 2 / PARTS / max(count - 1, 1))
        if servers == 1:
            self._of_target *= 2
        free_of = np.bincount(self._server, self._free, servers)
        targets_of = np.bincount(self._server, minlength=servers)
        self._of_server = np.floor(PRIO_WIDE * free_of / PARTS / (targets_of * max(servers - 1, 1)) / 2)
        self._target_has = np.zeros((rows, count))
        self._server_has = np.zeros((rows, servers))

    def weights(self) -> NDArray[np.float64]:
        """What is left of the free space of each target, in units of 256 bytes."""
        import numpy as np

        left = self._free - self._target_has - self._server_has[:, self._server]
        array: NDArray[np.float64] = np.maximum(left, 0.0)
        return array

    def chose(self, targets: NDArray[np.intp]) -> None:
        """Halve and raise the penalties of those that were chosen, and take one share off all."""
        import numpy as np

        rows = np.arange(len(targets))
        servers = self._server[targets]
        for has, share, count, at in (
            (self._target_has, self._of_target, self._targets, targets),
            (self._server_has, self._of_server, self._servers, servers),
        ):
            has[rows, at] = np.floor(has[rows, at] / 2) + share[at] * count
            np.maximum(has - share, 0.0, out=has)
