"""Courses of nodes on one grid: sums, gaps, who was away, and what of a machine counts once."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.monitor.console.queries import (
    BY,
    FILTERS,
    HOW,
    MOST_POINTS,
    PRESENCE,
    RangeQuery,
    SeriesQuery,
    as_csv,
    document,
    range_query,
    resample,
    series_query,
    snapshot_query,
)
from gridwright.monitor.history.questions import NodeCourse, SeriesCourse


def asked(metric: str, **more: str) -> SeriesQuery:
    """Ten steps of a second from 100 on."""
    return series_query([("metric", metric), ("from", "100"), ("to", "110"), ("points", "10"), *more.items()])


Told = tuple[str, tuple[str, ...], list[float | None]]


def course(
    node: str, *series: tuple[str, tuple[str, ...], list[float | None]], step: float = 1.0
) -> NodeCourse:
    told = tuple(
        SeriesCourse(metric, labels, tuple(values), tuple(values)) for metric, labels, values in series
    )
    return NodeCourse(node, 100.0, step, told)


def there(count: int = 10, away: tuple[int, ...] = ()) -> tuple[str, tuple[str, ...], list[float | None]]:
    return PRESENCE, (), [None if index in away else 1e9 for index in range(count)]


READ = "gridwright_mount_read_bytes_total"
DISK = "node_disk_read_bytes_total"


def test_sums_over_nodes_are_those_of_who_was_there_and_who_was_not_is_named() -> None:
    one = course("n1", (READ, ("/m", "t1"), [5.0] * 10), there())
    gone: list[float | None] = [7.0] * 4 + [None] * 6
    other = course("n2", (READ, ("/m", "t1"), gone), there(away=(4, 5, 6, 7, 8, 9)))
    silent = NodeCourse("n3", 100.0, 1.0, (), "no answer in time")
    found = resample([one, other, silent], asked(READ, by="target"))
    (line,) = found.lines
    assert line.values.tolist() == [12.0] * 4 + [5.0] * 6
    assert {(each.node, each.start_s, each.end_s, each.why) for each in found.away} == {
        ("n2", 104.0, 110.0, "no samples"),
        ("n3", 100.0, 110.0, "no answer in time"),
    }


def test_the_step_that_goes_on_is_no_absence() -> None:
    assert resample([course("n1", there(away=(8, 9)))], asked(PRESENCE)).away == ()


def test_coarser_nodes_make_the_grid_coarser_and_no_second_is_invented() -> None:
    fine = course("n1", ("node_load1", (), [float(each) for each in range(10)]), there())
    coarse = course("n2", ("node_load1", (), [10.0, None]), (PRESENCE, (), [1.0, None]), step=5.0)
    found = resample([fine, coarse], asked("node_load1"))
    assert (found.grid.step_s, found.grid.count) == (5.0, 2)
    by_name = {line.name: line.values.tolist() for line in found.lines}
    assert by_name["n1"] == [2.0, 7.0]
    assert by_name["n2"][0] == 10.0
    assert np.isnan(by_name["n2"][1])


def test_a_job_of_a_moment_keeps_its_bytes_and_its_peak_in_coarser_steps() -> None:
    """A node whose history is coarser makes the steps wide: neither sums nor the highest may follow."""
    job = "gridwright_job_read_bytes_total"
    moment: list[float | None] = [None, 50.0, None, None, None, *[None] * 5]
    fine = course("n1", (job, ("7",), moment), there(away=(4,)))
    coarse = course("n2", (job, ("8",), [3.0, 3.0]), (PRESENCE, (), [1.0, 1.0]), step=5.0)
    found = {line.name: line for line in resample([fine, coarse], asked(job, by="job")).lines}
    assert found["7"].values[0] == 50.0 / 4, (
        "it moved 50 bytes in the four seconds in which the node was seen"
    )
    assert np.isnan(found["7"].values[1])
    highest = found["7"].highest
    assert highest is not None
    assert highest[0] == 50.0
    load = course("n1", ("node_load1", (), [float(each) for each in range(10)]), there())
    peaks = {line.name: line.highest for line in resample([load, coarse], asked("node_load1")).lines}["n1"]
    assert peaks is not None
    assert peaks.tolist() == [4.0, 9.0]


def test_disks_of_nodes_of_one_machine_count_once_and_their_mounts_each() -> None:
    rows = [
        course(name, (DISK, ("sda",), [4.0] * 10), (READ, ("/m", "t"), [1.0] * 10), there())
        for name in ("n1", "n2")
    ]
    machines = {"n1": "m", "n2": "m"}
    assert resample(rows, asked(DISK, by="all"), machines).lines[0].values[0] == 4.0
    assert resample(rows, asked(DISK, by="all")).lines[0].values[0] == 8.0
    assert resample(rows, asked(READ, by="all"), machines).lines[0].values[0] == 2.0
    # Each of them alone shows what is its machine's.
    assert resample(rows, asked(DISK, by="all", node="n2"), machines).lines[0].values[0] == 4.0


def test_lines_beyond_those_asked_for_are_added_up_exactly() -> None:
    jobs: list[Told] = [
        ("gridwright_job_read_bytes_total", (str(number),), [float(number)] * 10) for number in range(1, 13)
    ]
    found = resample(
        [course("n1", *jobs, there())], asked("gridwright_job_read_bytes_total", by="job", most="3")
    )
    assert [line.name for line in found.lines] == ["12", "11", "10", "9 others"]
    assert found.lines[-1].values[0] == sum(range(1, 10))


def test_only_what_is_asked_for_is_told() -> None:
    modes: list[Told] = [
        ("node_cpu_seconds_total", (mode,), [1.0] * 10) for mode in ("user", "system", "idle")
    ]
    question = series_query(
        [("metric", "node_cpu_seconds_total"), ("from", "100"), ("to", "110"), ("points", "10"),
         ("mode", "user"), ("mode", "system"), ("node", "n1")]
    )  # fmt: skip
    found = resample([course("n1", *modes, there()), course("n2", *modes, there())], question)
    assert [(line.name, line.values[0]) for line in found.lines] == [("n1", 2.0)]


def test_csv_has_a_row_for_each_step_and_no_formula_of_a_hostile_name() -> None:
    job = ("gridwright_job_read_bytes_total", ('=HYPERLINK("x"),"\n',), [1.5, None] * 5)
    rows = list(
        csv.reader(io.StringIO(as_csv(resample([course("n1", job, there())], asked(job[0], by="job")))))
    )
    assert rows[0] == ["time", '\'=HYPERLINK("x"),"\n']
    assert rows[1:3] == [["1970-01-01T00:01:40Z", "1.5"], ["1970-01-01T00:01:41Z", ""]]
    assert len(rows) == 11


def test_a_document_has_null_where_nothing_is_known() -> None:
    load: list[float | None] = [None, 1.23456789] * 5
    found = document(resample([course("n1", ("node_load1", (), load), there())], asked("node_load1")))
    assert found["lines"][0]["values"][:2] == [None, 1.23457]


# What a browser asks is read whole or refused whole, whatever it is.

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
