"""The stop rule of a sweep: grids whose knee is known, with noise, disturbances and limits to fool it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.runs.directory import RunDirectory, load_run
from gridwright.runs.stream_sweep import (
    OF_ALONE,
    StreamSweep,
    StreamSweepRecord,
    SweepOf,
    SweepRule,
    SweepStep,
    rotations,
    write_sweep,
)
from tests.support.examples import examples

Distort = Callable[[SweepStep], SweepStep]


def grid_step(cores: float, streams: int, attempt: int, *, alone: float = 0.9) -> SweepStep:
    """A step on a grid whose cores, or disks, give each job its share: what is lacking is waited for."""
    slower = max(1.0, streams / cores)
    real = 10.0 * slower
    return SweepStep(
        streams=streams,
        attempt=attempt,
        status="complete",
        launches=4 * streams,
        wall_s=4 * real,
        real_s_mean=real,
        ratio=alone / slower,
        shares={"cpu": alone / slower, "other": (1 - alone) / slower, "data read": 1 - 1 / slower},
    )


def swept(
    cores: float,
    rule: SweepRule,
    *,
    distort: Distort = lambda step: step,
    stopped: Callable[[], bool] = lambda: False,
) -> StreamSweepRecord:
    sweep = StreamSweep(SweepOf(command="workload", grid="demo", matrix="own", scale="tiny"), rule)
    clock = [0.0]

    def measure(streams: int, attempt: int) -> SweepStep:
        step = distort(grid_step(cores, streams, attempt))
        clock[0] += step.wall_s or 0.0
        assert len(sweep.steps) < 200, "it does not end"
        return step

    sweep.run(measure, now=lambda: clock[0], stopped=stopped)
    return sweep.record()


@settings(max_examples=examples(400), deadline=None)
@given(knee=st.integers(1, 3000), required=st.sampled_from([None, 0.3, 0.8]), agree=st.sampled_from([1, 2]))
def test_it_finds_what_a_grid_carries(knee: int, required: float | None, agree: int) -> None:
    record = swept(knee, SweepRule(ratio=required, most=4096 * 4, agree=agree))
    slowest = 0.9 / required if required else 1 / OF_ALONE
    exact = knee * slowest
    assert record.ended_by == "knee"
    assert record.carries is not None
    assert record.falls_at is not None
    assert record.carries <= exact * (1 + 1e-9)
    assert record.falls_at >= exact * (1 - 1e-9)
    assert record.falls_at - record.carries <= max(1, record.carries / 16)
    assert record.binds == "data"
    assert not record.at_least
    assert f"carries {record.carries:,} job" in record.answer


@settings(max_examples=examples(300), deadline=None)
@given(knee=st.integers(1, 300), seed=st.integers(0, 10**6))
def test_noise_does_not_carry_it_away(knee: int, seed: int) -> None:
    """One step of any number of streams may be far too slow, the others differ by a few percent."""
    noise = random.Random(seed)  # noqa: S311 - no secret
    spoilt: set[int] = set()

    def distort(step: SweepStep) -> SweepStep:
        slowed = step.streams not in spoilt and noise.random() < 1 / 3
        if slowed:
            spoilt.add(step.streams)
        factor = noise.uniform(0.2, 0.5) if slowed else noise.uniform(0.98, 1.02)
        return step.model_copy(update={"ratio": (step.ratio or 0.0) * factor})

    record = swept(knee, SweepRule(most=4096), distort=distort)
    assert record.ended_by == "knee"
    assert record.carries is not None
    assert 0.85 * knee - 1 <= record.carries <= 1.25 * knee + 1


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_whatever_steps_say_it_ends_and_its_answer_has_witnesses(data: st.DataObject) -> None:
    def distort(step: SweepStep) -> SweepStep:
        update = {
            "ratio": data.draw(st.floats(0.01, 1.0)),
            "real_s_mean": data.draw(st.floats(0.1, 100.0)),
            "failed": data.draw(st.sampled_from([0, 0, 0, 1])),
            "disturbed": data.draw(st.sampled_from([None, None, "someone"])),
        }
        return step.model_copy(update=update)

    rule = SweepRule(ratio=data.draw(st.sampled_from([None, 0.5])), most=64)
    record = swept(8, rule, distort=distort)
    assert record.ended_by in ("knee", "most", "disturbed")
    points = {point.streams: point for point in record.curve}
    if record.carries:
        assert points[record.carries].held is True
    if record.falls_at is not None:
        assert points[record.falls_at].held is False
        assert (record.carries or 0) < record.falls_at
    if record.ended_by == "knee":
        assert record.confirmed
        assert record.falls_at is not None


def test_a_single_slow_step_does_not_end_it() -> None:
    seen: list[int] = []

    def distort(step: SweepStep) -> SweepStep:
        seen.append(step.streams)
        spoilt = step.streams == 4 and seen.count(4) == 1
        return step.model_copy(update={"ratio": 0.1}) if spoilt else step

    record = swept(16, SweepRule(most=4096), distort=distort)
    assert record.carries == 17
    assert seen.count(4) == 3, "two of three decide"


def test_one_lucky_step_is_not_the_answer() -> None:
    """A number of streams that held once, by chance, is run again before it is the answer."""
    seen: list[int] = []

    def distort(step: SweepStep) -> SweepStep:
        seen.append(step.streams)
        lucky = step.streams == 8 and seen.count(8) == 1
        return step.model_copy(update={"ratio": 0.9, "real_s_mean": 10.0}) if lucky else step

    record = swept(6, SweepRule(most=4096), distort=distort)
    assert (record.carries, record.falls_at) == (6, 7)


def test_one_stream_alone_that_was_slowed_does_not_lower_the_bar() -> None:
    def distort(step: SweepStep) -> SweepStep:
        slowed = step.streams == 1 and step.attempt == 1
        return step.model_copy(update={"ratio": 0.2}) if slowed else step

    record = swept(4, SweepRule(most=4096), distort=distort)
    assert record.required_ratio == pytest.approx(0.81)
    assert record.carries == 4


def test_a_grid_that_misses_what_is_required_with_one_job_carries_none() -> None:
    record = swept(4, SweepRule(ratio=0.95, most=4096))
    assert (record.carries, record.falls_at, record.ended_by) == (0, 1, "knee")
    assert "not even one alone" in record.answer


def test_where_more_streams_do_less_it_ends_though_the_ratio_is_kept() -> None:
    """Work is thrown away beyond 8: a launch computes ever longer, and its ratio stays high."""

    def distort(step: SweepStep) -> SweepStep:
        real = 10.0 if step.streams <= 8 else 10.0 * (step.streams / 8) ** 2
        update = {"ratio": 0.9, "real_s_mean": real, "shares": {"cpu": 0.9, "other": 0.1}}
        return step.model_copy(update=update)

    record = swept(1000, SweepRule(most=4096), distort=distort)
    assert (record.carries, record.falls_at) == (8, 9)
    assert record.binds == "cores"
    assert "real time grew faster than work" in record.answer


def test_jobs_that_wait_in_the_queue_are_not_carried() -> None:
    """A scheduler shares no core: a launch's own ratio never falls, its job waits longer and longer."""

    def distort(step: SweepStep) -> SweepStep:
        waiting = max(0, step.streams - 8) / 8 * 10.0
        update = {"real_s_mean": 10.0, "ratio": 0.9, "queued_s_mean": 1.0 + waiting, "shares": {"cpu": 0.9}}
        return step.model_copy(update=update | {"between_s_mean": 1.0 + waiting})

    record = swept(8, SweepRule(most=4096), distort=distort)
    assert record.carries == 8
    assert record.binds == "cores"


