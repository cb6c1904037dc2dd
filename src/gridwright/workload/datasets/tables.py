"""The tables of the data set, each with a known answer: accounts and orders, observations, series, problems.

A value is missing where it is NaN: a SAS data set, too, keeps a missing number in its eight bytes. Money
is in whole cents, so that sums are exact in any order.

Every model behind it is known: predictors load on five factors or lie in six clusters, and each response
follows the coefficients given here. So a test can tell a right answer from a wrong one.

Series number s is of kind s % 4: stationary with a positive or a negative autoregression, trend and season
with autoregressive noise, and a local level, for which simple exponential smoothing is the best forecast.

The linear program is built around a plan and prices that prove each other optimal (complementary
slackness). The knapsack's optimum is found by dynamic programming when the table is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import numpy as np

from gridwright.workload.datasets.table import (
    Columns,
    DataTable,
    Draws,
    Expected,
    Floats,
    Integers,
    TablePart,
    exp,
    labels,
)

REGIONS = labels([f"region {number:02d}" for number in range(12)], 16)
CHANNELS = labels(["branch", "online", "partner", "phone"], 8)
STATUSES = labels(["booked", "settled", "disputed", "void"], 8)
STORES = 400
SEGMENTS = 20
VARIABLES = 12
"""Measurements per subject."""
MEASURES = 14
_FIRST_DAY = 14_610
"""2010-01-01 in days since 1970."""


def account_of(number: Integers) -> Integers:
    """The account with a running number, in ascending order; shape as given."""
    return number * 7 + 1_000_003


def segment_of(account: Integers) -> Integers:
    """The segment of an account: a fixed function of it, so that a join can be checked without one."""
    return (account * 2_654_435_761 >> 16) % SEGMENTS


def _transactions(part: TablePart) -> Columns:
    rows, draws = part.units, part.draws
    account = account_of(draws.skewed(part.total["accounts"], rows))
    market = draws.normal(rows)
    columns: Columns = {
        "transaction": np.arange(part.start, part.start + rows, dtype=np.int64),
        "account": account,
        "posted": _FIRST_DAY + draws.below(5000, rows),
        "store": draws.skewed(STORES, rows),
        "product": draws.skewed(20_000, rows),
        "amount_cents": 100 + draws.skewed(500_000, rows),
        "region": REGIONS[draws.skewed(len(REGIONS), rows)],
        "channel": CHANNELS[draws.below(len(CHANNELS), rows)],
        "status": STATUSES[draws.skewed(len(STATUSES), rows)],
    }
    for number in range(1, MEASURES + 1):
        own = draws.normal(rows)
        columns[f"m{number:02d}"] = draws.with_missing(market * (number / MEASURES) + own, 50)
    return columns


def _expect_transactions(columns: Columns, part: TablePart) -> Expected:
    cents = columns["amount_cents"].astype(np.int64)
    store = columns["store"].astype(np.int64)
    segment = segment_of(columns["account"].astype(np.int64))
    third = columns["m03"].astype(np.float64)
    return {
        "cents": int(cents.sum()),
        "rows_by_store": np.bincount(store, minlength=STORES),
        "cents_by_store": _sum_by(store, cents, STORES),
        "rows_by_segment": np.bincount(segment, minlength=SEGMENTS),
        "cents_by_segment": _sum_by(segment, cents, SEGMENTS),
        "missing_m03": int(np.isnan(third).sum()),
        "m03_by_store": np.bincount(store, weights=np.nan_to_num(third), minlength=STORES),
    }


def _sum_by(code: Integers, values: Integers, codes: int) -> Integers:
    """Sums of values by code, exact: shape (codes,). A float sum would round beyond 2^53."""
    low = np.bincount(code, weights=(values & 0xFFFF).astype(np.float64), minlength=codes)
    high = np.bincount(code, weights=(values >> 16).astype(np.float64), minlength=codes)
    return low.astype(np.int64) + (high.astype(np.int64) << 16)


_TRANSACTIONS = {
    "transaction": "i8",
    "account": "i8",
    "posted": "i8",
    "store": "i8",
    "product": "i8",
    "amount_cents": "i8",
    "region": "S16",
    "channel": "S8",
    "status": "S8",
    **{f"m{number:02d}": "f8" for number in range(1, MEASURES + 1)},
}
TRANSACTIONS = DataTable("transactions", _TRANSACTIONS, _transactions, _expect_transactions)
ADDITIONS = DataTable("additions", _TRANSACTIONS, _transactions, _expect_transactions)
"""New transactions, of the same columns, to be appended."""


def _settlements(part: TablePart) -> Columns:
    """One settlement for each transaction, in another order: an affine permutation of their numbers."""
    rows, draws = part.units, part.draws
    number = np.arange(part.start, part.start + rows, dtype=np.int64)
    return {
        "settlement": number,
        "transaction": (number * _coprime(part.total["transactions"]) + 11) % part.total["transactions"],
        "settled": _FIRST_DAY + draws.below(5000, rows),
        "fee_cents": draws.skewed(2_000, rows),
        "channel": CHANNELS[draws.below(len(CHANNELS), rows)],
        **{f"s{n:02d}": draws.with_missing(draws.normal(rows), 100) for n in range(1, 9)},
    }


def _coprime(count: int) -> int:
    """A large step that visits each of `count` numbers once."""
    return next(step for step in range(1_000_003, 2_000_000) if math.gcd(step, count) == 1)


def _expect_settlements(columns: Columns, part: TablePart) -> Expected:
    fee = columns["fee_cents"].astype(np.int64)
    return {"fee_cents": int(fee.sum()), "late": int((columns["settled"].astype(np.int64) > 19_000).sum())}


SETTLEMENTS = DataTable(
    "settlements",
    {
        "settlement": "i8",
        "transaction": "i8",
        "settled": "i8",
        "fee_cents": "i8",
        "channel": "S8",
        **{f"s{n:02d}": "f8" for n in range(1, 9)},
    },
    _settlements,
    _expect_settlements,
)


def _accounts(part: TablePart) -> Columns:
    rows, draws = part.units, part.draws
    account = account_of(np.arange(part.start, part.start + rows, dtype=np.int64))
    score = draws.normal(rows)
    return {
        "account": account,
        "segment": segment_of(account),
        "opened": _FIRST_DAY - draws.below(4000, rows),
        "limit_cents": 10_000 * (1 + draws.skewed(1000, rows)),
        "region": REGIONS[draws.below(len(REGIONS), rows)],
        **{f"score{n}": draws.with_missing(score * n / 6 + draws.normal(rows), 20) for n in range(1, 7)},
    }


ACCOUNTS = DataTable(
    "accounts",
    {
        "account": "i8",
        "segment": "i8",
        "opened": "i8",
        "limit_cents": "i8",
        "region": "S16",
        **{f"score{n}": "f8" for n in range(1, 7)},
    },
    _accounts,
)


def _orders(part: TablePart) -> Columns:
    """Orders of consecutive accounts: most have few, every fifth account has none."""
    accounts, draws = part.units, part.draws
    number = np.arange(part.start, part.start + accounts, dtype=np.int64)
    count = np.where(draws.below(5, accounts) == 0, 0, 1 + draws.skewed(9, accounts))
    account = np.repeat(account_of(number), count)
    rows = len(account)
    return {
        "account": account,
        "order": (part.start << 8) + np.arange(rows, dtype=np.int64),
        "ordered": _FIRST_DAY + draws.below(5000, rows),
        "quantity": 1 + draws.skewed(40, rows),
        "price_cents": 50 + draws.skewed(90_000, rows),
        "channel": CHANNELS[draws.below(len(CHANNELS), rows)],
        "status": STATUSES[draws.skewed(len(STATUSES), rows)],
        **{f"d{n:02d}": draws.with_missing(draws.normal(rows), 100) for n in range(1, 10)},
    }


def _expect_orders(columns: Columns, part: TablePart) -> Expected:
    account = columns["account"].astype(np.int64)
    cents = columns["quantity"].astype(np.int64) * columns["price_cents"].astype(np.int64)
    segment = segment_of(account)
    return {
        "accounts_with_orders": len(np.unique(account)),
        "cents": int(cents.sum()),
        "cents_by_segment": _sum_by(segment, cents, SEGMENTS),
    }


ORDERS = DataTable(
    "orders",
    {
        "account": "i8",
        "order": "i8",
        "ordered": "i8",
        "quantity": "i8",
        "price_cents": "i8",
        "channel": "S8",
        "status": "S8",
        **{f"d{n:02d}": "f8" for n in range(1, 10)},
    },
    _orders,
    _expect_orders,
    rows_per_unit=3,
)


def _measurements(part: TablePart) -> Columns:
    subjects, draws = part.units, part.draws
    rows = subjects * VARIABLES
    level = np.repeat(draws.normal(subjects), VARIABLES)
    return {
        "subject": np.repeat(np.arange(part.start, part.start + subjects, dtype=np.int64), VARIABLES),
        "variable": np.tile(np.arange(VARIABLES, dtype=np.int64), subjects),
        "taken": _FIRST_DAY + draws.below(5000, rows),
        "value": draws.with_missing(level + draws.normal(rows), 40),
    }


def _expect_measurements(columns: Columns, part: TablePart) -> Expected:
    variable = columns["variable"].astype(np.int64)
    value = columns["value"].astype(np.float64)
    return {
        "missing_by_variable": np.bincount(variable[np.isnan(value)], minlength=VARIABLES),
        "sum_by_variable": np.bincount(variable, weights=np.nan_to_num(value), minlength=VARIABLES),
        "days": int(columns["taken"].astype(np.int64).sum()),
    }


MEASUREMENTS = DataTable(
    "measurements",
    {"subject": "i8", "variable": "i8", "taken": "i8", "value": "f8"},
    _measurements,
    _expect_measurements,
    rows_per_unit=VARIABLES,
)


def _extract(part: TablePart) -> Columns:
    rows, draws = part.units, part.draws
    return {
        "entry": np.arange(part.start, part.start + rows, dtype=np.int64),
        "account": account_of(draws.skewed(part.total["accounts"], rows)),
        "day": _FIRST_DAY + draws.below(5000, rows),
        "amount_cents": draws.skewed(500_000, rows) - 20_000,
        "quantity": 1 + draws.skewed(40, rows),
        "category": REGIONS[draws.skewed(len(REGIONS), rows)],
        "status": STATUSES[draws.skewed(len(STATUSES), rows)],
        "note": _notes(draws, rows),
    }


def _notes(draws: Draws, rows: int) -> np.ndarray[tuple[int], np.dtype[np.bytes_]]:
    words = labels([f"entered by clerk {number:03d}, unchecked" for number in range(500)], 40)
    return words[draws.below(500, rows)]


def valid_entries(columns: Columns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A mask of the rows that the test processes: not void, and of a positive amount."""
    void = columns["status"] == STATUSES[-1]
    return np.asarray((columns["amount_cents"].astype(np.int64) > 0) & ~void, dtype=np.bool_)


