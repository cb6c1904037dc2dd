"""Mirrors PROC MIXED: random intercepts and slopes of groups, by restricted maximum likelihood.

I/O: reads the observations from data once; writes predictions and residuals of up to `mixed_rows`
rows, and the effects of the groups, to work.
Check: rows by group, counted when the table was made; coefficients and variances of the model
behind the data; the effects of the large groups, which are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gridwright.workload.datasets.observations import MIXED, MIXED_DEVIATIONS, group_effects, groups
from gridwright.workload.datasets.quantiles import Floats, Integers
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
    from statsmodels.regression.mixed_linear_model import MixedLMResults

_FIXED = ("x03", "x02", "x07", "x11", "x16", "x21")
"""Four that belong, of which the first also has random slopes, and two that do not."""
_LARGE = 100
"""Rows that tell a group's effects well."""


def _run(launch: Launch) -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    count = groups(launch.facts("observations").rows)
    entries = np.zeros(count, dtype=np.int64)

    def tally(batch: pa.RecordBatch) -> None:
        group = columns_of(batch, ["grp"])[0].astype(np.int64)
        launch.require("a group does not exist", bool(((group >= 0) & (group < count)).all()))
        entries[:] += np.bincount(group, minlength=count)

    required = ("y_mixed", *_FIXED, "grp")
    rows = read_sample(launch, "observations", required, launch.settings["mixed_rows"], tally)
    for number, expected in enumerate(launch.facts("observations").expected["rows_by_group"]):
        launch.check(f"rows of group {number}", int(entries[number]), expected)
    group = rows[:, -1].astype(np.int64)
    response = rows[:, 0].copy()
    rows[:, 0] = 1.0
    design = rows[:, :-1]
    with quiet():
        fits = []
        for effects_of_group in (1, 2):
            model = MixedLM(response, design, groups=group, exog_re=design[:, :effects_of_group])
            # Without a start of its own it runs, with some data, into the border where effects vanish.
            start = MixedLMParams.from_components(
                fe_params=np.linalg.lstsq(design, response)[0], cov_re=0.25 * np.eye(effects_of_group)
            )
            fits.append(model.fit(start_params=start, reml=True, method="bfgs", maxiter=200))
        less, fit = fits
    gain = 2 * float(fit.llf - less.llf)
    launch.require(f"slopes of groups have likelihood ratio {gain}", gain > 5)
    _check_model(launch, fit, group)
    effects = np.array([np.asarray(fit.random_effects[each]) for each in np.unique(group)])
    _check_effects(launch, fit, group, effects)
    predicted = design @ np.asarray(fit.fe_params)
    result = {"group": group, "predicted": predicted, "residual": response - predicted}
    write_result(launch, "residuals", result)
    solution = {"group": np.unique(group), "intercept": effects[:, 0].copy(), "slope": effects[:, 1].copy()}
    write_result(launch, "effects", solution)


def _check_model(launch: Launch, fit: MixedLMResults, group: Integers) -> None:
    names, found = ("intercept", *_FIXED), np.asarray(fit.fe_params)
    check_coefficients(launch, "mixed", names, found, np.asarray(fit.bse_fe), MIXED)
    entries = np.unique(group, return_counts=True)[1]
    noise = MIXED_DEVIATIONS[2] ** 2
    error = STANDARD_ERRORS * noise * np.sqrt(2 / (len(group) - 2 * len(entries)))
    launch.check("residual variance", float(fit.scale), noise, tolerance=error)
    for place, name in enumerate(("intercepts", "slopes")):
        deviation = float(np.sqrt(np.asarray(fit.cov_re)[place, place]))
        truth = MIXED_DEVIATIONS[place]
        # Fisher's information on a variance: the less rows a group has, the less it tells.
        information = float(np.square(1 / (truth**2 + noise / entries)).sum()) / 2
        error = STANDARD_ERRORS / np.sqrt(information) / (2 * truth)
        launch.check(f"deviation of {name}", deviation, truth, tolerance=error)


def _check_effects(launch: Launch, fit: MixedLMResults, group: Integers, effects: Floats) -> None:
    """Compare predicted effects of large groups with the true ones, in standard errors each."""
    names, entries = np.unique(group, return_counts=True)
    true = group_effects(groups(launch.facts("observations").rows))
    for place, name in enumerate(("intercept", "x03")):
        base = float(fit.fe_params[place])
        for number in np.flatnonzero(entries >= _LARGE).tolist():
            which = int(names[number])
            found, truth = base + float(effects[number, place]), MIXED[name] + float(true[place][which])
            # x03 has variance 1: intercept and slope are told equally well; twice for the shrinking.
            error = STANDARD_ERRORS * 2 * MIXED_DEVIATIONS[2] / float(np.sqrt(entries[number]))
            launch.check(f"{name} of group {which}", found, truth, tolerance=error)


PROGRAM = Program(
    name="mixed",
    class_="computation",
    mirrors="PROC MIXED",
    engine="statsmodels",
    tables=("observations",),
    run=_run,
    work={"observations": 28 / 384},
)
