"""What a browser asks is read whole or refused whole, whatever it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.monitor.console.queries import (
    BY,
    FILTERS,
    HOW,
    MOST_POINTS,
    RangeQuery,
    SeriesQuery,
    range_query,
    series_query,
    snapshot_query,
)

NAMES = st.sampled_from(
    ["from", "to", "points", "metric", "by", "how", "most", "format", "at", "seconds", *FILTERS]
)
VALUES = st.one_of(
    st.text(max_size=40),
    st.floats().map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        ["node_load1", "node_cpu_seconds_total", "gridwright_job_user", "json", "csv", *BY, *HOW]
    ),
)


@given(st.lists(st.tuples(st.one_of(NAMES, st.text(max_size=20)), VALUES), max_size=12))
def test_any_query_is_read_within_bounds_or_refused_as_the_asker_s_mistake(
    query: list[tuple[str, str]],
) -> None:
    for read in (series_query, range_query, snapshot_query):
        try:
            asked = read(query)
        except GridwrightError as error:
            assert error.status is ExitStatus.INPUT
            assert all(len(each.what) < 1000 and each.what.isprintable() for each in error.problems)
            continue
        found = asked.range if isinstance(asked, SeriesQuery) else asked
        if isinstance(found, RangeQuery):
            assert 1 <= found.steps <= MOST_POINTS + 1
            assert found.start_s <= found.end_s


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(GridwrightError) as told:
        series_query([("metrik", "node_load1"), ("from", "5"), ("to", "x"), ("by", "disc")])
    words = str(told.value)
    for part in ("did you mean metric", "metric is missing", "'x' is not allowed", "by 'disc'"):
        assert part in words


@pytest.mark.parametrize("metric", ["gridwright_job_user", "gridwright_process_moved_bytes_total"])
def test_whose_a_job_is_and_what_a_process_is_called_cannot_be_asked_for(metric: str) -> None:
    with pytest.raises(GridwrightError, match="not known here"):
        series_query([("metric", metric), ("from", "0"), ("to", "100")])


def test_administrators_may_ask_for_names() -> None:
    good = [("metric", "lustre_job_read_bytes_total"), ("by", "jobid"), ("from", "0"), ("to", "100")]
    assert series_query(good, names=True).by == "jobid"
    with pytest.raises(GridwrightError, match="not known here"):
        series_query(good)


def test_steps_are_those_that_divide_hours_and_begin_at_them() -> None:
    found = range_query([("from", "1000001"), ("to", "1003601"), ("points", "100")])
    assert (found.step_s, found.start_s % found.step_s, found.end_s) == (60.0, 0.0, 1003601.0)
