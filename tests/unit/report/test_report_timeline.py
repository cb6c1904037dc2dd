"""Samples to series: phases apart, nodes together, absent stays absent."""

from __future__ import annotations

from typing import Any

from gridwright.report.timeline import MAX_POINTS, extremes, timelines
from gridwright.runs.samples import SampleRow


def row(time: float, op: str = "write", node: str = "a", **own: object) -> SampleRow:
    fixed: dict[str, Any] = {"time": time, "node": node, "library": "data", "op": op, "interval_s": 1.0}
    return SampleRow(**{**fixed, "read_bytes": 0, "written_bytes": 100, **own})


def test_phases_are_cut_apart_in_order_of_time() -> None:
    line = timelines([row(3, "read"), row(1), row(2), row(4)])["data"]
    assert [(segment.op, len(segment.points)) for segment in line.segments] == [
        ("write", 2), ("read", 1), ("write", 1),
    ]  # fmt: skip


def test_a_rate_is_bytes_over_the_interval() -> None:
    line = timelines([row(1, interval_s=0.5), row(2, written_bytes=None)])["data"]
    assert [point.written for point in line.segments[0].points] == [200.0, None]


def test_nodes_are_added_up_and_two_samples_of_one_second_are_not() -> None:
    rows = [row(1.0), row(1.4), row(1.1, node="b", written_bytes=50), row(2.0), row(2.1, node="b")]
    line = timelines(rows)["data"]
    assert line.nodes == 2
    assert [(point.time, point.written) for point in line.segments[0].points] == [(0.5, 150.0), (1.5, 200.0)]


def test_a_long_run_is_drawn_as_means() -> None:
    line = timelines(row(second, written_bytes=100 + second % 2) for second in range(3 * MAX_POINTS))["data"]
    assert line.seconds_per_point == 3
    assert len(line.segments[0].points) == MAX_POINTS


def test_what_the_device_moved_is_absent_where_no_sample_knows_it() -> None:
    line = timelines([row(1, device_read_bytes=5), row(2, device_read_bytes=None)])["data"]
    assert (line.segments[0].device_read, line.segments[0].device_written) == (5, None)
    assert extremes(line.segments[0].points, "written") == (100.0, 100.0, 100.0)
    assert extremes([], "written") == (None, None, None)


def test_rows_without_a_time_or_a_library_are_left_out() -> None:
    assert timelines([row(1, library=None), SampleRow(library="data")]) == {}


def test_the_last_milliseconds_of_a_phase_are_no_rate_of_their_own() -> None:
    line = timelines([row(1), row(2), row(2.01, interval_s=0.01, written_bytes=1)])["data"]
    assert [round(point.written or 0, 2) for point in line.segments[0].points] == [100.0, 100.0]
    assert (line.start, line.segments[0].end) == (0.0, 2.01)


def test_a_point_stands_in_the_middle_of_its_interval() -> None:
    line = timelines([row(10.0), row(12.0, interval_s=2.0)])["data"]
    assert [point.time for point in line.segments[0].points] == [9.5, 11.0]
    assert line.length == 3.0
