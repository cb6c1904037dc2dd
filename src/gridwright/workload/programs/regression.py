"""Tests that fit models of the observations, as REG, LOGISTIC, GENMOD and MIXED do."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from gridwright.workload.datasets.table import Floats, Integers
from gridwright.workload.datasets.tables import (
    BINARY,
    COUNT,
    FACTORED,
    GAMMA,
    GAMMA_SHAPE,
    INCOMPLETE,
    LINEAR,
    LINEAR_SIGMA,
    MIXED,
    MIXED_DEVIATIONS,
    PREDICTORS,
    group_effects,
    groups,
)
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
    from statsmodels.regression.mixed_linear_model import MixedLMResults


_REG_NAMES = ("intercept", *PREDICTORS)
_COLUMNS = (*PREDICTORS, "y_linear")
_CANDIDATES = FACTORED[8:30] + PREDICTORS[32:] + FACTORED[:8]
"""What subsets are chosen of, the first `reg_candidates` of them: 16 that belong and 22 that do not."""
_AT_ONCE = 14
"""Candidates whose subsets are all formed as one array."""
_TASKS = 256
"""The other subsets are dealt to so many tasks for the threads."""


def _run_reg(launch: Launch) -> None:
    """Mirrors PROC REG: least squares over all rows, the best of all subsets, and diagnostics by row.

    I/O: reads the observations from data once; writes predictions, residuals and leverages of up to
    `reg_rows` rows to work.
    Check: complete rows and sums of the response, counted when the table was made; coefficients and
    error variance of the model behind the data; the best subset has all that belongs; residuals are
    independent (Durbin-Watson) and orthogonal to the predictors.
    """
    products = np.zeros((len(_REG_NAMES) + 1,) * 2)

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
        variance = squares / (products[0, 0] - len(_REG_NAMES))
        subset = _best_subset(products, launch.settings["reg_candidates"], launch.cores)
        residual = _diagnose(launch, kept, found, inverse, variance)
    _check_fit(launch, products, found, np.sqrt(np.diag(inverse) * variance), variance, subset)
    _check_residuals(launch, residual, kept[:, :-1], variance, whole=whole)


def _complete(rows: Floats) -> Floats:
    """The rows that miss no predictor."""
    places = [_REG_NAMES.index(name) for name in INCOMPLETE]
    return rows[~np.isnan(rows[:, places]).any(axis=1)]


def _best_subset(products: Floats, candidates: int, cores: int) -> set[str]:
    """The subset of the candidates, all others kept, with the least SBC (Schwarz's criterion)."""
    chosen = [_REG_NAMES.index(name) for name in _CANDIDATES[:candidates]]
    places = [*chosen, len(_REG_NAMES)]
    rest = [place for place in range(len(_REG_NAMES)) if place not in chosen]
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
    check_coefficients(launch, "least squares", _REG_NAMES, found, errors, LINEAR)
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


REG_PROGRAM = Program(
    name="reg",
    class_="computation",
    mirrors="PROC REG",
    engine="NumPy (OpenBLAS)",
    tables=("observations",),
    run=_run_reg,
    work={"observations": 40 / 384},
    threaded=True,
)


_LOGISTIC_NAMES = ("intercept", *PREDICTORS)
_STAY = 3.84
"""Square of a predictor's z below which it leaves: 5 % of those that do not belong are above it."""


def _run_logistic(launch: Launch) -> None:
    """Mirrors PROC LOGISTIC with SELECTION=BACKWARD: Newton's method, dropping one predictor at a time.

    I/O: reads the observations from data once; writes probabilities and residuals of up to
    `logistic_rows` rows to work.
    Check: responses, counted when the table was made; coefficients of the model behind the data;
    predictors that belong survive; fitted probabilities add up to the responses; the area under the
    ROC curve.
    """
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
    stay = list(range(len(_LOGISTIC_NAMES)))
    with quiet():
        fit = Logit(response, rows).fit(method="newton", disp=0)
        launch.require("Newton's method did not converge", bool(fit.mle_retvals["converged"]))
        check_coefficients(
            launch, "logistic", _LOGISTIC_NAMES, np.asarray(fit.params), np.asarray(fit.bse), BINARY
        )
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
    left = {_LOGISTIC_NAMES[place] for place in stay}
    launch.require(f"of {sorted(BINARY)}, only {sorted(left)} are left", set(BINARY) <= left)
    _check_responses(launch, response, probability)


def _check_responses(launch: Launch, response: Floats, probability: Floats) -> None:
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


LOGISTIC_PROGRAM = Program(
    name="logistic",
    class_="computation",
    mirrors="PROC LOGISTIC",
    engine="statsmodels",
    tables=("observations",),
    run=_run_logistic,
    work={"observations": 16 / 384},
)


_PREDICTORS = tuple(name for name in FACTORED if name not in INCOMPLETE)
_GLM_NAMES = ("intercept", *_PREDICTORS)


def _run_glm(launch: Launch) -> None:
    """Mirrors PROC GENMOD with TYPE3: Poisson and gamma models, refitted without each of some predictors.

    I/O: reads the observations from data once; writes the means of both models of up to `glm_rows`
    rows to work.
    Check: sums of both responses, counted when the table was made; coefficients and dispersion of the
    models behind the data; likelihood ratios tell what belongs; the score equations of the intercepts.
    """
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
    check_coefficients(launch, model, _GLM_NAMES, np.asarray(fit.params), np.asarray(fit.bse), truth)
    means, dispersion, deviance = np.array(fit.fittedvalues), float(fit.scale), float(fit.deviance)
    del fit
    for place, name in enumerate(_GLM_NAMES[1 : launch.settings["glm_tests"] + 1], start=1):
        forget()
        less = GLM(response, np.delete(design, place, axis=1), family=family).fit()
        ratio = (float(less.deviance) - deviance) / dispersion
        del less
        # Chi-squared with one degree: beyond 40 in one of 4 billion where a predictor does not belong.
        fulfilled = ratio > 5 if name in truth else -1e-6 < ratio < 40
        launch.require(f"{model}: {name} has likelihood ratio {ratio}", fulfilled)
    forget()
    return means, dispersion


GLM_PROGRAM = Program(
    name="glm",
    class_="computation",
    mirrors="PROC GENMOD",
    engine="statsmodels",
    tables=("observations",),
    run=_run_glm,
    work={"observations": 16 / 384},
)


_FIXED = ("x03", "x02", "x07", "x11", "x16", "x21")
"""Four that belong, of which the first also has random slopes, and two that do not."""
_LARGE = 100
"""Rows that tell a group's effects well."""


def _run_mixed(launch: Launch) -> None:
    """Mirrors PROC MIXED: random intercepts and slopes of groups, by restricted maximum likelihood.

    I/O: reads the observations from data once; writes predictions and residuals of up to `mixed_rows`
    rows, and the effects of the groups, to work.
    Check: rows by group, counted when the table was made; coefficients and variances of the model
    behind the data; the effects of the large groups, which are known.
    """
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


MIXED_PROGRAM = Program(
    name="mixed",
    class_="computation",
    mirrors="PROC MIXED",
    engine="statsmodels",
    tables=("observations",),
    run=_run_mixed,
    work={"observations": 28 / 384},
)
