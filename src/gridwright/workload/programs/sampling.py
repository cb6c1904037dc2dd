"""What the computation tests share: a sample of a table's rows, a result table, checked coefficients."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridwright.workload.datasets.table import BATCH_BYTES, Floats, arrow_type, column_values, to_batch
from gridwright.workload.launches.launch import Launch

if TYPE_CHECKING:
    import pyarrow as pa

STANDARD_ERRORS = 6.0
"""How far an estimate may be from the truth: one in a billion is further by chance."""


def columns_of(batch: pa.RecordBatch, names: Sequence[str]) -> list[NDArray[np.generic]]:
    """Columns of a block by name; no copy."""
    return [column_values(batch.column(name)) for name in names]


def sample_step(rows: int, limit: int) -> int:
    """Every how many rows one is kept, so that at most `limit` of `rows` stay."""
    return max(1, -(-rows // limit))


def read_sample(
    launch: Launch,
    table: str,
    names: Sequence[str],
    limit: int,
    watch: Callable[[pa.RecordBatch], None] = lambda _batch: None,
) -> Floats:
    """Read a whole table and keep every k-th row, so that at most `limit` stay: shape (rows, names).

    `watch` sees every block. Raises WrongAnswer and OSError.
    """
    step = sample_step(launch.facts(table).rows, limit)
    kept = np.empty((-(-launch.facts(table).rows // step), len(names)))
    passed = filled = 0
    for batch in launch.read(table):
        watch(batch)
        first = -passed % step
        count = min(max(0, -(-(batch.num_rows - first) // step)), len(kept) - filled)
        for place, values in enumerate(columns_of(batch, names)):
            kept[filled : filled + count, place] = values[first::step][:count]
        filled += count
        passed += batch.num_rows
    return kept[:filled]


def write_result(launch: Launch, name: str, columns: Mapping[str, NDArray[np.generic]]) -> None:
    """Write columns of 8-byte numbers to a table in work, in large blocks. Raises OSError."""
    import pyarrow as pa

    kinds = {each: f"{values.dtype.kind}8" for each, values in columns.items()}
    schema = pa.schema([(each, arrow_type(kind)) for each, kind in kinds.items()])
    rows = len(next(iter(columns.values())))
    step = max(1, BATCH_BYTES // (8 * len(columns)))
    with launch.write(name, schema) as target:
        for start in range(0, rows, step):
            block = {
                each: values[start : start + step].astype(kinds[each]) for each, values in columns.items()
            }
            target.write(to_batch(block, schema), check=False)


def check_coefficients(
    launch: Launch,
    model: str,
    names: Sequence[str],
    found: Floats,
    errors: Floats,
    truth: Mapping[str, float],
) -> None:
    """Check estimates against the model behind the data, given their standard errors. Raises WrongAnswer."""
    for name, estimate, error in zip(names, found.tolist(), errors.tolist(), strict=True):
        # An estimate is no better than the steps of the tables of quantiles that made the data.
        tolerance = STANDARD_ERRORS * error + 1e-4
        launch.require(f"{model}: standard error of {name} is {error}", 0 < error < np.inf)
        launch.check(f"{model}: coefficient of {name}", estimate, truth.get(name, 0.0), tolerance=tolerance)


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back the warnings of the engines: answers are checked instead."""
    # What the engines' modules made stays: `forget` need not look through it time and again.
    gc.freeze()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        gc.unfreeze()


def forget() -> None:
    """Free models that are no longer needed: theirs are cycles that hold copies of all rows."""
    gc.collect()
