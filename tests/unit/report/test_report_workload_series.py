"""Samples and launches over time: every byte counted once, nodes together, absent stays absent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.report.timeline import MAX_POINTS, timelines
from gridwright.report.workload.series import Series, Span, own_samples, series_of, span_of, tail_of
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.samples import SampleRow
from tests.support.records import WORKLOAD_START, launch_record, workload_row


def series(rows: list[SampleRow], launches: list[LaunchRecord] | None = None) -> Series:
    own = own_samples(rows)
    span = span_of(own, launches or [])
    assert span is not None
    return series_of(own, launches or [], span)


def launch(begin: float, end: float, stream: int = 1) -> LaunchRecord:
    return launch_record(stream=stream, started=WORKLOAD_START + begin, ended=WORKLOAD_START + end)


def test_the_timelines_of_iotest_leave_the_workload_out() -> None:
    assert timelines([workload_row(1), workload_row(2)]) == {}


def test_samples_of_iotest_are_left_out() -> None:
    assert own_samples([workload_row(1, op="read"), workload_row(2, time=None)]) == []


def test_a_rate_is_what_was_moved_in_a_second() -> None:
    own = series([workload_row(1), workload_row(2, read_bytes=100_000_000)])
    assert own.libraries["work"]["read_bytes"] == pytest.approx((300e6, 100e6))
    assert own.libraries["work"]["device_read_bytes"] == (None, None)


def test_rates_of_nodes_add_up_and_cpu_is_their_mean() -> None:
    rows = [
        workload_row(s, node=node, cpu_percent=cpu) for s in (1, 2) for node, cpu in (("a", 20), ("b", 60))
    ]
    own = series(rows)
    assert own.libraries["work"]["read_bytes"] == pytest.approx((600e6, 600e6))
    assert own.cpu_percent == pytest.approx((40.0, 40.0))
    assert own.running == (8, 8)
    assert own.nodes == 2


def test_nodes_that_sample_at_their_own_moments_make_no_dips() -> None:
    rows = [
        workload_row(0, node=node, time=WORKLOAD_START + second + shift)
        for node, shift in (("a", 0.0), ("b", 0.45))
        for second in range(1, 20)
    ]
    middle = series(rows).libraries["work"]["read_bytes"][2:-2]
    assert middle == pytest.approx([600e6] * len(middle))


def test_the_last_milliseconds_are_no_rate_of_their_own() -> None:
    rows = [
        workload_row(1),
        workload_row(2),
        workload_row(0, time=WORKLOAD_START + 2.01, interval_s=0.01),
    ]
    assert len(series(rows).running) == 2


def test_a_long_workload_is_drawn_as_means() -> None:
    own = series([workload_row(second) for second in range(1, 2 * MAX_POINTS + 1)])
    assert own.span.bin_s == 2
    assert len(own.running) == len(own.span.middles) == MAX_POINTS


def test_launches_are_counted_where_no_sample_tells() -> None:
    own = series([], [launch(0, 4), launch(1, 3, stream=2)])
    assert own.running == pytest.approx((1, 2, 2, 1))
    assert own.cpu_percent == ()


def test_the_tail_begins_when_the_first_stream_is_done() -> None:
    launches = [launch(0, 2), launch(2, 5), launch(0, 9, stream=2)]
    assert tail_of(launches) == WORKLOAD_START + 5
    assert tail_of(launches[:2]) is None
    assert tail_of([]) is None


def test_nothing_with_a_time_has_no_axis() -> None:
    assert span_of([], [launch_record(started=None, ended=None)]) is None


@given(
    length=st.floats(0.001, 50_000),
    pieces=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=8),
)
def test_bins_share_out_every_second_exactly_once(length: float, pieces: list[tuple[float, float]]) -> None:
    span = Span(WORKLOAD_START, length)
    assert 1 <= len(span.edges) <= MAX_POINTS + 1
    for one, other in pieces:
        begin, end = (WORKLOAD_START + length * part for part in sorted((one, other)))
        shared = sum(seconds for _, seconds in span.overlaps(begin, end))
        assert shared == pytest.approx(end - begin, abs=1e-4)
