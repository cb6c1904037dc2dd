"""Mirrors PROC ESM and PROC ARIMA: exponential smoothing of all series, ARIMA models of some."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gridwright.workload.datasets.table import Columns, Floats, Integers, to_batch
from gridwright.workload.datasets.tables import (
    AUTOREGRESSION,
    KINDS,
    LEVEL,
    NEGATIVE,
    PERIODS,
    POSITIVE,
    SEASON,
    SEASONAL,
    SMOOTHING,
)
from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program
from gridwright.workload.programs.sampling import STANDARD_ERRORS, columns_of, forget, quiet


def simple(periods: Floats, alpha: float) -> tuple[Floats, Floats]:
    """Smooth series given by period: shape (periods, series).

    Returns the last levels, which are the forecasts, and the errors one period ahead, of which the
    first is zero: shapes (series,) and (periods, series).
    """
    level, errors = periods[0].copy(), np.zeros_like(periods)
    for period in range(1, len(periods)):
        errors[period] = periods[period] - level
        level += errors[period] * alpha
    return level, errors


def winters(
    periods: Floats, alpha: float, beta: float, gamma: float, season: int, settled: int
) -> tuple[Floats, Floats]:
    """Smooth level, trend and season of series given by period: shape (periods, series).

    Returns the mean square of the errors one period ahead from period `settled` on, and the
    forecasts of one more season: shapes (series,) and (season, series).
    """
    first, second = periods[:season].mean(axis=0), periods[season : 2 * season].mean(axis=0)
    trend = (second - first) / season
    seasonal = [periods[each] - first - trend * (each - (season - 1) / 2) for each in range(season)]
    level = first + trend * ((season - 1) / 2)
    squares = np.zeros(periods.shape[1])
    for period in range(season, len(periods)):
        place = period % season
        level += trend
        error = periods[period] - level
        error -= seasonal[place]
        if period >= settled:
            squares += error * error
        # The form that corrects by errors: alpha, alpha * beta and gamma weigh the same error.
        level += error * alpha
        trend += error * (alpha * beta)
        seasonal[place] += error * gamma
    ahead = [level + trend * (each + 1) + seasonal[(len(periods) + each) % season] for each in range(season)]
    return squares / (len(periods) - settled), np.stack(ahead)


_LEARNED = PERIODS - SEASON
"""Periods that forecasts are made from; the last season is kept back."""
_SETTLED = 24
"""Periods after which the start of a level no longer matters."""
_ALPHAS = (0.1, 0.2, SMOOTHING, 0.4, 0.6, 0.8)
_PENALTY = 1.3
"""Winters' method has to be better by so much: it has more to fit with."""
_ORDERS = {POSITIVE: (1, 0, 0), NEGATIVE: (1, 0, 0), LEVEL: (0, 1, 1)}


class _Findings:
    """Sums over the series."""

    def __init__(self) -> None:
        self.series = np.zeros(KINDS, dtype=np.int64)
        self.sums = np.zeros(KINDS)
        self.level_errors = np.zeros(len(_ALPHAS))
        """Squares of the errors one period ahead of series of kind LEVEL, by smoothing weight."""
        self.season_errors = 0.0
        """Squares of the errors of the forecasts of seasonal series."""
        self.estimates: dict[int, list[float]] = {kind: [] for kind in _ORDERS}


