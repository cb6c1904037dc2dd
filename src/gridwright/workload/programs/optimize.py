"""Mirrors PROC OPTMODEL: a linear program and an integer program for every problem of a table.

I/O: reads the items from data once, a block of problems at a time; writes the solutions to work as
it goes.
Check: the sums of the optima, which are known: the linear programs were made around a solution and
prices that prove it, and the knapsacks were solved by dynamic programming when the table was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gridwright.workload.datasets.items import CHOICES, ENTRIES, ITEMS_PER_PROBLEM, ROWS
from gridwright.workload.datasets.quantiles import Floats, Integers
from gridwright.workload.datasets.table import to_batch
from gridwright.workload.launch import Launch, WrongAnswer
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import columns_of

_PER_KNAPSACK = ITEMS_PER_PROBLEM // CHOICES
_NAMES = ("problem", "item", "weight", "value", "capacity", "cost", "requirement")
_PLACES = tuple(f"{kind}_{number}" for kind in ("row", "entry") for number in range(ENTRIES))


def _run(launch: Launch) -> None:
    import pyarrow as pa

    solver, linear, knapsack = _solver(launch), 0.0, 0
    schema = pa.schema(
        [("problem", pa.int64()), ("item", pa.int64()), ("plan", pa.float64()), ("taken", pa.int64())]
    )
    with launch.write("solutions", schema) as target:
        for batch in launch.read("items"):
            launch.require("a block ends within a problem", batch.num_rows % ITEMS_PER_PROBLEM == 0)
            names = (*_NAMES, *_PLACES)
            found = columns_of(batch, names)
            columns = {name: each.astype(np.int64) for name, each in zip(names, found, strict=True)}
            plan, taken = np.empty(batch.num_rows), np.empty(batch.num_rows, dtype=np.int64)
            for start in range(0, batch.num_rows, ITEMS_PER_PROBLEM):
                rows = slice(start, start + ITEMS_PER_PROBLEM)
                problem = {name: each[rows] for name, each in columns.items()}
                optimum, plan[rows] = _solve_linear(launch, solver, problem)
                linear += optimum
                taken[rows] = _solve_knapsack(solver, problem)
                knapsack += int((taken[rows] * problem["value"]).sum())
                _check_knapsack(launch, problem, taken[rows])
            identity = {name: columns[name] for name in ("problem", "item")}
            target.write(to_batch(identity | {"plan": plan, "taken": taken}, schema), check=False)
    expected = launch.facts("items").expected
    wanted = float(expected["linear_optimum"])
    launch.check("linear optima", linear, wanted, tolerance=1e-7 * (1 + abs(wanted)))
    launch.check("knapsack optima", knapsack, expected["knapsack_optimum"])


def _solver(launch: Launch) -> Any:
    import highspy

    solver = highspy.Highs()
    options = {"output_flag": False, "threads": launch.cores, "mip_rel_gap": 0.0, "mip_abs_gap": 0.5}
    for name, value in options.items():
        solver.setOptionValue(name, value)
    return solver


def _solve(solver: Any, **model: Any) -> Floats:
    """Solve a model given as columns of a sparse matrix; returns the values of its variables."""
    import highspy

    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(model["cost"]), len(model["row_lower"])
    program.col_cost_ = model["cost"].astype(np.float64)
    program.col_lower_ = np.zeros(program.num_col_)
    program.col_upper_ = model["col_upper"]
    program.row_lower_, program.row_upper_ = model["row_lower"], model["row_upper"]
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    width = len(model["entry"]) // program.num_col_
    program.a_matrix_.start_ = np.arange(program.num_col_ + 1) * width
    program.a_matrix_.index_, program.a_matrix_.value_ = model["row"], model["entry"].astype(np.float64)
    if model["integer"]:
        program.integrality_ = [highspy.HighsVarType.kInteger] * program.num_col_
    if solver.passModel(program) == highspy.HighsStatus.kError:
        raise WrongAnswer("the solver refuses a problem")
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise WrongAnswer(f"a problem is {solver.modelStatusToString(solver.getModelStatus())}")
    return np.array(solver.getSolution().col_value)


def _solve_linear(launch: Launch, solver: Any, problem: Mapping[str, Integers]) -> tuple[float, Floats]:
    """The optimum and the plan, shape (items,), which is checked for keeping the constraints."""
    places = np.stack([problem[f"row_{number}"] for number in range(ENTRIES)], axis=1)
    entries = np.stack([problem[f"entry_{number}"] for number in range(ENTRIES)], axis=1)
    launch.require("a constraint does not exist", bool(((places >= 0) & (places < ROWS)).all()))
    needed = problem["requirement"][:ROWS].astype(np.float64)
    unbounded = np.full(ROWS, np.inf)
    plan = _solve(
        solver,
        cost=problem["cost"],
        col_upper=np.full(ITEMS_PER_PROBLEM, np.inf),
        row_lower=needed,
        row_upper=unbounded,
        row=places.ravel(),
        entry=entries.ravel(),
        integer=False,
    )
    reached = np.bincount(places.ravel(), weights=(entries * plan[:, np.newaxis]).ravel(), minlength=ROWS)
    launch.require("a plan breaks a constraint", bool((reached >= needed - 1e-5).all() and plan.min() > -1e-6))
    return float(problem["cost"] @ plan), plan


def _solve_knapsack(solver: Any, problem: Mapping[str, Integers]) -> Integers:
    """Which items are taken: shape (items,), 0 or 1."""
    sets = np.arange(ITEMS_PER_PROBLEM) // CHOICES + 1
    upper = np.ones(_PER_KNAPSACK + 1)
    upper[0] = problem["capacity"][0]
    taken = _solve(
        solver,
        cost=-problem["value"],
        col_upper=np.ones(ITEMS_PER_PROBLEM),
        row_lower=np.full(_PER_KNAPSACK + 1, -np.inf),
        row_upper=upper,
        row=np.stack([np.zeros_like(sets), sets], axis=1).ravel(),
        entry=np.stack([problem["weight"], np.ones_like(sets)], axis=1).ravel(),
        integer=True,
    )
    return np.rint(taken).astype(np.int64)


def _check_knapsack(launch: Launch, problem: Mapping[str, Integers], taken: Integers) -> None:
    weight = int((taken * problem["weight"]).sum())
    fits = weight <= int(problem["capacity"][0])
    launch.require("a knapsack is too heavy", fits)
    launch.require("a set is taken twice", bool((taken.reshape(-1, CHOICES).sum(axis=1) <= 1).all()))


PROGRAM = Program(
    name="optimize",
    class_="computation",
    mirrors="PROC OPTMODEL",
    engine="HiGHS",
    tables=("items",),
    run=_run,
    work={"items": 32 / 136 * 1.05},
)
