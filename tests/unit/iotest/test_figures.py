"""From what the engine measured to the record of a phase."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.outcome import Outcome, make_phase_record, planned_use, requested_settings, use_of
from gridwright.messages import typed
from gridwright.runs.iotest_events import PhaseBegun
from gridwright.runs.phase_record import Op, PhaseRecord, Steady

TARGET = LibraryTarget("data", "/data", "disk", 100e6, cores=4, nodes=2)
METHOD = {
    "calls": "pread/pwrite",
    "io_uring": False,
    "direct": False,
    "queue_depth": 1,
    "registered_buffers": False,
    "registered_files": False,
    "preallocated": False,
    "note": None,
}
LATENCY = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "p99_9": 4.0, "max": 5.0}


def stream(role: str, moved: int, seconds: float) -> dict[str, Any]:
    return {
        "role": role,
        "path": "/data/stream-0.dat",
        "bytes": moved,
        "seconds": seconds,
        "wall_s": seconds,
        "excluded_s": 0.0,
        "fsync_s": 0.0,
        "synced": True,
        "laps": 0,
        "file_bytes": moved,
        "stalls": [],
    }


def outcome(*streams: dict[str, Any], **own: Any) -> Outcome:
    """An outcome as the engine tells it, with fields of one's own."""
    read = sum(each["bytes"] for each in streams if each["role"] == "read")
    written = sum(each["bytes"] for each in streams if each["role"] == "write")
    seconds = max((each["seconds"] for each in streams), default=None)
    told = {
        "started": True,
        "stopped": False,
        "bytes": read + written,
        "read_bytes": read,
        "written_bytes": written,
        "bytes_first": (read + written) // 2,
        "seconds_first": min((each["seconds"] for each in streams), default=None),
        "seconds_last": seconds,
        "wall_s": seconds,
        "fsync_s": 0.5,
        "synced": True,
        "latency_us": LATENCY,
        "latency_counts": [],
        "cpu_user_s": 0.25,
        "cpu_system_s": 0.5,
        "voluntary_switches": 3,
        "involuntary_switches": 4,
        "cached_fraction": None,
        "verified_bytes": 0,
        "operations": {},
        "method": METHOD,
        "failure": None,
        "mismatch": None,
        "streams": list(streams),
    }
    return typed(told | own, Outcome)


def of(op: Op, measured: Outcome, *, memory: bool = False, steady: Steady | None = None) -> PhaseRecord:
    options = IotestOptions(seconds=5)
    begun = PhaseBegun(
        op=op,
        started=1.0,
        asked=requested_settings(options, 4),
        used=planned_use(options, streams=len(measured.streams), seed=7, file_bytes=4096),
    )
    return make_phase_record(begun, measured, cores=TARGET.total_cores, memory_backed=memory, steady=steady)


def test_rates_are_bytes_over_the_time_of_the_slowest_stream() -> None:
    phase = of("write", outcome(stream("write", 800_000_000, 2.0), stream("write", 800_000_000, 4.0)))
    assert phase.status == "complete"
    assert phase.bytes == phase.written_bytes == 1_600_000_000
    assert phase.rate_last_bytes_per_s == pytest.approx(400e6)
    assert phase.rate_first_bytes_per_s == pytest.approx(400e6)
    assert phase.per_core_bytes_per_s == pytest.approx(400e6 / 8)
    assert phase.per_stream_bytes_per_s == [pytest.approx(400e6), pytest.approx(200e6)]
    assert phase.per_stream_seconds == [2.0, 4.0]
    assert phase.write_bytes_per_s == pytest.approx(400e6)
    assert phase.read_bytes_per_s is None
    assert phase.fsync_s == 0.5


def test_a_mixed_phase_tells_reads_and_writes_apart() -> None:
    phase = of("mixed", outcome(stream("read", 300_000_000, 3.0), stream("write", 800_000_000, 4.0)))
    assert phase.read_bytes_per_s == pytest.approx(100e6)
    assert phase.write_bytes_per_s == pytest.approx(200e6)
    assert phase.rate_last_bytes_per_s == pytest.approx(275e6)


def test_a_stopped_write_through_the_cache_has_no_rate() -> None:
    phase = of("write", outcome(stream("write", 800_000_000, 2.0), stopped=True, synced=False))
    assert phase.status == "interrupted"
    assert phase.bytes == 800_000_000
    for figure in (
        phase.rate_first_bytes_per_s,
        phase.rate_last_bytes_per_s,
        phase.per_core_bytes_per_s,
        phase.write_bytes_per_s,
    ):
        assert figure is None
    assert phase.per_stream_bytes_per_s == []


