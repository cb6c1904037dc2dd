"""How evenly files lie on the targets of a Lustre, and what streams that use them get for it.

Sources: ltd_qos_penalties_calc and ltd_qos_update in lustre/obdclass/lu_tgt_descs.c, lod_ost_alloc_qos in
lustre/lod/lod_qos.c (Lustre 2.15, microsoft/amlFilesystem-lustre at 4d979b63). While free space is alike,
targets take turns. Else each stripe is drawn: a target's chance is its weight in that of all which the file
does not have yet. The weight is its free space less penalties: its own and its server's, which rise when it
is chosen and fall with each choice of another. Together they are about a tenth of the free space, and time
forgets them, so they matter for files that are made one after another.

Each of `files` streams moves one file, striped over `stripes` of `targets`. The last stream ends when the
fullest target is through, so together they get files * stripes / (targets * fullest) of what all targets
deliver, where `fullest` is how many stripes lie on that target. Lustre gives a file neighbours in the order
of its targets, round robin, while their free space is within 17 % (qos_threshold_rr). Files that are made one
after another then lie as evenly as they can. Those that streams meet later were made at other times, with
files of others between them: each begins at a target that is as likely as any other. Where free space is
further apart, stripes are drawn by weight, and the emptier targets have most of them.

Streams of a library all go as fast as each other, and each asks as much of every target of its file.
Libraries place their files without heed of each other, so what their streams ask of a target adds up,
placement by placement: a library more never asks less of any target.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
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


PLACEMENTS = 1000
"""Placements that are simulated: one in twenty is then known to a fifth of itself."""
SURE = 0.95
"""The part of all placements that a floor holds in."""
_SEED = 20_210_418
_MOST_DRAWN = 2**23
"""Files times targets that are drawn for placements by weight: 64 MiB of them."""
_ROWS, _MOST_IN_A_ROW = 51, 1024
"""Rows of files that are made one after another, and the stripes in each."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What streams get together, as parts of what all targets deliver (0 to 1)."""

    floor: float
    """In 95 % of placements at least this."""
    median: float
    in_order: float
    """Where all files were made one after another, and nothing else was."""
    of_streams: float = 1.0
    """The floor as a part of what streams would get if each had the targets of its file for itself."""


@lru_cache(maxsize=4096)
def spread(files: int, targets: int, stripes: int, space: tuple[TargetSpace, ...] | None = None) -> Spread:
    """What so many streams get of all targets, with files of so many stripes; below 1 means all targets.

    `space` has the free space of each target; None where all have as much. While targets take turns it is
    exact for one stripe, else out of 1000 simulated placements, the same ones each time.
    """
    there = targets if space is None else len(candidates(space))
    width = there if stripes < 1 else min(stripes, there)
    if width == 0:
        return Spread(0.0, 0.0, 0.0, 0.0)
    if width == there:
        part = there / targets
        return Spread(part, part, part, 1.0 if there == targets else 1 / files)
    if space is not None and is_weighted([each.available_bytes for each in space]):
        return _of_weighted(files, candidates(space), width, targets)
    if width == 1:
        middle = _fullest_of_balls(files, there, 0.5)
        sure = _fullest_of_balls(files, there, SURE)
    else:
        sure, middle = _quantiles(simulated_fullest(files, there, width))
    return _spread_of(files, targets, width, (sure, middle, math.ceil(files * width / there)))


def _spread_of(files: int, targets: int, width: int, fullest: tuple[int, int, float]) -> Spread:
    floor, median, ordered = (files * width / (targets * each) for each in fullest)
    return Spread(floor, median, ordered, 1 / fullest[0])


@lru_cache(maxsize=4096)
def chance_of_at_most(most: int, files: int, targets: int) -> float:
    """The chance that no target holds more than `most` of `files` files of one stripe each.

    P = n! / m^n [x^n] (sum of x^i / i! for i <= most)^m (balls into bins), worked out with Poisson weights
    of mean n / m, which leave it the same, by a Fourier transform that is long enough for every power.
    """
    import numpy as np

    if most * targets < files:
        return 0.0
    mean = files / targets
    counts = np.arange(most + 1)
    log_factorials = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, most + 1)))))
    weights = np.exp(counts * math.log(mean) - mean - log_factorials)
    length = 1 << (most * targets).bit_length()
    found = np.fft.irfft(_raised(np.fft.rfft(weights, length), targets), length)[files]
    of_all = math.exp(files * math.log(files) - files - math.lgamma(files + 1))
    return float(min(max(found / of_all, 0.0), 1.0))


def _raised(values: NDArray[np.complex128], power: int) -> NDArray[np.complex128]:
    """Each value to a whole power above 0, by squaring, which is ten times as fast as numpy is."""
    result = values if power & 1 else values * 0 + 1
    while power := power >> 1:
        values = values * values
        if power & 1:
            result = result * values
    return result


