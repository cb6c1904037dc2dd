"""Outcomes of nodes put together: what one node would have measured with all streams."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.iotest.coordinator.phase import Part, merged, moved_by, percentiles
from gridwright.iotest.engine import Phase, PhasePlan, Sample, StreamPlan
from gridwright.iotest.options import IotestOptions, NullVolume
from gridwright.iotest.outcome import Method, OperationOutcome
from gridwright.messages import typed
from tests.unit.iotest.test_figures import METHOD, outcome, stream

COUNTS = st.dictionaries(st.integers(1, 10**9), st.integers(1, 50), min_size=1, max_size=30).map(
    lambda found: sorted(found.items())
)


def of_node(name: str, start: float = 0.0, **own: Any) -> Part:
    streams = own.pop("streams", (stream("write", 800, 2.0),))
    own.setdefault("latency_counts", [[1000, 4]])
    own.setdefault("verified_bytes", 0)
    measured = outcome(*streams, **own)
    moved = measured.bytes
    return Part(name, measured, start, [Sample(1.0, 0, moved // 2, 0), Sample(2.0, 0, moved, 0)])


def test_bytes_add_up_and_the_last_node_counts() -> None:
    early = of_node("a", 0.0, streams=(stream("write", 1000, 2.0),))
    late = of_node("b", 0.5, streams=(stream("write", 3000, 4.0), stream("write", 500, 1.0)))
    whole = merged([early, late])
    assert (whole.bytes, whole.written_bytes) == (4500, 4500)
    assert whole.seconds_last == pytest.approx(4.5), "b ran for 4 s, and began 0.5 s after a"
    assert len(whole.streams) == 3


def test_first_done_is_that_of_the_first_stream_of_all() -> None:
    first = of_node(
        "a", 0.0, streams=(stream("write", 1000, 1.0), stream("write", 900, 2.0)), bytes_first=1500
    )
    other = of_node("b", 0.2, streams=(stream("write", 4000, 2.0),))
    whole = merged([other, first])
    assert whole.seconds_first == pytest.approx(1.0)
    # After 0.8 s of its own, b had moved 0.8 of what its first second moved.
    assert whole.bytes_first == 1500 + 1600


@given(st.lists(COUNTS, min_size=1, max_size=4))
def test_latencies_are_merged_count_by_count(nodes: list[list[tuple[int, int]]]) -> None:
    parts = [
        of_node(str(number), latency_counts=[list(each) for each in counts])
        for number, counts in enumerate(nodes)
    ]
    every = sorted(value for counts in nodes for value, count in counts for _ in range(count))
    found = merged(parts).latency_us
    assert found is not None
    for name, quantile in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999)):
        at = getattr(found, name) * 1000
        not_above = sum(value <= at + 1e-6 for value in every)
        below = sum(value < at - 1e-6 for value in every)
        assert not_above >= quantile * len(every) - 1e-9
        assert below < quantile * len(every) + 1e-9
    assert found.max is not None
    assert found.max * 1000 == pytest.approx(every[-1])


def test_one_node_merged_is_itself() -> None:
    options = IotestOptions(engine="null", null=NullVolume(delay_s=0.0001), block_bytes=4096)
    streams = tuple(StreamPlan("write", f"/nowhere/{number}", number, 1 << 20) for number in range(3))
    phase = Phase(PhasePlan(streams, seed=1, bytes_per_stream=1 << 20, seconds=None), options)
    while not phase.wait(1.0):
        pass
    measured = phase.result()
    whole = merged([Part("a", measured, 5.0)])
    assert whole == measured


@given(
    st.lists(st.tuples(st.floats(0.01, 2), st.integers(0, 1000)), min_size=1, max_size=10), st.floats(0, 30)
)
def test_what_had_moved_lies_between_two_samples(steps: list[tuple[float, int]], at: float) -> None:
    history, elapsed, moved = [], 0.0, 0
    for seconds, count in steps:
        elapsed, moved = elapsed + seconds, moved + count
        history.append(Sample(elapsed, moved, 0, 0))
    found = moved_by(history, at)
    before = [sample.read_bytes for sample in history if sample.elapsed_s <= at]
    after = [sample.read_bytes for sample in history if sample.elapsed_s >= at]
    assert (before[-1] if before else 0) - 1e-6 <= found <= (after[0] if after else moved) + 1e-6


def test_a_read_is_cached_by_the_share_of_what_all_read() -> None:
    cold = of_node("a", streams=(stream("read", 3000, 1.0),), cached_fraction=0.0)
    warm = of_node("b", streams=(stream("read", 1000, 1.0),), cached_fraction=0.8)
    assert merged([cold, warm]).cached_fraction == pytest.approx(0.2)
    dumb = of_node("c", streams=(stream("read", 1000, 1.0),), cached_fraction=None)
    assert merged([cold, dumb]).cached_fraction is None


def test_metadata_takes_as_long_as_on_the_slowest_node() -> None:
    one = of_node("a", operations={"create": {"count": 10, "seconds": 1.0}})
    two = of_node("b", operations={"create": {"count": 20, "seconds": 4.0}})
    assert merged([one, two]).operations == {"create": OperationOutcome(30, 4.0)}


def test_a_node_that_did_otherwise_is_named() -> None:
    usual = METHOD | {"io_uring": True, "direct": True}
    refused = METHOD | {"direct": True, "note": "io_uring is refused here: EPERM"}
    method = merged([of_node("a", method=usual), of_node("b", method=refused)]).method
    assert method.io_uring is False
    assert method.direct is True
    assert method.note == "on node b: io_uring is refused here: EPERM"
    assert merged([of_node("a", method=usual)] * 2).method == typed(usual, Method)


def test_an_unsynced_node_makes_the_whole_unsynced() -> None:
    assert merged([of_node("a"), of_node("b", synced=False)]).synced is False
    assert merged([of_node("a"), of_node("b", stopped=True)]).stopped is True


def test_no_latency_is_none() -> None:
    assert percentiles([]) is None