def test_a_stopped_direct_write_has_its_rate() -> None:
    phase = of(
        "write",
        outcome(stream("write", 800, 2.0), stopped=True, synced=False, method=METHOD | {"direct": True}),
    )
    assert phase.status == "interrupted"
    assert phase.rate_last_bytes_per_s == pytest.approx(400)


@pytest.mark.parametrize(
    ("fraction", "direct", "memory", "cached"),
    [
        (None, False, False, False),
        (0.05, False, False, False),
        (0.051, False, False, True),
        (1.0, True, False, False),
        (1.0, True, True, True),
    ],
)
def test_a_read_from_the_cache_is_marked(
    fraction: float | None, direct: bool, memory: bool, cached: bool
) -> None:
    measured = outcome(stream("read", 800, 2.0), cached_fraction=fraction, method=METHOD | {"direct": direct})
    phase = of("read", measured, memory=memory)
    assert (phase.cached, phase.cached_fraction) == (cached, fraction)


@pytest.mark.parametrize(
    "reason",
    [
        {"failure": {"op": "write", "errno": 28, "path": "/x", "offset": 0, "message": ""}},
        {"mismatch": {"path": "/x", "offset": 0, "length": 1}},
    ],
)
def test_a_phase_that_failed_says_so_though_it_was_stopped_for_it(reason: dict[str, Any]) -> None:
    assert of("write", outcome(stream("write", 8, 1.0), stopped=True, **reason)).status == "failed"


def test_what_was_not_measured_is_null_and_never_zero() -> None:
    nothing = outcome(
        started=False,
        stopped=True,
        latency_us=None,
        seconds_last=None,
        seconds_first=None,
        wall_s=None,
        bytes_first=None,
        failure={"op": "open", "errno": 2, "path": "/x", "offset": None, "message": ""},
    )
    phase = of("read", nothing)
    assert phase.bytes == 0
    for name in (
        "seconds_first",
        "seconds_last",
        "rate_first_bytes_per_s",
        "rate_last_bytes_per_s",
        "per_core_bytes_per_s",
        "fsync_s",
        "cached_fraction",
        "verified_bytes",
        "ops_per_s",
    ):
        assert getattr(phase, name) is None, name
    assert phase.latency_us.p99 is None


def test_metadata_is_counted_in_operations_not_in_bytes() -> None:
    operations = {
        "create": {"count": 100, "seconds": 1.0},
        "stat": {"count": 100, "seconds": 0.25},
        "unlink": {"count": 0, "seconds": 0.0},
    }
    phase = of("metadata", outcome(stream("metadata", 0, 1.25), operations=operations))
    assert phase.ops_per_s == pytest.approx(160)
    assert phase.operations is not None
    assert phase.operations["stat"].ops_per_s == pytest.approx(400)
    assert phase.operations["unlink"].ops_per_s is None
    assert phase.bytes is None
    assert phase.rate_last_bytes_per_s is None
    assert phase.per_stream_bytes_per_s == []


def a_steady(rate: float | None) -> Steady:
    return Steady(
        steady=rate is not None,
        rule="rule",
        peak_bytes_per_s=500e6,
        peak_lasted_s=30.0,
        steady_bytes_per_s=rate,
        change_points_s=[30.0],
    )


def test_the_steady_rate_is_what_is_judged() -> None:
    steady = a_steady(200e6)
    phase = of("write", outcome(stream("write", 1_600_000_000, 4.0)), steady=steady)
    assert phase.rate_last_bytes_per_s == pytest.approx(400e6)
    assert phase.per_core_bytes_per_s == pytest.approx(200e6 / 8)
    unsteady = a_steady(None)
    phase = of("write", outcome(stream("write", 1_600_000_000, 4.0)), steady=unsteady)
    assert phase.per_core_bytes_per_s == pytest.approx(400e6 / 8)


def test_asked_and_used_stand_side_by_side() -> None:
    options = IotestOptions(engine="direct", queue_depth=16, streams=3, size_bytes=1 << 20)
    asked = requested_settings(options, 3)
    assert (asked.engine, asked.queue_depth, asked.streams) == ("direct", 16, 3)
    refused = outcome(
        stream("write", 1 << 20, 1.0),
        method=METHOD | {"direct": True, "queue_depth": 16, "note": "io_uring is refused here: EPERM"},
    )
    used = use_of(planned_use(options, streams=1, seed=1, file_bytes=1 << 20), refused.method)
    assert used.note == "io_uring is refused here: EPERM"
    assert used.io_uring is False
    assert (used.direct, used.queue_depth, used.method) == (True, 16, "pread/pwrite")
    assert (used.streams, used.seed, used.file_bytes) == (1, 1, 1 << 20)