def _expect_extract(columns: Columns, part: TablePart) -> Expected:
    kept = valid_entries(columns)
    cents = columns["amount_cents"].astype(np.int64)
    quantity = columns["quantity"].astype(np.int64)
    return {
        "cents": int(cents.sum()),
        "kept": int(kept.sum()),
        "kept_cents": int(cents[kept].sum()),
        "kept_value_cents": int((cents[kept] * quantity[kept]).sum()),
        "kept_days": int(columns["day"].astype(np.int64)[kept].sum()),
    }


EXTRACT = DataTable(
    "extract",
    {
        "entry": "i8",
        "account": "i8",
        "day": "i8",
        "amount_cents": "i8",
        "quantity": "i8",
        "category": "S16",
        "status": "S8",
        "note": "S40",
    },
    _extract,
    _expect_extract,
    format="csv",
)


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


def _make_observations(part: TablePart) -> Columns:
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


def _expect_observations(columns: Columns, part: TablePart) -> Expected:
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
    _make_observations,
    _expect_observations,
)
"""48 columns, 384 bytes a row."""


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


def _make_series(part: TablePart) -> Columns:
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


def _expect_series(columns: Columns, _part: TablePart) -> Expected:
    kind: Integers = columns["series"].astype(np.int64) % KINDS
    value = columns["value"].astype(np.float64)
    return {
        "rows_by_kind": np.bincount(kind, minlength=KINDS),
        "sum_by_kind": np.array([math.fsum(value[kind == each].tolist()) for each in range(KINDS)]),
    }


