"""The tables of the I/O and memory tests: accounts, their orders, and a wide table of transactions.

A value is missing where it is NaN: a SAS data set, too, keeps a missing number in its eight bytes.
Money is in whole cents, so that sums are exact in any order.
"""

from __future__ import annotations

import math

import numpy as np

from gridwright.workload.datasets.quantiles import Draws, Integers
from gridwright.workload.datasets.table import Columns, DataTable, Expected, TablePart, labels

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
