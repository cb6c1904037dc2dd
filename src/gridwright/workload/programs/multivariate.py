"""Tests of linear algebra on a wide matrix, as CORR and IML, PRINCOMP and FACTOR do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gridwright.workload.datasets.table import Floats
from gridwright.workload.datasets.tables import CROSSED, FACTORED, FACTORS, INCOMPLETE, LOADINGS, PREDICTORS
from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import (
    STANDARD_ERRORS,
    columns_of,
    quiet,
    read_sample,
    sample_step,
    write_result,
)

if TYPE_CHECKING:
    import pyarrow as pa


_MATRIX_NAMES = tuple(name for name in PREDICTORS if name not in INCOMPLETE)
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


def _run_matrix(launch: Launch) -> None:
    """Mirrors PROC CORR and PROC IML: correlate a wide matrix, invert it, and measure every row's distance.

    I/O: reads the observations from data once; holds a wide matrix of rows in memory (predictors and
    their products, up to `matrix_rows` rows of `matrix_columns` columns); writes the distances to work.
    Check: sums of products of some predictors, exactly summed when the table was made; correlations that
    the factors imply; matrix times inverse; the sum of the distances, which is known in advance.
    """
    facts, settings = launch.facts("observations"), launch.settings
    width = min(settings["matrix_columns"], len(_MATRIX_NAMES) * (len(_MATRIX_NAMES) + 1) // 2)
    matrix = _Matrix(facts.rows, settings["matrix_rows"], width)
    with quiet():
        for batch in launch.read("observations"):
            narrow = np.stack(columns_of(batch, _MATRIX_NAMES), axis=1).astype(np.float64)
            for start in range(0, len(narrow), _CHUNK):
                matrix.take(narrow[start : start + _CHUNK])
        mean = matrix.sums / matrix.rows
        covariance = (matrix.products - np.outer(mean, matrix.sums)) / (matrix.rows - 1)
        scale = 1 / np.sqrt(np.diag(covariance))
        correlation = covariance * np.outer(scale, scale)
        inverse: Floats = np.linalg.inv(correlation).astype(np.float64)
        distance = _distances(matrix.held[: matrix.filled], mean, scale, inverse)
    write_result(launch, "distances", {"distance": distance})
    _check_matrix(launch, matrix, correlation, inverse, distance)


def _distances(held: Floats, mean: Floats, scale: Floats, inverse: Floats) -> Floats:
    """Mahalanobis distances, squared; standardises the rows in place. Shape (rows,)."""
    held -= mean
    held *= scale
    found = np.empty(len(held))
    for start in range(0, len(held), _CHUNK):
        rows = held[start : start + _CHUNK]
        found[start : start + _CHUNK] = np.einsum("ij,ij->i", rows @ inverse, rows)
    return found


def _check_matrix(
    launch: Launch, matrix: _Matrix, correlation: Floats, inverse: Floats, distance: Floats
) -> None:
    expected = launch.facts("observations").expected
    places = [_MATRIX_NAMES.index(name) for name in CROSSED]
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
            f"correlation of x01 and {_MATRIX_NAMES[number]}", correlation[0, number], truth, tolerance=error
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


MATRIX_PROGRAM = Program(
    name="matrix",
    class_="memory",
    mirrors="PROC CORR and PROC IML",
    engine="NumPy (OpenBLAS)",
    tables=("observations",),
    run=_run_matrix,
    work={"observations": 8 / 384},
)


_PRINCOMP_NAMES = tuple(name for name in FACTORED if name not in INCOMPLETE)
_BLOCKS = 50
"""Rows are dealt to so many blocks, of which resamples are drawn."""
_STEPS = 400
"""Steps of extraction and of rotation, at most."""


def _run_princomp(launch: Launch) -> None:
    """Mirrors PROC PRINCOMP and PROC FACTOR: components of all rows, and rotated factors.

    I/O: reads the observations from data once; writes the component scores of up to `princomp_rows`
    rows to work.
    Check: sums of products, exactly summed when the table was made; eigenvalues of the correlations
    behind the data; the loadings of the factors, found again by extraction and varimax rotation, with
    standard errors from resampled blocks of rows.
    """
    size = len(_PRINCOMP_NAMES) + 1
    blocks = np.zeros((_BLOCKS, size, size))

    def add(batch: pa.RecordBatch) -> None:
        rows = np.stack([np.ones(batch.num_rows), *columns_of(batch, _PRINCOMP_NAMES)], axis=1)
        for block in range(_BLOCKS):
            dealt = rows[block::_BLOCKS]
            blocks[block] += dealt.T @ dealt

    with quiet():
        kept = read_sample(launch, "observations", _PRINCOMP_NAMES, launch.settings["princomp_rows"], add)
        products = blocks.sum(axis=0)
        _check_products(launch, products)
        correlation = _correlate(products)
        values, vectors = np.linalg.eigh(correlation)
        _check_components(launch, values, vectors, correlation, products[0, 0])
        mean = products[0, 1:] / products[0, 0]
        deviation = np.sqrt(np.diag(products)[1:] / products[0, 0] - mean * mean)
        kept -= mean
        kept /= deviation
        scores = kept @ vectors[:, : -FACTORS - 1 : -1]
        result = {f"prin{number + 1}": scores[:, number] for number in range(FACTORS)}
        write_result(launch, "scores", result)
        loadings = _loadings(correlation)
        replicates = []
        draws = np.random.default_rng(0)
        for _ in range(launch.settings["princomp_resamples"]):
            weights = np.bincount(draws.integers(_BLOCKS, size=_BLOCKS), minlength=_BLOCKS)
            replicates.append(_loadings(_correlate(np.tensordot(weights.astype(np.float64), blocks, 1))))
    _check_loadings(launch, loadings, np.std(replicates, axis=0), products[0, 0])


def _correlate(products: Floats) -> Floats:
    """Correlations from sums of products, the first row being the sums."""
    rows = products[0, 0]
    covariance = products[1:, 1:] / rows - np.outer(products[0, 1:], products[0, 1:]) / rows**2
    scale = 1 / np.sqrt(np.diag(covariance))
    return np.asarray(covariance * np.outer(scale, scale))


def _loadings(correlation: Floats) -> Floats:
    """Iterated principal factors, rotated by varimax and put in order: shape (columns, FACTORS)."""
    shared = 1 - 1 / np.diag(np.linalg.inv(correlation))
    for _ in range(_STEPS):
        reduced = correlation.copy()
        np.fill_diagonal(reduced, shared)
        values, vectors = np.linalg.eigh(reduced)
        found = vectors[:, -FACTORS:] * np.sqrt(np.maximum(values[-FACTORS:], 0))
        before, shared = shared, np.square(found).sum(axis=1)
        if np.abs(shared - before).max() < 1e-7:
            break
    rotated = _varimax(found)
    # Factor f leads in columns f, f + FACTORS and so on: that gives order and sign.
    order = np.argmax(np.abs([rotated[number::FACTORS].sum(axis=0) for number in range(FACTORS)]), axis=1)
    rotated = rotated[:, order]
    signs = [1 if rotated[number::FACTORS, number].sum() > 0 else -1 for number in range(FACTORS)]
    return np.asarray(rotated * signs)


def _varimax(loadings: Floats) -> Floats:
    """Rotate so that each variable loads on few factors (Kaiser 1958), rows scaled to length 1 meanwhile."""
    length = np.sqrt(np.square(loadings).sum(axis=1, keepdims=True))
    scaled, rotation, total = loadings / length, np.eye(loadings.shape[1]), 0.0
    for _ in range(_STEPS):
        turned = scaled @ rotation
        target = turned**3 - turned * (np.square(turned).sum(axis=0) / len(turned))
        left, values, right = np.linalg.svd(scaled.T @ target)
        rotation, before, total = left @ right, total, float(values.sum())
        if total - before < 1e-10 * total:
            break
    return np.asarray(loadings @ rotation)


def _check_products(launch: Launch, products: Floats) -> None:
    facts = launch.facts("observations")
    names = [name for name in CROSSED if name in _PRINCOMP_NAMES]
    # Rounding grows with the number of rows: n * 2^-53 of the sum of the sizes, which is below 20 n.
    rounding = 1e-9 * facts.rows
    for one in names:
        for two in names:
            found = products[_PRINCOMP_NAMES.index(one) + 1, _PRINCOMP_NAMES.index(two) + 1]
            expected = facts.expected["products"][CROSSED.index(one)][CROSSED.index(two)]
            launch.check(f"products of {one} and {two}", found, expected, tolerance=rounding)


def _truth() -> Floats:
    """Loadings behind the data: shape (columns, FACTORS)."""
    found = np.zeros((len(_PRINCOMP_NAMES), FACTORS))
    for number in range(len(_PRINCOMP_NAMES)):
        found[number, number % FACTORS] = LOADINGS[number]
    return found


def _check_components(
    launch: Launch, values: Floats, vectors: Floats, correlation: Floats, rows: float
) -> None:
    launch.check(
        "sum of eigenvalues",
        float(values.sum()),
        float(len(_PRINCOMP_NAMES)),
        tolerance=1e-9 * len(_PRINCOMP_NAMES),
    )
    apart = np.abs(vectors * values @ vectors.T - correlation).max()
    launch.check("components less correlations", float(apart), 0.0, tolerance=1e-9)
    model = _truth() @ _truth().T
    np.fill_diagonal(model, 1.0)
    # An eigenvalue's own standard error (Anderson 1963), and what the others push it by.
    pushed = 4 * np.sqrt(len(_PRINCOMP_NAMES) / rows)
    for number, truth in enumerate(np.linalg.eigvalsh(model).tolist()):
        error = STANDARD_ERRORS * truth * np.sqrt(2 / rows)
        launch.check(f"eigenvalue {number}", float(values[number]), truth, tolerance=float(error + pushed))


def _check_loadings(launch: Launch, loadings: Floats, errors: Floats, rows: float) -> None:
    # Resamples are few, so their deviation is itself uncertain: it counts for 1.5 / sqrt(n) at least.
    tolerance = STANDARD_ERRORS * np.maximum(errors, 1.5 / np.sqrt(rows))
    launch.require("a loading has no standard error", bool((errors < 20 / np.sqrt(rows)).all()))
    truth = _truth()
    for number, name in enumerate(_PRINCOMP_NAMES):
        for factor in range(FACTORS):
            launch.check(
                f"loading of {name} on factor {factor}",
                float(loadings[number, factor]),
                float(truth[number, factor]),
                tolerance=float(tolerance[number, factor]),
            )


PRINCOMP_PROGRAM = Program(
    name="princomp",
    class_="computation",
    mirrors="PROC PRINCOMP and PROC FACTOR",
    engine="NumPy (OpenBLAS)",
    tables=("observations",),
    run=_run_princomp,
    work={"observations": 40 / 384},
)
