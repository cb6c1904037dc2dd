"""How evenly files lie on the targets of a file system, and what streams that use them get for it.

Each of `files` streams moves one file, striped over `stripes` of `targets`. The last stream ends when the
fullest target is through, so together they get files * stripes / (targets * fullest) of what all targets
deliver, where `fullest` is how many stripes lie on that target. Lustre gives a file neighbours in the order
of its targets, round robin, while their free space is within 17 % (qos_threshold_rr). Files that are made one
after another then lie as evenly as they can. Those that streams meet later were made at other times, with
files of others between them: each begins at a target that is as likely as any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PLACEMENTS = 1000
"""Placements that are simulated: one in twenty is then known to a fifth of itself."""
SURE = 0.95
"""The part of all placements that a floor holds in."""
_SEED = 20_210_418


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
def spread(files: int, targets: int, stripes: int) -> Spread:
    """What so many streams get of all targets, with files of so many stripes; below 1 means all targets.

    With one stripe it is exact, else out of 1000 simulated placements, the same ones each time.
    """
    width = targets if stripes < 1 else min(stripes, targets)
    if width == targets:
        return Spread(1.0, 1.0, 1.0)
    if width == 1:
        sure, middle = (_fullest_of_balls(files, targets, part) for part in (SURE, 0.5))
    else:
        sure, middle = (_fullest_simulated(files, targets, width, part) for part in (SURE, 0.5))
    in_order = math.ceil(files * width / targets)
    floor, median, ordered = (files * width / (targets * fullest) for fullest in (sure, middle, in_order))
    return Spread(floor, median, ordered, 1 / sure)


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
    spectrum = np.fft.rfft(weights, most * targets + 1) ** targets
    found = np.fft.irfft(spectrum, most * targets + 1)[files]
    of_all = math.exp(files * math.log(files) - files - math.lgamma(files + 1))
    return float(min(max(found / of_all, 0.0), 1.0))


def simulated_fullest(files: int, targets: int, stripes: int) -> NDArray[np.int64]:
    """Stripes on the fullest target in each of 1000 placements, the same ones at every call."""
    import numpy as np

    begun = _begun(files, targets)
    around = np.concatenate((begun, begun[:, : stripes - 1]), axis=1) if stripes > 1 else begun
    summed = np.cumsum(around, axis=1)
    loads = summed[:, stripes - 1 :].copy()
    loads[:, 1:] -= summed[:, : around.shape[1] - stripes]
    found: NDArray[np.int64] = loads.max(axis=1)
    return found


@lru_cache(maxsize=8)
def _begun(files: int, targets: int) -> NDArray[np.int64]:
    """How many files begin on each target, by placement."""
    import numpy as np

    made: NDArray[np.int64] = np.random.default_rng(_SEED).multinomial(
        files, [1 / targets] * targets, size=PLACEMENTS
    )
    return made


def _fullest_of_balls(files: int, targets: int, part: float) -> int:
    """What the fullest target holds at most in this part of all placements of files with one stripe."""
    low, step = math.ceil(files / targets), 1
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


def _fullest_simulated(files: int, targets: int, stripes: int, part: float) -> int:
    import numpy as np

    return int(np.quantile(simulated_fullest(files, targets, stripes), part, method="inverted_cdf"))
