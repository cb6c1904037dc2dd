"""Mirrors PROC REG: least squares over all rows, the best of all subsets, and diagnostics by row.

I/O: reads the observations from data once; writes predictions, residuals and leverages of up to
`reg_rows` rows to work.
Check: complete rows and sums of the response, counted when the table was made; coefficients and
error variance of the model behind the data; the best subset has all that belongs; residuals are
independent (Durbin-Watson) and orthogonal to the predictors.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from gridwright.workload.datasets.observations import FACTORED, INCOMPLETE, LINEAR, LINEAR_SIGMA, PREDICTORS
from gridwright.workload.datasets.quantiles import Floats
from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import (
    STANDARD_ERRORS,
    check_coefficients,
    columns_of,
    quiet,
    read_sample,
    write_result,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NAMES = ("intercept", *PREDICTORS)
_COLUMNS = (*PREDICTORS, "y_linear")
_CANDIDATES = FACTORED[8:30] + PREDICTORS[32:] + FACTORED[:8]
"""What subsets are chosen of, the first `reg_candidates` of them: 16 that belong and 22 that do not."""
_AT_ONCE = 14
"""Candidates whose subsets are all formed as one array."""
_TASKS = 256
"""The other subsets are dealt to so many tasks for the threads."""


def _run(launch: Launch) -> None:
    products = np.zeros((len(_NAMES) + 1,) * 2)

    def add(batch: pa.RecordBatch) -> None:
        rows = _complete(np.stack([np.ones(batch.num_rows), *columns_of(batch, _COLUMNS)], axis=1))
        products[:] += rows.T @ rows

    with quiet():
        kept = read_sample(launch, "observations", ("id", *_COLUMNS), launch.settings["reg_rows"], add)
        # The intercept's column takes the place of the number: no second copy of the rows.
        kept[:, 0] = 1.0
        whole = len(kept) == launch.facts("observations").rows
        kept = _complete(kept)
        inverse: Floats = np.linalg.inv(products[:-1, :-1]).astype(np.float64)
        found = inverse @ products[:-1, -1]
        squares = float(products[-1, -1] - found @ products[:-1, -1])
        variance = squares / (products[0, 0] - len(_NAMES))
        subset = _best_subset(products, launch.settings["reg_candidates"], launch.cores)
        residual = _diagnose(launch, kept, found, inverse, variance)
    _check_fit(launch, products, found, np.sqrt(np.diag(inverse) * variance), variance, subset)
    _check_residuals(launch, residual, kept[:, :-1], variance, whole=whole)


def _complete(rows: Floats) -> Floats:
    """The rows that miss no predictor."""
    places = [_NAMES.index(name) for name in INCOMPLETE]
    return rows[~np.isnan(rows[:, places]).any(axis=1)]


def _best_subset(products: Floats, candidates: int, cores: int) -> set[str]:
    """The subset of the candidates, all others kept, with the least SBC (Schwarz's criterion)."""
    chosen = [_NAMES.index(name) for name in _CANDIDATES[:candidates]]
    places = [*chosen, len(_NAMES)]
    rest = [place for place in range(len(_NAMES)) if place not in chosen]
    swept = np.linalg.solve(products[np.ix_(rest, rest)], products[np.ix_(rest, places)])
    start = products[np.ix_(places, places)] - products[np.ix_(places, rest)] @ swept
    candidates = len(chosen)
    rows, outer = products[0, 0], max(0, candidates - _AT_ONCE)

    def search(number: int) -> tuple[float, int]:
        matrix = start[np.newaxis]
        for bit in range(outer):
            matrix = _sweep(matrix) if number >> bit & 1 else matrix[:, 1:, 1:]
        taken = np.zeros(1, dtype=np.int64)
        for bit in range(outer, candidates):
            matrix = np.concatenate([matrix[:, 1:, 1:], _sweep(matrix)])
            taken = np.concatenate([taken, taken | 1 << bit])
        criterion = rows * np.log(matrix[:, 0, 0] / rows) + np.log(rows) * (
            np.bitwise_count(taken) + number.bit_count()
        )
        best = int(np.argmin(criterion))
        return float(criterion[best]), int(taken[best]) | number

    with ThreadPoolExecutor(cores) as pool:
        dealt = [range(task, 1 << outer, _TASKS) for task in range(min(_TASKS, 1 << outer))]
        _, best = min(pool.map(lambda numbers: min(search(number) for number in numbers), dealt))
    return {name for bit, name in enumerate(_CANDIDATES[:candidates]) if best >> bit & 1}


def _sweep(matrix: Floats) -> Floats:
    """Take the first candidate into the model and drop its row: shape (n, k, k) to (n, k - 1, k - 1)."""
    row = matrix[:, :1, 1:]
    return np.asarray(matrix[:, 1:, 1:] - matrix[:, 1:, :1] * (row / matrix[:, :1, :1]))


def _diagnose(launch: Launch, kept: Floats, found: Floats, inverse: Floats, variance: float) -> Floats:
    """Write predictions, leverages, Student's residuals and Cook's distances; returns the residuals."""
    design = kept[:, :-1]
    predicted = design @ found
    residual = kept[:, -1] - predicted
    leverage = np.empty(len(design))
    for start in range(0, len(design), 4096):
        rows = design[start : start + 4096]
        leverage[start : start + 4096] = np.einsum("ij,ij->i", rows @ inverse, rows)
    student = residual / np.sqrt(variance * (1 - leverage))
    cook = student * student * leverage / ((1 - leverage) * len(found))
    result = {"predicted": predicted, "residual": residual, "leverage": leverage, "student": student}
    write_result(launch, "residuals", result | {"cook": cook})
    launch.require("a leverage is outside (0, 1)", bool(((leverage > 0) & (leverage < 1)).all()))
    return np.asarray(residual)


def _check_fit(
    launch: Launch, products: Floats, found: Floats, errors: Floats, variance: float, subset: set[str]
) -> None:
    expected = launch.facts("observations").expected
    rows = products[0, 0]
    launch.check("complete rows", rows, expected["complete"])
    for what, place in (("", 0), ("_x01", 1), ("_squared", -1)):
        required = expected[f"complete_linear{what}"]
        # Rounding grows with the number of rows: n * 2^-53 of the sum of the sizes, which is below 20 n.
        launch.check(f"sum of y_linear{what}", products[place, -1], required, tolerance=1e-9 * rows)
    check_coefficients(launch, "least squares", _NAMES, found, errors, LINEAR)
    truth = LINEAR_SIGMA**2
    error = STANDARD_ERRORS * truth * np.sqrt(2 / rows)
    launch.check("error variance", variance, truth, tolerance=error + 1e-3)
    belong = set(LINEAR) & set(_CANDIDATES[: launch.settings["reg_candidates"]])
    launch.require(f"the best subset {sorted(subset)} lacks some of {sorted(belong)}", belong <= subset)


def _check_residuals(
    launch: Launch, residual: Floats, design: Floats, variance: float, *, whole: bool
) -> None:
    squares = float(residual @ residual)
    durbin_watson = float(np.square(np.diff(residual)).sum()) / squares
    error = STANDARD_ERRORS * 2 / np.sqrt(len(residual))
    launch.check("Durbin-Watson", durbin_watson, 2.0, tolerance=error)
    across = np.abs(design.T @ residual).max() / len(residual)
    limit = 1e-6 if whole else STANDARD_ERRORS * 6 * np.sqrt(variance / len(residual))
    launch.check("residuals times predictors", float(across), 0.0, tolerance=limit)


PROGRAM = Program(
    name="reg",
    class_="computation",
    mirrors="PROC REG",
    engine="NumPy (OpenBLAS)",
    tables=("observations",),
    run=_run,
    work={"observations": 40 / 384},
    threaded=True,
)