def test_launches_that_fail_for_memory_end_it() -> None:
    def distort(step: SweepStep) -> SweepStep:
        short = step.streams > 5
        update = {"failed": 1, "failure": "killed by the kernel for memory", "short_of_memory": True}
        return step.model_copy(update=update) if short else step

    record = swept(100, SweepRule(most=4096), distort=distort)
    assert (record.carries, record.falls_at, record.binds) == (5, 6, "memory")
    assert "for memory" in record.answer


def test_a_knee_that_is_never_reached_is_at_least() -> None:
    record = swept(10_000, SweepRule(most=50))
    assert (record.carries, record.at_least, record.binds, record.ended_by) == (50, True, None, "most")
    assert "at least 50 jobs" in record.answer


@settings(max_examples=examples(100), deadline=None)
@given(limit_s=st.floats(1, 900))
def test_no_step_begins_that_would_end_after_the_limit(limit_s: float) -> None:
    ends: list[float] = []

    def distort(step: SweepStep) -> SweepStep:
        ends.append((ends[-1] if ends else 0.0) + (step.wall_s or 0.0))
        return step

    record = swept(1000, SweepRule(most=4096, within_s=limit_s), distort=distort)
    assert record.at_least or record.carries is None
    assert record.ended_by == "time"
    assert len(ends) == 1 or ends[-1] <= limit_s


