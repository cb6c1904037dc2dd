"""How evenly files lie on the targets of a file system, and what streams that use them get for it.

Each of `files` streams moves one file, striped over `stripes` of `targets`. The last stream ends when the
fullest target is through, so together they get files * stripes / (targets * fullest) of what all targets
deliver, where `fullest` is how many stripes lie on that target. Lustre gives a file neighbours in the order
of its targets, round robin, while their free space is within 17 % (qos_threshold_rr). Files that are made one
after another then lie as evenly as they can. Those that streams meet later were made at other times, with
files of others between them: each begins at a target that is as likely as any other. Where free space is
further apart, stripes are drawn by weight (`gridwright.filesystems.allocation`), and the emptier targets have
most of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from gridwright.filesystems.allocation import TargetSpace, candidates, drawn, is_weighted, made_in_a_row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    array: NDArray[np.int64] = round_robin_loads(files, targets, stripes).max(axis=1)
    return array


def round_robin_loads(files: int, targets: int, stripes: int, seed: int = _SEED) -> NDArray[np.int64]:
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
