"""Random columns that are the same bytes on every machine.

numpy's own distributions may change with its release, and its exp and log with the processor. So
every draw here is a look-up in a table of quantiles, worked out once with Python's `math` and
`statistics` and rounded to nine decimals; all that follows is adding and multiplying.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

_LEVELS = 1 << 16
_EXP_STEPS = 1024
_EXP_SPAN = 40


@cache
def _levels() -> list[float]:
    return [(level + 0.5) / _LEVELS for level in range(_LEVELS)]


@cache
def _normal() -> Floats:
    inverse = NormalDist().inv_cdf
    return np.array([round(inverse(p), 9) for p in _levels()])


@cache
def _logistic() -> Floats:
    return np.array([round(math.log(p / (1 - p)), 9) for p in _levels()])


@cache
def _exponential() -> Floats:
    return np.array([round(-math.log1p(-p), 9) for p in _levels()])


class Draws:
    """A stream of random numbers, named by integers: the same names give the same numbers.

    PCG64 and SeedSequence are fixed by numpy's compatibility policy (NEP 19).
    """

    def __init__(self, *names: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(list(names)))

    def words(self, count: int) -> Words:
        """Uniform 64-bit words, shape (count,)."""
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)

    def uniform(self, count: int) -> Floats:
        """Uniform in [0, 1), shape (count,), in steps of 2^-53."""
        return (self.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, bound: int, count: int) -> Integers:
        """Uniform integers in [0, bound), shape (count,); `bound` below 2^31."""
        return (((self.words(count) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)

    def skewed(self, bound: int, count: int) -> Integers:
        """Integers in [0, bound), shape (count,): cubes of uniforms, so that 10 % take 46 % of the draws."""
        uniform = self.uniform(count)
        return (uniform * uniform * uniform * bound).astype(np.int64)

    def normal(self, count: int) -> Floats:
        """Standard normal, shape (count,)."""
        return _normal()[self._lanes(count)]

    def logistic(self, count: int) -> Floats:
        """Standard logistic, shape (count,): the error of a logit model."""
        return _logistic()[self._lanes(count)]

    def exponential(self, count: int) -> Floats:
        """Standard exponential, shape (count,)."""
        return _exponential()[self._lanes(count)]

    def with_missing(self, values: Floats, one_in: int) -> Floats:
        """The values with about one in `one_in` missing (NaN, which is how a SAS data set keeps it)."""
        return np.where(self.below(one_in, len(values)) == 0, np.nan, values)

    def _lanes(self, count: int) -> NDArray[np.uint16]:
        """Uniform 16-bit levels: four to a word."""
        return self.words(-(-count // 4)).view(np.uint16)[:count]


@cache
def _exp_tables() -> tuple[Floats, Floats]:
    whole = np.array([math.exp(n) for n in range(-_EXP_SPAN, _EXP_SPAN + 1)])
    part = np.array([round(math.exp(n / _EXP_STEPS), 12) for n in range(_EXP_STEPS)])
    return np.array([float(f"{value:.12e}") for value in whole]), part


def exp(values: Floats) -> Floats:
    """Give e to the power of values in (-40, 40), in steps of 1/1024; shape as given."""
    steps = np.floor(values * _EXP_STEPS).astype(np.int64)
    whole, part = _exp_tables()
    return whole[steps // _EXP_STEPS + _EXP_SPAN] * part[steps % _EXP_STEPS]