def _run_forecast(launch: Launch) -> None:
    """Mirrors PROC ESM and PROC ARIMA: exponential smoothing of all series, ARIMA models of some.

    I/O: reads the series from data once, a block at a time; writes forecasts of every series to work
    as it goes.
    Check: sums by kind, counted when the table was made; simple smoothing is best with the weight that
    made a series, and errs by its shocks alone; Winters' method forecasts the season that was kept back;
    the autoregressions and moving averages behind the series, on average over those that are fitted.

    Exponential smoothing of many series at once: simple, and Winters' additive method.
    """
    import pyarrow as pa

    findings, total = _Findings(), launch.facts("series").rows // PERIODS
    # As many of four consecutive series as give `forecast_arimas` fits.
    step = max(KINDS, total * len(_ORDERS) // max(1, launch.settings["forecast_arimas"]))
    schema = pa.schema([("series", pa.int64()), ("period", pa.int64()), ("forecast", pa.float64())])
    with quiet(), launch.write("forecasts", schema) as target:
        for names, values in _blocks(launch):
            target.write(to_batch(_smooth(launch, findings, names, values), schema), check=False)
            for place in np.flatnonzero(names % step < KINDS).tolist():
                kind = int(names[place]) % KINDS
                if kind in _ORDERS:
                    findings.estimates[kind].append(_arima(values[place], kind))
    _check_smoothing(launch, findings)
    _check_arima(launch, findings)


def _blocks(launch: Launch) -> Iterator[tuple[Integers, Floats]]:
    """Numbers and values of whole series: shapes (series,) and (series, PERIODS)."""
    for batch in launch.read("series"):
        number, period, value = columns_of(batch, ["series", "period", "value"])
        launch.require("a block ends within a series", batch.num_rows % PERIODS == 0)
        names = number.astype(np.int64).reshape(-1, PERIODS)
        periods = period.astype(np.int64).reshape(-1, PERIODS)
        in_order = (names == names[:, :1]).all() and (periods == np.arange(PERIODS)).all()
        launch.require("a series is out of order", bool(in_order))
        yield names[:, 0], value.astype(np.float64).reshape(-1, PERIODS)


def _smooth(launch: Launch, findings: _Findings, names: Integers, values: Floats) -> Columns:
    """Smooth the series of a block with every set of weights; returns the best forecast of each."""
    kind = names % KINDS
    findings.series += np.bincount(kind, minlength=KINDS)
    findings.sums += np.bincount(kind, weights=values.sum(axis=1), minlength=KINDS)
    periods = np.ascontiguousarray(values.T)
    learned, kept_back = periods[:_LEARNED], periods[_LEARNED:]
    least, best = np.full(len(values), np.inf), np.empty((SEASON, len(values)))
    for place, alpha in enumerate(_ALPHAS):
        level, errors = simple(learned, alpha)
        mean = np.square(errors[_SETTLED:]).mean(axis=0)
        findings.level_errors[place] += float(mean[kind == LEVEL].sum())
        best = np.where(mean < least, level, best)
        least = np.minimum(least, mean)
    count = launch.settings["forecast_weights"]
    weights = [0.6 * (number + 0.5) / count for number in range(count)]
    for alpha in weights:
        for beta in weights:
            for gamma in weights:
                mean, ahead = winters(learned, alpha, beta, gamma, SEASON, _SETTLED)
                mean *= _PENALTY
                best = np.where(mean < least, ahead, best)
                least = np.minimum(least, mean)
    chosen = kind == SEASONAL
    findings.season_errors += float(np.square(best - kept_back).mean(axis=0)[chosen].sum())
    return {
        "series": np.repeat(names, SEASON),
        "period": np.tile(np.arange(_LEARNED, PERIODS), len(names)),
        "forecast": best.T.ravel(),
    }


def _arima(values: Floats, kind: int) -> float:
    """Fit one series by maximum likelihood; returns its autoregression or moving average."""
    from statsmodels.tsa.arima.model import ARIMA

    order = _ORDERS[kind]
    fit = ARIMA(values, order=order, trend="n" if order[1] else "c").fit()
    found = float(fit.maparams[0] if order[2] else fit.arparams[0])
    del fit
    forget()
    return found


def _check_smoothing(launch: Launch, findings: _Findings) -> None:
    facts = launch.facts("series")
    for kind in range(KINDS):
        expected = facts.expected["sum_by_kind"][kind]
        tolerance = 1e-12 * abs(expected) * math.sqrt(facts.rows)
        launch.check(f"sum of kind {kind}", float(findings.sums[kind]), expected, tolerance=tolerance)
        rows = facts.expected["rows_by_kind"][kind]
        launch.check(f"rows of kind {kind}", int(findings.series[kind]) * PERIODS, rows)
    series = int(findings.series[LEVEL])
    errors = findings.level_errors / series
    values = series * (_LEARNED - _SETTLED)
    right = float(errors[_ALPHAS.index(SMOOTHING)])
    error = STANDARD_ERRORS * math.sqrt(2 / values) + 1e-3
    launch.check("square of shocks", right, 1.0, tolerance=error)
    for alpha, other in zip(_ALPHAS, errors.tolist(), strict=True):
        # What the wrong weight adds to an error has this variance.
        added = (alpha - SMOOTHING) ** 2 / (1 - (1 - alpha) ** 2)
        error = STANDARD_ERRORS * (2 * math.sqrt(added / values) + added * math.sqrt(2 / series))
        launch.check(f"what weight {alpha} adds", other - right, added, tolerance=error + 1e-3)
    # The noise has variance 1.1, and what is learned from four seasons errs by 1.5 more on average; a
    # forecast that knows no season errs by 30.
    mean, spread = findings.season_errors / int(findings.series[SEASONAL]), 5 / math.sqrt(series)
    launch.require(f"seasonal forecasts err by {mean}", 1.0 < mean < 4.0 + STANDARD_ERRORS * spread)


def _check_arima(launch: Launch, findings: _Findings) -> None:
    for kind, order in _ORDERS.items():
        estimates = findings.estimates[kind]
        truth = SMOOTHING - 1 if order[2] else AUTOREGRESSION[kind]
        # Estimates from so few periods are biased, by about (1 + 3 phi) / T (Marriott and Pope 1954).
        bias = 1.5 * (1 + 3 * abs(truth)) / PERIODS
        error = STANDARD_ERRORS * 1.3 * math.sqrt((1 - truth**2) / PERIODS / max(1, len(estimates)))
        mean = sum(estimates) / max(1, len(estimates))
        launch.check(f"mean estimate of kind {kind}", mean, truth, tolerance=bias + error)


FORECAST_PROGRAM = Program(
    name="forecast",
    class_="computation",
    mirrors="PROC ESM and PROC ARIMA",
    engine="statsmodels and NumPy",
    tables=("series",),
    run=_run_forecast,
    work={"series": 12 / 60 * 1.05},
)
