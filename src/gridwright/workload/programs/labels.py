"""What the tests that learn the label share: reading, and how good an answer has to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridwright.workload.datasets.observations import FACTORED, LABEL_NOISE, LABELS
from gridwright.workload.datasets.quantiles import Integers
from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.sampling import STANDARD_ERRORS, columns_of, read_sample

if TYPE_CHECKING:
    import pyarrow as pa

_LOST = 0.06
"""Share of rows so near a border of the rule that a few hundred rows do not show their side."""


def read_labelled(launch: Launch, limit: int) -> tuple[NDArray[np.float32], Integers]:
    """Read predictors, missing ones included, and labels of at most `limit` rows: (rows, columns), (rows,).

    Counts the labels of all rows. Raises WrongAnswer and OSError.
    """
    count = np.zeros(LABELS, dtype=np.int64)

    def tally(batch: pa.RecordBatch) -> None:
        label = columns_of(batch, ["label"])[0].astype(np.int64)
        launch.require("a label does not exist", bool(((label >= 0) & (label < LABELS)).all()))
        count[:] += np.bincount(label, minlength=LABELS)

    rows = read_sample(launch, "observations", (*FACTORED, "label"), limit, tally)
    for number, expected in enumerate(launch.facts("observations").expected["rows_by_label"]):
        launch.check(f"rows of label {number}", int(count[number]), expected)
    return rows[:, :-1].astype(np.float32), rows[:, -1].astype(np.int64)


def check_accuracy(launch: Launch, found: Integers, truth: Integers) -> None:
    """Check predictions of rows that were not learned from. Raises WrongAnswer."""
    accuracy = float((found == truth).mean())
    # A label drawn at random is still right in one of LABELS.
    best = 1 - (1 - 1 / LABELS) / LABEL_NOISE
    error = STANDARD_ERRORS * float(np.sqrt(best * (1 - best) / len(truth)))
    launch.require(
        f"accuracy is {accuracy:.4f}, expected {best - _LOST:.4f} to {best:.4f} within {error:.4f}",
        best - _LOST - error <= accuracy <= best + error,
    )
