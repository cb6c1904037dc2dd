"""When a file system is full: told where the past says so, and not told where it does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gridwright.monitor.console.answers import DAY_S, balance_of, outlook_of
from gridwright.monitor.console.resampling import Values

DAYS = np.arange(0, 60, 0.5)
TIMES = [float(each) * DAY_S for each in DAYS]


def noise(size: float) -> Values:
    swing: Values = np.sin(np.arange(len(DAYS)) * 12.9898)
    return size * swing


def test_a_library_that_grows_is_full_when_it_is_and_outliers_do_not_change_that() -> None:
    used = 1e12 + 1e10 * DAYS + noise(2e9)
    # In every sixth sample scratch data of a night lie there as well.
    used[::6] += 5e11
    found = outlook_of(TIMES, used, 2e12)
    last = float(used[-1])
    assert found.outlook == "fills"
    assert found.days == pytest.approx((2e12 - last) / 1e10, rel=0.05)
    assert found.soonest is not None and found.latest is not None and found.days is not None
    assert found.soonest <= found.days <= found.latest


@pytest.mark.parametrize(
    ("used", "outlook"),
    [
        (np.full(len(DAYS), 1e12), "steady"),
        (1e12 - 1e10 * DAYS, "empties"),
        (1e12 + noise(3e11), "cannot tell"),
        (1e12 + 1e6 * DAYS, "cannot tell"),
        (np.where(DAYS < 55, np.nan, 1e12 + 1e10 * DAYS), "cannot tell"),
    ],
    ids=["steady", "empties", "goes up and down", "would take longer than anybody saw", "too few points"],
)
def test_what_does_not_fill_or_cannot_be_told_has_no_days(used: Values, outlook: str) -> None:
    found = outlook_of(TIMES, used, 2e12)
    assert (found.outlook, found.days) == (outlook, None)
    assert (found.why != "") == (outlook == "cannot tell")


def test_a_file_system_that_is_full_has_no_days_left() -> None:
    used = np.minimum(2e12, 1.9e12 + 1e10 * DAYS / 5)
    found = outlook_of(TIMES, used, 2e12)
    assert found.days == 0.0


def test_balance_tells_the_busiest_target_against_the_mean() -> None:
    found = balance_of([("t1", 1.0), ("t2", 1.0), ("t3", 4.0)])
    assert found is not None
    assert (found.targets, found.busiest, found.ratio) == (3, "t3", 2.0)
    assert balance_of([("t1", 1.0)]) is None
    idle = balance_of([("t1", 0.0), ("t2", 0.0)])
    assert idle is not None and idle.ratio is None and not math.isnan(idle.mean)
