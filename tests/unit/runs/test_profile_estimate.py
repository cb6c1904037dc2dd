"""Phases of jobs of which only the totals are known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.profile_estimate import TURNS, estimated_phases, has_totals

MB = 10**6


def launch(**fields: Any) -> LaunchRecord:
    given_: dict[str, Any] = {"real_s": 100.0, "user_s": 30.0, "system_s": 10.0} | fields
    return LaunchRecord(number=1, test="t", class_="command", stream=1, node="n", ok=True, **given_)


def test_what_devices_moved_fills_the_gap() -> None:
    job = launch(device_read_bytes=400 * MB, device_written_bytes=200 * MB, read_bytes=999 * MB)
    phases, source = estimated_phases(job, 1.0)
    assert source == "devices"
    assert len(phases) == 3 * TURNS
    computing, reading, writing = phases[:3]
    assert (computing.seconds, computing.cpu_s, computing.threads) == (10.0, 10.0, 1.0)
    assert (reading.seconds, reading.cpu_s, reading.read_bytes) == (10.0, 0.0, {"data": 100 * MB})
    assert (writing.seconds, writing.written_bytes) == (5.0, {"work": 50 * MB})


def test_calls_count_where_devices_are_not_told() -> None:
    phases, source = estimated_phases(launch(read_bytes=0, written_bytes=600 * MB), 1.0)
    assert source == "calls"
    assert not any(phase.read_bytes for phase in phases)
    assert sum(phase.written_bytes.get("work", 0) for phase in phases) == 600 * MB


def test_without_counters_the_gap_reads_at_the_stated_rate() -> None:
    phases, source = estimated_phases(launch(), 50e6)
    assert source == "estimated"
    assert sum(phase.read_bytes.get("data", 0) for phase in phases) == 60 * 50 * MB


def test_a_gap_that_the_counters_do_not_explain_is_a_wait() -> None:
    phases, source = estimated_phases(launch(device_read_bytes=10 * MB, device_written_bytes=0), 1.0)
    assert source == "waiting"
    (phase,) = phases
    # It takes as long on any grid: so little of a core at once.
    assert (phase.cpu_s, phase.threads) == (40.0, 0.4)


def test_without_a_gap_all_is_moved_beside_computing() -> None:
    (phase,), source = estimated_phases(launch(real_s=40.5, device_read_bytes=800 * MB), 1.0)
    assert source == "devices"
    assert (phase.cpu_s, phase.read_bytes, phase.io_wait_s) == (40.0, {"data": 800 * MB}, 0.0)


def test_more_cpu_time_than_real_time_is_threads() -> None:
    (phase,), _ = estimated_phases(launch(real_s=10.0), 100e6)
    assert (phase.cpu_s, phase.threads, phase.read_bytes) == (40.0, 4.0, {})


@pytest.mark.parametrize(
    "fields", [{"real_s": None}, {"real_s": 0.0}, {"user_s": None, "system_s": None}, {"ok": False}]
)
def test_what_cannot_be_estimated(fields: dict[str, Any]) -> None:
    job = launch(**{name: value for name, value in fields.items() if name != "ok"})
    if "ok" in fields:
        job = LaunchRecord(
            number=1, test="t", class_="command", stream=1, node="n", ok=False, real_s=1.0, user_s=1.0
        )
    assert not has_totals(job)


@given(
    st.floats(0.01, 1e6),
    st.floats(0.0, 1e6),
    st.one_of(st.none(), st.integers(0, 10**14)),
    st.one_of(st.none(), st.integers(0, 10**14)),
)
def test_phases_add_up_to_the_job(real: float, cpu: float, read: int | None, written: int | None) -> None:
    job = launch(real_s=real, user_s=cpu, system_s=None, device_read_bytes=read, device_written_bytes=written)
    phases, source = estimated_phases(job, 100e6)
    assert phases
    assert sum(phase.cpu_s for phase in phases) == pytest.approx(cpu, rel=1e-6, abs=1e-4)
    assert sum(phase.seconds for phase in phases) == pytest.approx(real, rel=1e-6, abs=1e-4)
    if source == "devices":
        assert sum(phase.read_bytes.get("data", 0) for phase in phases) == (read or 0)
        assert sum(phase.written_bytes.get("work", 0) for phase in phases) == (written or 0)
