"""Exponential smoothing of many series at once: simple, and Winters' additive method."""

from __future__ import annotations

import numpy as np

from gridwright.workload.datasets.quantiles import Floats


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