def test_disturbed_steps_are_not_judged_and_run_again() -> None:
    disturbed = SweepRule(most=4096)

    def each_first(step: SweepStep) -> SweepStep:
        return step.model_copy(update={"disturbed": "rsync", "ratio": 0.01}) if step.attempt == 1 else step

    assert swept(4, disturbed, distort=each_first).carries == 4

    def four(step: SweepStep) -> SweepStep:
        return step.model_copy(update={"disturbed": "rsync"}) if step.streams == 4 else step

    record = swept(16, disturbed, distort=four)
    assert (record.carries, record.at_least, record.ended_by) == (2, True, "disturbed")
    assert "rsync" in record.answer
    allowed = swept(16, SweepRule(most=4096, allow_disturbed=True), distort=four)
    assert allowed.carries == 17
    assert "Judged although" in allowed.answer


def test_what_was_measured_until_an_interruption_is_kept(tmp_path: Path) -> None:
    calls: list[int] = []
    record = swept(
        64,
        SweepRule(most=4096),
        distort=lambda step: calls.append(step.streams) or step,  # type: ignore[func-returns-value]
        stopped=lambda: len(calls) == 4,
    )
    assert (record.status, record.ended_by, record.carries) == ("interrupted", "interrupted", 4)
    run = RunDirectory.create(tmp_path, "demo", command=["gridwright"], what=["workload", "sweep"])
    write_sweep(run.path, record)
    run.finish(record.status)
    loaded = load_run(run.path)
    assert loaded.sweep == record
    assert (loaded.iotest, loaded.workload, loaded.run.met) == (None, None, None)


def test_a_sweep_whose_process_is_gone_is_interrupted(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "demo", command=["gridwright"], what=["workload", "sweep"])
    sweep = StreamSweep(SweepOf(command="workload", grid="demo", matrix="own", scale=None), SweepRule(most=8))
    sweep.steps.append(grid_step(4, 1, 1))
    write_sweep(run.path, sweep.record())
    gone = run.record.process | {"started": 0.0}
    file = run.path / "run.json"
    file.write_text(run.record.model_copy(update={"process": gone}).model_dump_json(by_alias=True))
    loaded = load_run(run.path)
    assert loaded.sweep is not None
    assert (loaded.sweep.status, loaded.sweep.carries, loaded.sweep.at_least) == ("interrupted", 1, True)


@settings(max_examples=examples(100), deadline=None)
@given(many=st.integers(1, 30), streams=st.integers(1, 100))
def test_each_stream_runs_all_launches(many: int, streams: int) -> None:
    found = rotations(range(many), streams)
    assert len(found) == streams
    assert all(sorted(each) == list(range(many)) for each in found)
    assert len({each[0] for each in found}) == min(many, streams), "they begin as far apart as they can"
