"""Mirrors PROC GENMOD with TYPE3: Poisson and gamma models, refitted without each of `glm_tests` predictors.

I/O: reads the observations from data once; writes the means of both models of up to `glm_rows`
rows to work.
Check: sums of both responses, counted when the table was made; coefficients and dispersion of the
models behind the data; likelihood ratios tell what belongs; the score equations of the intercepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gridwright.workload.datasets.observations import COUNT, FACTORED, GAMMA, GAMMA_SHAPE, INCOMPLETE
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
    from statsmodels.genmod.families import Family

_PREDICTORS = tuple(name for name in FACTORED if name not in INCOMPLETE)
_NAMES = ("intercept", *_PREDICTORS)


def _run(launch: Launch) -> None:
    from statsmodels.genmod import families

    sums = np.zeros(2)

    def count(batch: pa.RecordBatch) -> None:
        for place, values in enumerate(columns_of(batch, ["y_count", "y_gamma"])):
            sums[place] += values.astype(np.float64).sum()

    required = ("y_count", "y_gamma", *_PREDICTORS)
    rows = read_sample(launch, "observations", required, launch.settings["glm_rows"], count)
    facts = launch.facts("observations")
    launch.check("sum of y_count", float(sums[0]), facts.expected["count"])
    launch.check("sum of y_gamma", float(sums[1]), facts.expected["gamma"], tolerance=1e-9 * facts.rows)
    counts, gammas = rows[:, 0].copy(), rows[:, 1].copy()
    # The intercept's column takes the place of a response: no second copy of the rows.
    rows[:, 1] = 1.0
    design = rows[:, 1:]
    with quiet():
        count_means, _ = _fit(launch, "Poisson", counts, design, families.Poisson(), COUNT)
        link = families.links.Log()
        gamma_means, dispersion = _fit(launch, "gamma", gammas, design, families.Gamma(link=link), GAMMA)
    write_result(launch, "means", {"count_mean": count_means, "gamma_mean": gamma_means})
    total = float(counts.sum())
    launch.check("sum of Poisson means", float(count_means.sum()), total, tolerance=1e-5 * total)
    apart = float((gammas / gamma_means).sum())
    launch.check("sum of gamma ratios", apart, float(len(gammas)), tolerance=1e-5 * len(gammas))
    # The fourth moment of a gamma of this shape gives the error of its dispersion.
    error = STANDARD_ERRORS / GAMMA_SHAPE * np.sqrt((2 + 6 / GAMMA_SHAPE) / len(gammas))
    launch.check("dispersion of gamma", dispersion, 1 / GAMMA_SHAPE, tolerance=error + 1e-3)


def _fit(
    launch: Launch, model: str, response: Floats, design: Floats, family: Family, truth: Mapping[str, float]
) -> tuple[Floats, float]:
    """Fit, check, and refit without one predictor at a time; returns means and dispersion."""
    from statsmodels.genmod.generalized_linear_model import GLM

    fit = GLM(response, design, family=family).fit()
    launch.require(f"{model} did not converge", bool(fit.converged))
    check_coefficients(launch, model, _NAMES, np.asarray(fit.params), np.asarray(fit.bse), truth)
    means, dispersion, deviance = np.array(fit.fittedvalues), float(fit.scale), float(fit.deviance)
    del fit
    for place, name in enumerate(_NAMES[1 : launch.settings["glm_tests"] + 1], start=1):
        forget()
        less = GLM(response, np.delete(design, place, axis=1), family=family).fit()
        ratio = (float(less.deviance) - deviance) / dispersion
        del less
        # Chi-squared with one degree: beyond 40 in one of 4 billion where a predictor does not belong.
        fulfilled = ratio > 5 if name in truth else -1e-6 < ratio < 40
        launch.require(f"{model}: {name} has likelihood ratio {ratio}", fulfilled)
    forget()
    return means, dispersion


PROGRAM = Program(
    name="glm",
    class_="computation",
    mirrors="PROC GENMOD",
    engine="statsmodels",
    tables=("observations",),
    run=_run,
    work={"observations": 16 / 384},
)