def simulated_fullest(files: int, targets: int, stripes: int) -> NDArray[np.int64]:
    """Stripes on the fullest target in each of 1000 placements, the same ones at every call."""
    array: NDArray[np.int64] = _round_robin_loads(files, targets, stripes).max(axis=1)
    return array


def _round_robin_loads(files: int, targets: int, stripes: int, seed: int = _SEED) -> NDArray[np.int64]:
    """Stripes on each target in each of 1000 placements of files with neighbours in the order of targets."""
    begun = _begun_before(files, targets, seed)
    loads: NDArray[np.int64] = begun[:, stripes : stripes + targets] - begun[:, :targets]
    return loads


@lru_cache(maxsize=8)
def _begun_before(files: int, targets: int, seed: int) -> NDArray[np.int64]:
    """How many files begin on targets before each one, twice around them all, by placement."""
    import numpy as np

    begun = np.random.default_rng(seed).multinomial(files, [1 / targets] * targets, size=PLACEMENTS)
    before: NDArray[np.int64] = np.zeros((PLACEMENTS, 2 * targets + 1), dtype=np.int64)
    np.cumsum(begun, axis=1, out=before[:, 1 : targets + 1])
    np.add(before[:, 1 : targets + 1], files, out=before[:, targets + 1 :])
    return before


def _fullest_of_balls(files: int, targets: int, part: float) -> int:
    """What the fullest target holds at most in this part of all placements of files with one stripe.

    The search begins beside the answer: of m targets with a Poisson load of mean n / m each, the fullest
    holds about sqrt(2 (n / m) ln m) more than the mean (Raab and Steger 1998, "Balls into Bins", theorem 1).
    """
    least = math.ceil(files / targets)
    low = least + int(math.sqrt(2 * files / targets * math.log(targets)))
    step = 1
    while low > least and chance_of_at_most(low, files, targets) >= part:
        low, step = max(least, low - step), 2 * step
    step = 1
    while chance_of_at_most(low + step, files, targets) < part:
        low, step = low + step, 2 * step
    high = low + step
    while low < high:
        middle = (low + high) // 2
        if chance_of_at_most(middle, files, targets) >= part:
            high = middle
        else:
            low = middle + 1
    return low


def _quantiles(fullest: NDArray[np.int64]) -> tuple[int, int]:
    """What the fullest target holds at most in SURE, and in half, of these placements."""
    import numpy as np

    sure, middle = np.quantile(fullest, (SURE, 0.5), method="inverted_cdf")
    return int(sure), int(middle)


def met_in_half(files: int, space: Sequence[TargetSpace], stripes: int) -> int:
    """How many targets the files lie on together, in half of all placements by weight."""
    import numpy as np

    there = candidates(space)
    if not 1 <= stripes < len(there):
        return len(there)
    loads = weighted_loads(files, there, stripes)
    return int(np.median((loads > 0).sum(axis=1)))


def weighted_loads(
    files: int, space: Sequence[TargetSpace], stripes: int, seed: int = _SEED
) -> NDArray[np.int64]:
    """Stripes on each target in each of 1000 placements of files that were drawn by weight.

    Placements are parts of one long row of files that are drawn each by itself, so that wide files on
    many targets take no more memory than a row of them.
    """
    import numpy as np

    weights = [each.available_bytes >> 8 for each in space]
    if stripes == 1:
        parts = np.asarray(weights, dtype=np.float64) / sum(weights)
        array: NDArray[np.int64] = np.random.default_rng(seed).multinomial(files, parts, size=PLACEMENTS)
        return array
    row = max(4 * files, min(files * PLACEMENTS, _MOST_DRAWN // len(space)))
    upto = np.zeros((row + 1, len(space)), dtype=np.int64)
    np.cumsum(drawn(weights, stripes, row, seed), axis=0, out=upto[1:])
    begun = np.linspace(0, row - files, PLACEMENTS).astype(np.int64)
    return np.asarray(upto[begun + files] - upto[begun])


def _of_weighted(files: int, space: tuple[TargetSpace, ...], width: int, targets: int) -> Spread:
    """The same where stripes are drawn by weight; one after another with the penalties of the allocator."""
    import numpy as np

    sure, middle = _quantiles(weighted_loads(files, space, width).max(axis=1))
    made = min(files, max(1, _MOST_IN_A_ROW // width))
    loads = made_in_a_row(space, width, made, _ROWS, _SEED)
    # Of longer rows the fullest target has its mean part, as chance evens out.
    ordered = float(
        np.median(loads.max(axis=1)) if made == files else loads.mean(axis=0).max() * files / made
    )
    return _spread_of(files, targets, width, (sure, middle, max(1.0, ordered)))


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
            asked += part * _round_robin_loads(library.streams, count, width, seed)
    return float(np.quantile(asked.max(axis=1), SURE, method="inverted_cdf"))
