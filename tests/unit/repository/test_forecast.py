"""Forecasts of exports and restores: what binds, and which requests are paid for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.repository.forecast import (
    PART_BYTES,
    RANGE_BYTES,
    RepositoryForecast,
    TransferLimit,
    forecast,
    month_forecast,
    restore_forecast,
)
from gridwright.repository.s3 import parts, s3_store

OUT = [TransferLimit("read", 1e9), TransferLimit("network", 3e9)]
BACK = [TransferLimit("write", 5e8)]


def test_parts_are_those_of_transfers() -> None:
    assert PART_BYTES == parts.PART_BYTES
    assert RANGE_BYTES == s3_store.RANGE_BYTES


def test_the_slowest_binds_until_there_are_too_many_objects() -> None:
    large = forecast("archive", 10**12, 1000, OUT, BACK)
    small = forecast("archive", 10**12, 10**8, OUT, BACK)

    assert [(each.seconds, each.bound_by) for each in large.transfers] == [
        (1000, "read"), (2000, "write"), (2000, "write"),
    ]  # fmt: skip
    assert small.transfers[0].seconds == pytest.approx(10**8 / 3500)
    assert small.transfers[1].seconds == pytest.approx(10**8 / 5500)
    assert "prefix" in small.transfers[0].bound_by


def test_requests_of_small_objects_cost_what_the_list_says() -> None:
    export, warm_up, restore = forecast("archive", 10**9, 10**6, OUT, BACK).transfers

    assert export.requests == {"put": 10**6}
    assert export.requests_usd == pytest.approx(5.0)
    assert warm_up.requests == {"get": 10**6}
    assert warm_up.requests_usd == pytest.approx(0.4)
    assert restore.requests == {"get": 10**6 + 1, "list": 1000}


def test_without_a_number_of_objects_no_cost_is_made_up() -> None:
    found = forecast("archive", 10**9, None, OUT, BACK)

    assert {each.requests_usd for each in found.transfers} == {None}
    assert found.transfers[0].seconds == pytest.approx(1.0)


@given(st.integers(1, 10**15), st.integers(1, 10**9))
def test_more_is_never_faster_or_cheaper(size: int, objects: int) -> None:
    def of(each: RepositoryForecast) -> list[tuple[float, float]]:
        return [(one.seconds, one.requests_usd or 0.0) for one in each.transfers]

    one, more = (of(forecast("a", size * factor, objects * factor, OUT, BACK)) for factor in (1, 3))
    for (seconds, usd), (longer, dearer) in zip(one, more, strict=True):
        assert longer >= seconds
        assert dearer >= usd


def test_status_and_predict_have_one_restore() -> None:
    assert restore_forecast(10**12, 1000, BACK) == forecast("archive", 10**12, 1000, OUT, BACK).transfers[2]


def test_a_restore_without_limits_is_bound_by_requests() -> None:
    found = restore_forecast(10**9, 11_000)

    assert found.seconds == pytest.approx(2.0, rel=1e-3)
    assert "prefix" in found.bound_by


def test_a_month_is_storage_and_what_runs_by_time() -> None:
    month = month_forecast(2**40, 1_000_500, 0.02, 3600.0, 86_400.0)

    assert month.storage_usd == pytest.approx(1024 * 0.02)
    assert (month.exports, month.imports, month.listings) == (730, 30, 760 * 1001)
    assert month.listings_usd == pytest.approx(760 * 1001 * 0.005 / 1000)


def test_what_is_not_known_of_a_month_is_not_made_up() -> None:
    month = month_forecast(2**40, None, None, 0.0, None)

    assert (month.storage_usd, month.listings, month.listings_usd) == (None, None, None)
    assert (month.exports, month.imports) == (0, 0)
