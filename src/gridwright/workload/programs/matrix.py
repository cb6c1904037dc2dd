"""Mirrors PROC CORR and PROC IML: correlate a wide matrix, invert it, and measure every row's distance.

I/O: reads the observations from data once; holds a wide matrix of rows in memory (predictors and
their products, up to `matrix_rows` rows of `matrix_columns` columns); writes the distances to work.
Check: sums of products of some predictors, exactly summed when the table was made; correlations that
the factors imply; matrix times inverse; the sum of the distances, which is known in advance.
"""

from __future__ import annotations

import numpy as np

from gridwright.workload.datasets.observations import CROSSED, FACTORS, INCOMPLETE, LOADINGS, PREDICTORS
from gridwright.workload.datasets.quantiles import Floats
from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import (
    STANDARD_ERRORS,
    columns_of,
    quiet,
    sample_step,
    write_result,
)

_NAMES = tuple(name for name in PREDICTORS if name not in INCOMPLETE)
_CHUNK = 1024
"""Rows that are widened at once: they stay in the cache."""


def _widen(narrow: Floats, wide: Floats) -> None:
    """Fill the rows of `wide` with the predictors and as many of their products as it has columns."""
    count = narrow.shape[1]
    wide[:, :count] = narrow
    place = count
    for number in range(count):
        width = min(count - number - 1, wide.shape[1] - place)
        if width <= 0:
            break
        np.multiply(
            narrow[:, number + 1 : number + 1 + width],
            narrow[:, number : number + 1],
            out=wide[:, place : place + width],
        )
        place += width


class _Matrix:
    """Sums over all rows, and the rows that are held."""

    def __init__(self, rows: int, limit: int, width: int) -> None:
        self.step = sample_step(rows, limit)
        self.rows = 0
        self.sums = np.zeros(width)
        self.products = np.zeros((width, width))
        self.held = np.empty((-(-rows // self.step), width))
        self.filled = 0

    def take(self, narrow: Floats) -> None:
        wide = np.empty((len(narrow), len(self.sums)))
        _widen(narrow, wide)
        self.sums += wide.sum(axis=0)
        self.products += wide.T @ wide
        chosen = wide[-self.rows % self.step :: self.step][: len(self.held) - self.filled]
        self.held[self.filled : self.filled + len(chosen)] = chosen
        self.filled += len(chosen)
        self.rows += len(narrow)


def _run(launch: Launch) -> None:
    facts, settings = launch.facts("observations"), launch.settings
    width = min(settings["matrix_columns"], len(_NAMES) * (len(_NAMES) + 1) // 2)
    matrix = _Matrix(facts.rows, settings["matrix_rows"], width)
    with quiet():
        for batch in launch.read("observations"):
            narrow = np.stack(columns_of(batch, _NAMES), axis=1).astype(np.float64)
            for start in range(0, len(narrow), _CHUNK):
                matrix.take(narrow[start : start + _CHUNK])
        mean = matrix.sums / matrix.rows
        covariance = (matrix.products - np.outer(mean, matrix.sums)) / (matrix.rows - 1)
        scale = 1 / np.sqrt(np.diag(covariance))
        correlation = covariance * np.outer(scale, scale)
        inverse: Floats = np.linalg.inv(correlation).astype(np.float64)
        distance = _distances(matrix.held[: matrix.filled], mean, scale, inverse)
    write_result(launch, "distances", {"distance": distance})
    _check(launch, matrix, correlation, inverse, distance)


def _distances(held: Floats, mean: Floats, scale: Floats, inverse: Floats) -> Floats:
    """Mahalanobis distances, squared; standardises the rows in place. Shape (rows,)."""
    held -= mean
    held *= scale
    found = np.empty(len(held))
    for start in range(0, len(held), _CHUNK):
        rows = held[start : start + _CHUNK]
        found[start : start + _CHUNK] = np.einsum("ij,ij->i", rows @ inverse, rows)
    return found


def _check(launch: Launch, matrix: _Matrix, correlation: Floats, inverse: Floats, distance: Floats) -> None:
    expected = launch.facts("observations").expected
    places = [_NAMES.index(name) for name in CROSSED]
    # Rounding grows with the number of rows: n * 2^-53 of the sum of the sizes, which is below 20 n.
    rounding = 1e-9 * matrix.rows
    for one, name in zip(places, CROSSED, strict=True):
        row = CROSSED.index(name)
        launch.check(f"sum of {name}", matrix.sums[one], expected["sums"][row], tolerance=rounding)
        for column, two in enumerate(places):
            required = expected["products"][row][column]
            what = f"products of {name} and {CROSSED[column]}"
            launch.check(what, matrix.products[one, two], required, tolerance=rounding)
    # Within a factor, a correlation is the product of the loadings; between factors it is zero.
    error = STANDARD_ERRORS / np.sqrt(matrix.rows)
    for number in range(1, 30):
        truth = LOADINGS[0] * LOADINGS[number] if number % FACTORS == 0 else 0.0
        launch.check(
            f"correlation of x01 and {_NAMES[number]}", correlation[0, number], truth, tolerance=error
        )
    apart = np.abs(correlation @ inverse - np.eye(len(inverse))).max()
    launch.check("matrix times inverse less identity", float(apart), 0.0, tolerance=1e-6)
    launch.require("an inflation factor is below 1", bool((np.diag(inverse) > 1 - 1e-9).all()))
    width = len(correlation)
    if len(distance) == matrix.rows:
        total = float(width * (matrix.rows - 1))
        launch.check("sum of distances", float(distance.sum()), total, tolerance=1e-6 * total)
    else:
        error = STANDARD_ERRORS * float(distance.std()) / np.sqrt(len(distance))
        launch.check("mean distance", float(distance.mean()), float(width), tolerance=error)


PROGRAM = Program(
    name="matrix",
    class_="memory",
    mirrors="PROC CORR and PROC IML",
    engine="NumPy (OpenBLAS)",
    tables=("observations",),
    run=_run,
    work={"observations": 8 / 384},
)
