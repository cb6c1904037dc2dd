"""The wide table of observations that the computation tests analyse.

Every model behind it is known: predictors load on five factors or lie in six clusters, and each
response follows the coefficients given here. So a test can tell a right answer from a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import numpy as np

from gridwright.workload.datasets.quantiles import Draws, Floats, Integers, exp
from gridwright.workload.datasets.table import Columns, DataTable, Expected, TablePart

FACTORS = 5
PREDICTORS = tuple(f"x{number:02d}" for number in range(1, 41))
FACTORED = PREDICTORS[:32]
"""Predictor j (from 0) loads on factor j % FACTORS alone; each has mean 0 and variance 1."""
CLUSTERED = PREDICTORS[32:]
"""These lie around one of CENTRES, with variance 1 within a cluster."""
INCOMPLETE = ("x31", "x32")
"""Missing in one row of 50 each, whatever the values: the responses follow them nevertheless."""
LOADINGS = tuple(0.6 + 0.05 * (number % 6) for number in range(len(FACTORED)))

CENTRES = (
    (3, 3, 3, 3, 3, 3, 3, 3),
    (3, -3, 3, -3, 3, -3, 3, -3),
    (3, 3, -3, -3, 3, 3, -3, -3),
    (3, -3, -3, 3, 3, -3, -3, 3),
    (3, 3, 3, 3, -3, -3, -3, -3),
    (3, -3, 3, -3, -3, 3, -3, 3),
)
"""Rows of a Hadamard matrix: any two are 12 apart, twelve times the deviation within a cluster."""
_SHARES = (30, 55, 70, 85, 95, 100)
"""Per cent of rows up to and including each cluster."""

LINEAR = {"intercept": 3.0} | {
    name: (-1) ** number * (0.4 + 0.05 * (number % 5)) for number, name in enumerate(FACTORED[:16])
}
LINEAR_SIGMA = 2.0
BINARY = {
    "intercept": -0.5,
    **{"x01": 0.7, "x02": -0.6, "x08": 0.6, "x09": 0.5, "x15": -0.7, "x20": 0.6, "x22": 0.5, "x29": -0.6},
}
COUNT = {"intercept": 0.5, "x01": 0.2, "x07": -0.2, "x13": 0.15, "x19": 0.2, "x25": -0.25}
"""Logarithm of the mean of a Poisson count."""
GAMMA = {"intercept": 1.0, "x02": 0.3, "x08": -0.2, "x14": 0.25, "x20": -0.3, "x26": 0.2}
"""Logarithm of the mean of a gamma variable."""
GAMMA_SHAPE = 3
MIXED = {"intercept": 10.0, "x03": 0.6, "x02": 0.8, "x07": -0.5, "x11": 0.3}
MIXED_DEVIATIONS = (1.0, 0.4, 1.5)
"""Of the intercepts of the groups, of their slopes of x03, and of the residuals."""
LABELS = 4
LABEL_NOISE = 10
"""One label in so many is drawn at random: no rule is right more often than 1 - 3/4 * 1/10."""
CROSSED = ("x01", "x06", "x17", "x33")
"""Columns whose sums and sums of products are kept."""


def groups(rows: int) -> int:
    """How many groups a table of so many rows has."""
    return min(2000, max(20, rows // 200))


def group_effects(count: int) -> tuple[Floats, Floats]:
    """Intercepts and slopes of the groups, the same in every data set: shape (count,) each."""
    intercept, slope, _ = MIXED_DEVIATIONS
    return Draws(0x67726F, 1).normal(count) * intercept, Draws(0x67726F, 2).normal(count) * slope


def combine(coefficients: Mapping[str, float], columns: Mapping[str, Floats]) -> Floats:
    """Evaluate a linear predictor, in the order of its coefficients: shape as the columns."""
    total = np.full(len(next(iter(columns.values()))), coefficients["intercept"])
    for name, coefficient in coefficients.items():
        if name != "intercept":
            total = total + columns[name] * coefficient
    return total


def label_of(x05: Floats, x12: Floats) -> Integers:
    """The rule behind the labels: shape as given."""
    return 2 * (x05 > 0.3).astype(np.int64) + (x12 * x12 > 1.0).astype(np.int64)


def _predictors(part: TablePart) -> dict[str, Floats]:
    rows, draws = part.units, part.draws
    factors = [draws.normal(rows) for _ in range(FACTORS)]
    predictors: dict[str, Floats] = {}
    for number, name in enumerate(FACTORED):
        loading = LOADINGS[number]
        own = draws.normal(rows) * math.sqrt(1 - loading * loading)
        predictors[name] = factors[number % FACTORS] * loading + own
    cluster = np.searchsorted(np.array(_SHARES), draws.below(100, rows), side="right")
    centres = np.array(CENTRES, dtype=np.float64)
    for number, name in enumerate(CLUSTERED):
        predictors[name] = centres[cluster, number] + draws.normal(rows)
    return predictors


def _poisson(mean: Floats, draws: Draws) -> Integers:
    """Counts by inversion: shape as given."""
    uniform = draws.uniform(len(mean))
    # To the nearest step of exp's table, or the probabilities would not add up to 1.
    mean = np.floor(mean * 1024.0 + 0.5) / 1024.0
    term = exp(-mean)
    below, count = term.copy(), np.zeros(len(mean), dtype=np.int64)
    for number in range(1, 100):
        above = uniform > below
        if not above.any():
            break
        count += above
        term = term * mean / number
        below = below + term
    return count


def _mean(coefficients: Mapping[str, float], columns: Mapping[str, Floats]) -> Floats:
    # Half a step of exp's table more, so that its rounding down is rounding to the nearest.
    return exp(np.clip(combine(coefficients, columns), -3.0, 3.5) + 2.0**-11)


def _make(part: TablePart) -> Columns:
    rows, draws = part.units, part.draws
    x = _predictors(part)
    count = groups(part.total["observations"])
    group = draws.skewed(count, rows)
    intercepts, slopes = group_effects(count)
    effect = intercepts[group] + slopes[group] * x["x03"]
    gamma = draws.exponential(rows)
    for _ in range(GAMMA_SHAPE - 1):
        gamma = gamma + draws.exponential(rows)
    label = np.where(
        draws.below(LABEL_NOISE, rows) == 0, draws.below(LABELS, rows), label_of(x["x05"], x["x12"])
    )
    responses: Columns = {
        "y_linear": combine(LINEAR, x) + draws.normal(rows) * LINEAR_SIGMA,
        "y_binary": (draws.logistic(rows) < combine(BINARY, x)).astype(np.int64),
        "y_count": _poisson(_mean(COUNT, x), draws),
        "y_gamma": _mean(GAMMA, x) * gamma / GAMMA_SHAPE,
        "y_mixed": combine(MIXED, x) + effect + draws.normal(rows) * MIXED_DEVIATIONS[2],
    }
    seen: Columns = {
        name: draws.with_missing(values, 50) if name in INCOMPLETE else values for name, values in x.items()
    }
    number = np.arange(part.start, part.start + rows, dtype=np.int64)
    return {"id": number, **seen, "grp": group, **responses, "label": label}


def _expect(columns: Columns, part: TablePart) -> Expected:
    values = cast("dict[str, Floats]", columns)
    complete = ~(np.isnan(values["x31"]) | np.isnan(values["x32"]))
    linear, first = values["y_linear"][complete], values["x01"][complete]
    return {
        "complete": int(complete.sum()),
        "complete_linear": _sum(linear),
        "complete_linear_squared": _sum(linear * linear),
        "complete_linear_x01": _sum(linear * first),
        "binary": int(columns["y_binary"].astype(np.int64).sum()),
        "count": int(columns["y_count"].astype(np.int64).sum()),
        "gamma": _sum(values["y_gamma"]),
        "rows_by_label": np.bincount(columns["label"].astype(np.int64), minlength=LABELS),
        "rows_by_group": np.bincount(
            columns["grp"].astype(np.int64), minlength=groups(part.total["observations"])
        ),
        "rows_by_cluster": np.bincount(_nearest(values), minlength=len(CENTRES)),
        "sums": np.array([_sum(values[name]) for name in CROSSED]),
        "products": np.array([[_sum(values[one] * values[two]) for one in CROSSED] for two in CROSSED]),
    }


def _sum(values: Floats) -> float:
    """The sum, rounded once: the same in any order."""
    return math.fsum(values.tolist())


def _nearest(columns: Mapping[str, Floats]) -> Integers:
    """The cluster whose true centre is nearest, row by row."""
    distances = []
    for centre in CENTRES:
        distance = np.zeros(len(columns[CLUSTERED[0]]))
        for name, place in zip(CLUSTERED, centre, strict=True):
            distance = distance + (columns[name] - place) * (columns[name] - place)
        distances.append(distance)
    return np.asarray(np.argmin(np.stack(distances), axis=0), dtype=np.int64)


OBSERVATIONS = DataTable(
    "observations",
    {
        "id": "i8",
        **dict.fromkeys(PREDICTORS, "f8"),
        "grp": "i8",
        "y_linear": "f8",
        "y_binary": "i8",
        "y_count": "i8",
        "y_gamma": "f8",
        "y_mixed": "f8",
        "label": "i8",
    },
    _make,
    _expect,
)
"""48 columns, 384 bytes a row."""