SERIES = DataTable(
    "series",
    {"series": "i8", "period": "i8", "value": "f8"},
    _make_series,
    _expect_series,
    rows_per_unit=PERIODS,
)
"""One unit is one series: PERIODS rows of 24 bytes."""


ITEMS_PER_PROBLEM = 256
ROWS = 128
"""Constraints of a linear program: those of its first ROWS items, `requirement` being what they need."""
ENTRIES = 4
"""Constraints an item takes part in: `row_k` with coefficient `entry_k`."""
CHOICES = 4
"""Items follow each other in sets of so many; a knapsack takes at most one of a set."""
_PART_OF_WEIGHT = 10


def _make_items(part: TablePart) -> Columns:
    draws, count = part.draws, part.units * ITEMS_PER_PROBLEM
    problem = np.repeat(np.arange(part.start, part.start + part.units, dtype=np.int64), ITEMS_PER_PROBLEM)
    item = np.tile(np.arange(ITEMS_PER_PROBLEM, dtype=np.int64), part.units)
    weight = 10 + draws.below(90, count)
    total = weight.reshape(part.units, -1).sum(axis=1)
    return {
        "problem": problem,
        "item": item,
        "weight": weight,
        "value": weight + draws.below(60, count),
        "capacity": np.repeat(total // _PART_OF_WEIGHT, ITEMS_PER_PROBLEM),
        **_linear_program(draws, part.units, item),
    }


def _linear_program(draws: Draws, problems: int, item: Integers) -> Columns:
    """Minimise cost * x where A x >= requirement and x >= 0, with its optimum: `plan` and `price`."""
    count = problems * ITEMS_PER_PROBLEM
    base = np.repeat(np.arange(problems, dtype=np.int64) * ITEMS_PER_PROBLEM, ITEMS_PER_PROBLEM)
    first, step = draws.below(ROWS, count), 1 + 2 * draws.below(ROWS // 2 // ENTRIES, count)
    # Odd steps, at most ENTRIES - 1 of them: no row comes twice.
    rows = [(first + step * number) % ROWS for number in range(ENTRIES)]
    entries = [1 + draws.below(9, count) for _ in range(ENTRIES - 1)] + [-1 - draws.below(3, count)]
    plan = np.where(draws.below(5, count) < 2, 1 + draws.below(50, count), 0)
    price = np.where((item < ROWS) & (draws.below(4, count) > 0), 1 + draws.below(20, count), 0)
    slack = np.where((item < ROWS) & (price == 0), draws.below(30, count), 0)
    reduced = np.where(plan == 0, draws.below(40, count), 0)
    cost, requirement = reduced, -slack
    for row, entry in zip(rows, entries, strict=True):
        cost = cost + entry * price[base + row]
        requirement = requirement + _sums(base + row, entry * plan, count)
    columns: Columns = {"cost": cost, "requirement": requirement, "plan": plan, "price": price}
    for number in range(ENTRIES):
        columns |= {f"row_{number}": rows[number], f"entry_{number}": entries[number]}
    return columns


def _sums(place: Integers, amount: Integers, count: int) -> Integers:
    """Sums of amounts by place: shape (count,). They are small integers, so floats are exact."""
    return np.bincount(place, weights=amount.astype(np.float64), minlength=count).astype(np.int64)


def _expect_items(columns: Columns, part: TablePart) -> Expected:
    table = {name: values.astype(np.int64) for name, values in columns.items()}
    weight, value, capacity = (
        table[name].reshape(part.units, ITEMS_PER_PROBLEM) for name in ("weight", "value", "capacity")
    )
    return {
        "linear_optimum": int((table["cost"] * table["plan"]).sum()),
        "linear_bound": int((table["requirement"] * table["price"]).sum()),
        "knapsack_optimum": sum(
            _knapsack(weight[number], value[number], int(capacity[number, 0])) for number in range(part.units)
        ),
    }


def _knapsack(weight: Integers, value: Integers, capacity: int) -> int:
    """The largest value of items of at most `capacity` weight, at most one of each set."""
    best = np.zeros(capacity + 1, dtype=np.int64)
    for start in range(0, len(weight), CHOICES):
        grown = best.copy()
        for number in range(start, start + CHOICES):
            heavy = int(weight[number])
            with_it = best[: capacity + 1 - heavy] + value[number]
            np.maximum(grown[heavy:], with_it, out=grown[heavy:])
        best = grown
    return int(best[-1])


ITEMS = DataTable(
    "items",
    {
        **dict.fromkeys(("problem", "item", "weight", "value", "capacity"), "i8"),
        **dict.fromkeys(("cost", "requirement", "plan", "price"), "i8"),
        **{f"{kind}_{number}": "i8" for number in range(ENTRIES) for kind in ("row", "entry")},
    },
    _make_items,
    _expect_items,
    rows_per_unit=ITEMS_PER_PROBLEM,
)
"""One unit is one problem."""
