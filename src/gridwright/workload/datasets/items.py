"""Optimisation problems with a known optimum: a linear program and a knapsack, of 256 items each.

The linear program is built around a plan and prices that prove each other optimal (complementary
slackness). The knapsack's optimum is found by dynamic programming when the table is made.
"""

from __future__ import annotations

import numpy as np

from gridwright.workload.datasets.quantiles import Draws, Integers
from gridwright.workload.datasets.table import Columns, DataTable, Expected, TablePart

ITEMS_PER_PROBLEM = 256
ROWS = 128
"""Constraints of a linear program: those of its first ROWS items, `requirement` being what they need."""
ENTRIES = 4
"""Constraints an item takes part in: `row_k` with coefficient `entry_k`."""
CHOICES = 4
"""Items follow each other in sets of so many; a knapsack takes at most one of a set."""
_PART_OF_WEIGHT = 10


def _make(part: TablePart) -> Columns:
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


def _expect(columns: Columns, part: TablePart) -> Expected:
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
    _make,
    _expect,
    rows_per_unit=ITEMS_PER_PROBLEM,
)
"""One unit is one problem."""
