"""Launches that ran at the same time, laid side by side."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gridwright.runs.launch_record import LaunchRecord
from gridwright.workload.imports.streams import assign_streams


def launch_of(started: float | None, ended: float | None) -> LaunchRecord:
    return LaunchRecord(
        number=1, test="t", class_="command", stream=1, node="n", started=started, ended=ended, ok=True
    )


def test_launches_side_by_side_get_streams_of_their_own() -> None:
    spans = [(0, 10), (5, 15), (10, 20), (15, 25), (12, 30), (None, None), (9.5, 11)]
    streams = [launch.stream for launch in assign_streams([launch_of(*span) for span in spans])]
    # The third and the last share half a second with another of their stream: less than a stamp tells.
    assert streams == [1, 2, 1, 2, 3, 1, 1]


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(2, 40)), max_size=30))
def test_streams_do_not_overlap_and_are_as_few_as_can_be(spans: list[tuple[int, int]]) -> None:
    launches = [launch_of(float(start), float(start + length)) for start, length in spans]
    found = assign_streams(launches)
    assert [(x.started, x.ended) for x in found] == [(x.started, x.ended) for x in launches]
    most = 0
    for at, _ in spans:
        beside = [
            launch.stream
            for (start, length), launch in zip(spans, found, strict=True)
            if start <= at < start + length - 1
        ]
        assert len(beside) == len(set(beside))
        most = max(most, len(beside))
    assert max((launch.stream for launch in found), default=0) == most
