"""Many short time series of four kinds, each with a known model.

Series number s is of kind s % 4: stationary with a positive or a negative autoregression, trend
and season with autoregressive noise, and a local level, for which simple exponential smoothing is
the best forecast.
"""

from __future__ import annotations

import math

import numpy as np

from gridwright.workload.datasets.quantiles import Draws, Floats, Integers
from gridwright.workload.datasets.table import Columns, DataTable, Expected, TablePart

PERIODS = 60
SEASON = 12
KINDS = 4
POSITIVE, NEGATIVE, SEASONAL, LEVEL = range(KINDS)
AUTOREGRESSION = {POSITIVE: 0.7, NEGATIVE: -0.4, SEASONAL: 0.3}
SMOOTHING = 0.3
"""What a shock adds to the level of a series of kind LEVEL."""
PATTERN = (0.0, 0.5, 0.87, 1.0, 0.87, 0.5, 0.0, -0.5, -0.87, -1.0, -0.87, -0.5)
AMPLITUDE = 8.0


def _autoregressive(draws: Draws, count: int, coefficient: float) -> Floats:
    """AR(1) with unit shocks, from its stationary distribution: shape (count, PERIODS)."""
    found = draws.normal(count * PERIODS).reshape(count, PERIODS)
    found[:, 0] *= 1 / math.sqrt(1 - coefficient * coefficient)
    for period in range(1, PERIODS):
        found[:, period] += found[:, period - 1] * coefficient
    return found


def _local_level(draws: Draws, count: int) -> Floats:
    """Level that moves by SMOOTHING times each shock, and the shock: shape (count, PERIODS)."""
    found = draws.normal(count * PERIODS).reshape(count, PERIODS)
    level = np.zeros(count)
    for period in range(PERIODS):
        shock = found[:, period].copy()
        found[:, period] += level
        level = level + shock * SMOOTHING
    return found


def _of_kind(kind: int, draws: Draws, count: int) -> Floats:
    base = (20.0 + draws.uniform(count) * 80.0)[:, np.newaxis]
    if kind == LEVEL:
        return base + _local_level(draws, count)
    found = base + _autoregressive(draws, count, AUTOREGRESSION[kind])
    if kind == SEASONAL:
        slope = (0.1 + draws.uniform(count) * 0.4)[:, np.newaxis]
        season = np.array([PATTERN[period % SEASON] * AMPLITUDE for period in range(PERIODS)])
        found = found + slope * np.arange(PERIODS, dtype=np.float64) + season
    return found


def _make(part: TablePart) -> Columns:
    number = np.arange(part.start, part.start + part.units, dtype=np.int64)
    values = np.empty((part.units, PERIODS))
    for kind in range(KINDS):
        chosen = number % KINDS == kind
        values[chosen] = _of_kind(kind, part.draws, int(chosen.sum()))
    return {
        "series": np.repeat(number, PERIODS),
        "period": np.tile(np.arange(PERIODS, dtype=np.int64), part.units),
        "value": values.ravel(),
    }


def _expect(columns: Columns, _part: TablePart) -> Expected:
    kind: Integers = columns["series"].astype(np.int64) % KINDS
    value = columns["value"].astype(np.float64)
    return {
        "rows_by_kind": np.bincount(kind, minlength=KINDS),
        "sum_by_kind": np.array([math.fsum(value[kind == each].tolist()) for each in range(KINDS)]),
    }


SERIES = DataTable(
    "series",
    {"series": "i8", "period": "i8", "value": "f8"},
    _make,
    _expect,
    rows_per_unit=PERIODS,
)
"""One unit is one series: PERIODS rows of 24 bytes."""
