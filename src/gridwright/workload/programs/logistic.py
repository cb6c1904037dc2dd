"""Mirrors PROC LOGISTIC with SELECTION=BACKWARD: Newton's method, dropping one predictor at a time.

I/O: reads the observations from data once; writes probabilities and residuals of up to
`logistic_rows` rows to work.
Check: responses, counted when the table was made; coefficients of the model behind the data;
predictors that belong survive; fitted probabilities add up to the responses; the area under the
ROC curve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gridwright.workload.datasets.observations import BINARY, PREDICTORS
from gridwright.workload.datasets.quantiles import Floats
from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import (
    STANDARD_ERRORS,
    check_coefficients,
    columns_of,
    forget,
    quiet,
    read_sample,
    write_result,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NAMES = ("intercept", *PREDICTORS)
_STAY = 3.84
"""Square of a predictor's z below which it leaves: 5 % of those that do not belong are above it."""


def _run(launch: Launch) -> None:
    from statsmodels.discrete.discrete_model import Logit

    counted = 0.0

    def count(batch: pa.RecordBatch) -> None:
        nonlocal counted
        counted += float(columns_of(batch, ["y_binary"])[0].astype(np.float64).sum())

    rows = read_sample(
        launch, "observations", ("y_binary", *PREDICTORS), launch.settings["logistic_rows"], count
    )
    launch.check("sum of y_binary", counted, launch.facts("observations").expected["binary"])
    rows = rows[~np.isnan(rows).any(axis=1)]
    response = rows[:, 0].copy()
    # The intercept's column takes the place of the response: no second copy of the rows.
    rows[:, 0] = 1.0
    stay = list(range(len(_NAMES)))
    with quiet():
        fit = Logit(response, rows).fit(method="newton", disp=0)
        launch.require("Newton's method did not converge", bool(fit.mle_retvals["converged"]))
        check_coefficients(launch, "logistic", _NAMES, np.asarray(fit.params), np.asarray(fit.bse), BINARY)
        probability = np.asarray(fit.predict())
        while len(stay) > 1:
            squares = np.square(np.asarray(fit.tvalues))
            squares[0] = np.inf
            weakest = int(np.argmin(squares))
            if squares[weakest] >= _STAY:
                break
            start = np.delete(np.asarray(fit.params), weakest)
            del stay[weakest], fit
            forget()
            fit = Logit(response, rows[:, stay]).fit(method="newton", disp=0, start_params=start)
    left = {_NAMES[place] for place in stay}
    launch.require(f"of {sorted(BINARY)}, only {sorted(left)} are left", set(BINARY) <= left)
    _check(launch, response, probability)


def _check(launch: Launch, response: Floats, probability: Floats) -> None:
    residual = (response - probability) / np.sqrt(probability * (1 - probability))
    write_result(launch, "probabilities", {"probability": probability, "pearson": residual})
    ones = float(response.sum())
    launch.check("sum of probabilities", float(probability.sum()), ones, tolerance=1e-6 * len(response))
    ranks = np.empty(len(response))
    ranks[np.argsort(probability, kind="stable")] = np.arange(1, len(response) + 1)
    area = (float(ranks[response == 1].sum()) - ones * (ones + 1) / 2) / (ones * (len(response) - ones))
    # The model behind the data reaches 0.798, and its fit a little more where rows are few.
    error = STANDARD_ERRORS * 0.3 / np.sqrt(min(ones, len(response) - ones))
    launch.check("area under the ROC curve", area, 0.798, tolerance=float(error) + 0.01)


PROGRAM = Program(
    name="logistic",
    class_="computation",
    mirrors="PROC LOGISTIC",
    engine="statsmodels",
    tables=("observations",),
    run=_run,
    work={"observations": 16 / 384},
)
