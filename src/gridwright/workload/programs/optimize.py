"""Mirrors PROC OPTMODEL: a linear program and an integer program for every problem of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gridwright.workload.datasets.table import Floats, Integers, to_batch
from gridwright.workload.datasets.tables import CHOICES, ENTRIES, ITEMS_PER_PROBLEM, ROWS
from gridwright.workload.launches.launch import Launch, WrongAnswer
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import columns_of

if TYPE_CHECKING:
    import highspy

_PER_KNAPSACK = ITEMS_PER_PROBLEM // CHOICES
_NAMES = ("problem", "item", "weight", "value", "capacity", "cost", "requirement")
_PLACES = tuple(f"{kind}_{number}" for kind in ("row", "entry") for number in range(ENTRIES))


def _run_optimize(launch: Launch) -> None:
    """Mirrors PROC OPTMODEL: a linear program and an integer program for every problem of a table.

    I/O: reads the items from data once, a block of problems at a time; writes the solutions to work as
    it goes.
    Check: the sums of the optima, which are known: the linear programs were made around a solution and
    prices that prove it, and the knapsacks were solved by dynamic programming when the table was made.
    """
    import pyarrow as pa

    solver, linear, knapsack = _solver(launch), 0, 0
    schema = pa.schema(
        [("problem", pa.int64()), ("item", pa.int64()), ("plan", pa.float64()), ("taken", pa.int64())]
    )
    with launch.write("solutions", schema) as target:
        for batch in launch.read("items"):
            launch.require("a block ends within a problem", batch.num_rows % ITEMS_PER_PROBLEM == 0)
            names = (*_NAMES, *_PLACES)
            arrays = columns_of(batch, names)
            columns = {name: array.astype(np.int64) for name, array in zip(names, arrays, strict=True)}
            plan, taken = np.empty(batch.num_rows), np.empty(batch.num_rows, dtype=np.int64)
            for start in range(0, batch.num_rows, ITEMS_PER_PROBLEM):
                rows = slice(start, start + ITEMS_PER_PROBLEM)
                problem = {name: column[rows] for name, column in columns.items()}
                optimum, plan[rows] = _solve_linear(launch, solver, problem)
                linear += optimum
                taken[rows] = _solve_knapsack(solver, problem)
                knapsack += int((taken[rows] * problem["value"]).sum())
                _check_knapsack(launch, problem, taken[rows])
            identity = {name: columns[name] for name in ("problem", "item")}
            target.write(to_batch(identity | {"plan": plan, "taken": taken}, schema), check=False)
    expected = launch.facts("items").expected
    launch.check("linear optima", linear, expected["linear_optimum"])
    launch.check("knapsack optima", knapsack, expected["knapsack_optimum"])


@dataclass(frozen=True, slots=True)
class _Model:
    """Minimise cost * x; every variable takes part in equally many constraints."""

    cost: Integers
    most: float
    """Upper bound of every variable."""
    row_lower: Floats
    row_upper: Floats
    row: Integers
    """Constraints of each variable in turn: shape (variables, constraints of each)."""
    entry: Integers
    """Coefficients at these places: the same shape."""
    integer: bool = False


def _solver(launch: Launch) -> highspy.Highs:
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    options = {"output_flag": False, "threads": launch.cores, "mip_rel_gap": 0.0, "mip_abs_gap": 0.5}
    for name, value in options.items():
        solver.setOptionValue(name, value)
    return solver


def _solve(solver: highspy.Highs, model: _Model) -> Floats:
    """The values of the variables at the optimum: shape (variables,). Raises WrongAnswer if there is none."""
    import highspy

    count, width = model.row.shape
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = count, len(model.row_lower)
    program.col_cost_ = model.cost.astype(np.float64)
    program.col_lower_, program.col_upper_ = np.zeros(count), np.full(count, model.most)
    program.row_lower_, program.row_upper_ = model.row_lower, model.row_upper
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = np.arange(count + 1) * width
    program.a_matrix_.index_ = model.row.ravel()
    program.a_matrix_.value_ = model.entry.ravel().astype(np.float64)
    if model.integer:
        program.integrality_ = [highspy.HighsVarType.kInteger] * count
    if solver.passModel(program) == highspy.HighsStatus.kError:
        raise WrongAnswer("the solver refuses a problem")
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise WrongAnswer(f"a problem is {solver.modelStatusToString(solver.getModelStatus())}")
    return np.array(solver.getSolution().col_value)


def _solve_linear(
    launch: Launch, solver: highspy.Highs, problem: Mapping[str, Integers]
) -> tuple[int, Floats]:
    """The optimum, which is a whole number, and a plan that keeps the constraints, shape (items,)."""
    places = np.stack([problem[f"row_{number}"] for number in range(ENTRIES)], axis=1)
    entries = np.stack([problem[f"entry_{number}"] for number in range(ENTRIES)], axis=1)
    launch.require("a constraint does not exist", bool(((places >= 0) & (places < ROWS)).all()))
    needed = problem["requirement"][:ROWS].astype(np.float64)
    unbounded = np.full(ROWS, np.inf)
    plan = _solve(solver, _Model(problem["cost"], np.inf, needed, unbounded, places, entries))
    reached = np.bincount(places.ravel(), weights=(entries * plan[:, np.newaxis]).ravel(), minlength=ROWS)
    launch.require(
        "a plan breaks a constraint", bool((reached >= needed - 1e-5).all() and plan.min() > -1e-6)
    )
    optimum = float(problem["cost"] @ plan)
    launch.check("an optimum", optimum, round(optimum), tolerance=1e-2)
    return round(optimum), plan


def _solve_knapsack(solver: highspy.Highs, problem: Mapping[str, Integers]) -> Integers:
    """Which items are taken: shape (items,), 0 or 1."""
    sets = np.arange(ITEMS_PER_PROBLEM) // CHOICES + 1
    upper = np.ones(_PER_KNAPSACK + 1)
    upper[0] = problem["capacity"][0]
    row = np.stack([np.zeros_like(sets), sets], axis=1)
    entry = np.stack([problem["weight"], np.ones_like(sets)], axis=1)
    lower = np.full(len(upper), -np.inf)
    taken = _solve(solver, _Model(-problem["value"], 1.0, lower, upper, row, entry, integer=True))
    return np.rint(taken).astype(np.int64)


def _check_knapsack(launch: Launch, problem: Mapping[str, Integers], taken: Integers) -> None:
    weight = int((taken * problem["weight"]).sum())
    fits = weight <= int(problem["capacity"][0])
    launch.require("a knapsack is too heavy", fits)
    launch.require("a set is taken twice", bool((taken.reshape(-1, CHOICES).sum(axis=1) <= 1).all()))


OPTIMIZE_PROGRAM = Program(
    name="optimize",
    class_="computation",
    mirrors="PROC OPTMODEL",
    engine="HiGHS",
    tables=("items",),
    run=_run_optimize,
    work={"items": 32 / 136 * 1.05},
)
