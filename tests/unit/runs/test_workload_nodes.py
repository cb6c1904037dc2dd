"""Nodes of a workload side by side, and what running launches as jobs costs, against figures by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gridwright.runs.launch_record import LaunchRecord, LibraryTraffic
from gridwright.runs.workload_events import WorkloadBegun, WorkloadSample
from gridwright.runs.workload_record import (
    WorkloadReducer,
    between_launches,
    cached_finding,
    cached_reads,
    queued,
    summarize,
    summarize_nodes,
    with_cached_reads,
)
from tests.support.records import WORKLOAD_START, launch_record, workload_row


def job(number: int, stream: int, begin: float, end: float, node: str, **own: Any) -> LaunchRecord:
    values: dict[str, Any] = {
        "real_s": end - begin,
        "user_s": 1.0,
        "system_s": 1.0,
        "cpu_real_ratio": 2.0 / (end - begin),
        "read_bytes": 10,
        "written_bytes": 1,
        "shares": {"cpu": 1.0},
        "job": str(number),
        "submitted": WORKLOAD_START + begin - 0.5,
    }
    times = {"started": WORKLOAD_START + begin, "ended": WORKLOAD_START + end}
    return launch_record(number, "sort", stream=stream, node=node, **(values | times | own))


def four() -> list[LaunchRecord]:
    """Two streams over two nodes; a third node was lost under the last launch."""
    return [
        job(1, 1, 1, 5, "compute10"),
        job(2, 1, 6, 8, "compute2", shares={"core": 1.0}),
        job(3, 2, 1, 9, "compute10", ok=False, reason="no"),
        job(4, 2, 20, 30, "compute2", restarts=1, lost_on=["compute1"], shares={"data read": 1.0}),
    ]


def test_each_node_has_its_sums() -> None:
    samples = [
        workload_row(second, library, node, cpu_percent=cpu)
        for second, node, cpu in ((1, "compute10", 40.0), (2, "compute10", 60.0), (1, "compute2", 90.0))
        for library in ("data", "work", "util")
    ]
    nodes = summarize_nodes(four(), samples)
    assert [node.node for node in nodes] == ["compute1", "compute2", "compute10"], "2 comes before 10"
    lost, two, ten = nodes
    assert (lost.launches, lost.lost, lost.real_s, lost.ratio_mean) == (0, 1, None, None)
    assert (two.launches, two.failed, two.lost) == (2, 0, 0)
    assert (two.real_s, two.user_s, two.read_bytes, two.written_bytes) == (12.0, 2.0, 20, 2)
    assert two.ratio_mean == pytest.approx((1.0 + 0.2) / 2)
    assert two.ratio_of_sums == pytest.approx(4 / 12)
    assert (two.bound_by, two.cpu_percent_mean) == ("data read", 90.0)
    assert (ten.launches, ten.failed, ten.real_s) == (2, 1, 4.0)
    assert ten.cpu_percent_mean == 50.0


def test_a_workload_on_one_node_has_one() -> None:
    samples = [replace(workload_row(1, cpu_percent=30.0), node=None)]
    (node,) = summarize_nodes([launch_record(1, node="here")], samples)
    assert (node.node, node.launches, node.cpu_percent_mean) == ("here", 1, 30.0)


def test_what_running_them_costs() -> None:
    launches = four()
    assert list(between_launches(launches)) == [1.0], "a launch that was started again says nothing of it"
    assert list(queued(launches)) == [0.5, 0.5, 0.5]
    found = summarize(launches, 2)
    assert (found.harness_s_mean, found.queued_s_mean) == (1.0, 0.5)
    assert list(between_launches([job(1, 1, 5, 6, "a"), job(2, 1, 5.9, 7, "b")])) == [0.0]
    alone = summarize([launch_record(1), launch_record(2)], 1)
    assert alone.queued_s_mean is None


def test_the_tail_of_a_grid_begins_when_a_stream_ends_wherever_it_ran() -> None:
    launches = [job(1, 1, 0, 2, "a"), job(2, 1, 2, 10, "b"), job(3, 2, 0, 20, "a")]
    found = summarize(launches, 2)
    assert found.mean_concurrency_until_tail == pytest.approx(2.0)
    assert found.mean_concurrency == pytest.approx(30 / 20)


def test_rates_of_nodes_add_up_in_the_diagnosis() -> None:
    samples = [
        workload_row(second, "data", node, read_bytes=5_000_000, written_bytes=0, interval_s=1.0)
        for second in (1, 2)
        for node in ("a", "b")
    ]
    diagnosis = summarize(four(), 2, samples).diagnosis
    assert diagnosis is not None
    assert "10 MB/s to and from data" in diagnosis


def test_samples_of_events_keep_their_node() -> None:
    reducer = WorkloadReducer()
    reducer.take(WorkloadBegun(matrix="own", scale="tiny", seed=1, streams=1, launches=1))
    for node in ("compute1", None):
        figures: dict[str, Any] = {"elapsed_s": 1.0, "interval_s": 1.0, "read_bytes": 0, "written_bytes": 0}
        reducer.take(WorkloadSample(time=1.0, library="data", node=node, **figures))
    assert reducer.samples[0].node == "compute1"
    assert reducer.samples[1].node is None, "the run's own node stands in for it"


# What launches read out of the page cache: counted where the kernel tells, and said where it is much.

DISK = {"data": {"device": "vda", "filesystem_type": "ext4"}}


def launch(read: int | None, fetched: int | None, libraries: dict[str, int] | None = None) -> LaunchRecord:
    return launch_record(
        1,
        read_bytes=read,
        device_read_bytes=fetched,
        libraries={name: LibraryTraffic(read_bytes=size) for name, size in (libraries or {}).items()},
    )


@pytest.mark.parametrize(
    ("read", "fetched", "libraries", "cached"),
    [
        (1000, 400, None, 600),
        (1000, 0, None, 1000),
        (1000, 1200, None, 0),
        (1_000_000, 400, {"data": 500, "util": 100}, 200),
        (1000, None, None, None),
        (None, 5, None, None),
    ],
)
def test_what_no_device_delivered_was_cached(
    read: int | None, fetched: int | None, libraries: dict[str, int] | None, cached: int | None
) -> None:
    """Readahead delivers more than is read; a test's modules are no data."""
    (found,) = with_cached_reads([launch(read, fetched, libraries)], DISK)
    assert found.cached_read_bytes == cached


@pytest.mark.parametrize(
    "devices",
    [{}, {"data": {"device": None, "filesystem_type": "lustre"}}, DISK | {"work": {"device": None}}],
)
def test_nothing_is_counted_where_the_kernel_does_not_count_what_was_fetched(devices: dict[str, Any]) -> None:
    """A client of Lustre counts nothing as fetched: all would seem to come from memory."""
    found = with_cached_reads([launch(1000, 0)], devices)
    assert found[0].cached_read_bytes is None
    assert cached_reads(found) is None
    assert cached_finding(found) is None


def test_much_is_said_and_little_is_not() -> None:
    mib = 1 << 20
    much = with_cached_reads([launch(1000 * mib, 400 * mib), launch(1000 * mib, 1000 * mib)], DISK)
    assert cached_reads(much) == (600 * mib, 2000 * mib)
    told = cached_finding(much)
    assert told is not None
    assert told.text.startswith("30% of what launches read")
    assert cached_finding(with_cached_reads([launch(1000 * mib, 960 * mib)], DISK)) is None
    assert cached_finding(with_cached_reads([launch(1000, 0)], DISK)) is None, "a shell reads itself"
