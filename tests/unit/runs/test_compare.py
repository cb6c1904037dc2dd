"""Two runs side by side."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from gridwright.errors import ExitStatus, Finding
from gridwright.report.terminal.run import comparison_text
from gridwright.runs.compare import Comparison, compare_runs
from gridwright.runs.directory import LoadedRun, RunDirectory, load_run
from gridwright.runs.iotest_events import (
    IotestEvent,
    LayoutSeen,
    LibraryBegun,
    LibraryDone,
    PhaseDone,
    RepeatBegun,
)
from gridwright.runs.iotest_record import IotestReducer
from gridwright.runs.journal import Event
from gridwright.runs.phase_record import (
    ActualLayout,
    LayoutFigure,
    NodePhaseRecord,
    Op,
    PhaseRecord,
    RequestedLayout,
    RequestedSettings,
    Used,
)
from gridwright.runs.records import IotestRecord
from gridwright.runs.repeats import paired
from tests.support.records import finished_run, library_event, result_event, take


def compared(tmp_path: Path, a: float, b: float, spread: float) -> dict[tuple[str, str], Comparison]:
    one = finished_run(tmp_path / "runs", "a", per_core=a, spread=spread)
    other = finished_run(tmp_path / "runs", "b", per_core=b, spread=spread)
    return {(c.op, c.figure): c for c in compare_runs(load_run(one), load_run(other))}


def test_every_figure_has_its_ratio(tmp_path: Path) -> None:
    found = compared(tmp_path, 100e6, 150e6, 0.01)
    rate = found["write", "rate_last_bytes_per_s"]
    assert (rate.a, rate.b) == (200e6, 300e6)
    assert rate.ratio == pytest.approx(1.5)
    assert found["read", "latency_p99_us"].ratio == pytest.approx(1.0)
    # 2 s of CPU for 2 GB, and for 3 GB.
    assert found["read", "cpu_s_per_gb"].a == pytest.approx(1.0)
    assert found["read", "cpu_s_per_gb"].ratio == pytest.approx(2 / 3)
    assert ("write", "ops_per_s") not in found


@pytest.mark.parametrize(("b", "spread", "differs"), [(150e6, 0.01, True), (105e6, 0.2, False)])
def test_a_difference_within_the_noise_is_called_that(
    tmp_path: Path, b: float, spread: float, differs: bool
) -> None:
    rate = compared(tmp_path, 100e6, b, spread)["write", "rate_last_bytes_per_s"]
    assert rate.noise is not None
    assert rate.differs is differs


def test_figures_without_samples_have_no_noise(tmp_path: Path) -> None:
    latency = compared(tmp_path, 100e6, 150e6, 0.01)["write", "latency_p50_us"]
    assert (latency.noise, latency.differs) == (None, None)


def test_a_run_with_nothing_measured_compares_to_nothing(tmp_path: Path) -> None:
    whole = load_run(finished_run(tmp_path / "runs", "a"))
    path = finished_run(tmp_path / "runs", "b")
    (path / "iotest.json").unlink()
    for found in compare_runs(whole, load_run(path)):
        assert (found.b, found.ratio, found.noise, found.differs) == (None, None, None, None)


def repeated_run(runs: Path, name: str, rates: list[float], disturbed: tuple[int, ...] = ()) -> LoadedRun:
    run = RunDirectory.create(runs, name, command=["gridwright", "iotest"], what=["iotest"])
    for number, per_core in enumerate(rates, start=1):
        take(run, {"event": "repeat", "number": number, "of": len(rates)})
        take(run, library_event())
        take(run, result_event("write", per_core=per_core, disturbed=number in disturbed))
    run.finish("complete")
    return load_run(run.path)


def test_repeats_give_every_figure_its_noise(tmp_path: Path) -> None:
    a = repeated_run(tmp_path, "a", [100e6, 101e6, 99e6])
    b = repeated_run(tmp_path, "b", [150e6, 152e6, 151e6])
    found = {each.figure: each for each in compare_runs(a, b)}
    assert len(found) > 3
    assert all(each.noise is not None and each.least_change is not None for each in found.values())
    rate = found["per_core_bytes_per_s"]
    assert (rate.a, rate.b, rate.repeats_a, rate.differs) == (100e6, 151e6, 3, True)
    assert 0 < (rate.least_change or 0) < 0.1
    assert "least change told" in comparison_text(a, b, compare_runs(a, b))


def test_one_lucky_repeat_is_no_difference(tmp_path: Path) -> None:
    a = repeated_run(tmp_path, "a", [100e6, 101e6, 99e6])
    b = repeated_run(tmp_path, "b", [100e6, 104e6, 180e6])
    rate = {each.figure: each for each in compare_runs(a, b)}["per_core_bytes_per_s"]
    assert (rate.b, rate.differs) == (104e6, False)


def test_a_run_without_repeats_is_held_against_the_spread_of_the_other(tmp_path: Path) -> None:
    a = repeated_run(tmp_path, "a", [100e6, 101e6, 99e6, 102e6])
    b = load_run(finished_run(tmp_path, "b", per_core=150e6))
    rate = {each.figure: each for each in compare_runs(a, b) if each.op == "write"}["latency_p50_us"]
    assert rate.noise is not None
    assert (rate.repeats_a, rate.repeats_b) == (4, 1)


def test_disturbed_repeats_are_not_compared(tmp_path: Path) -> None:
    a = repeated_run(tmp_path, "a", [100e6, 101e6, 99e6, 10e6], disturbed=(4,))
    rate = {each.figure: each for each in compare_runs(a, a)}["per_core_bytes_per_s"]
    assert (rate.a, rate.repeats_a, rate.differs) == (100e6, 3, False)


def launch(number: int, test: str, real: float, cpu: float, *, ok: bool = True) -> Event:
    record = {
        "number": number,
        "test": test,
        "class": "io",
        "stream": 1,
        "node": "n1",
        "started": 1000.0 + number,
        "ended": 1000.0 + number + real,
        "real_s": real,
        "user_s": cpu,
        "system_s": 0.0,
        "cpu_real_ratio": cpu / real,
        "ok": ok,
    }
    return {"event": "launch", "launch": record}


def finished(runs: Path, launches: list[Event], scale: str = "tiny") -> LoadedRun:
    run = RunDirectory.create(runs, "a", command=["gridwright", "workload"], what=["workload"])
    header = {
        "event": "workload",
        "matrix": "quick",
        "scale": scale,
        "seed": 1,
        "streams": 1,
        "launches": len(launches),
    }
    for event in [header, *launches]:
        take(run, event)
    run.finish("complete")
    return load_run(run.path)


def figure(comparisons: list[Comparison], test: str, name: str) -> Comparison:
    (found,) = [each for each in comparisons if (each.op, each.figure) == (test, name)]
    return found


def test_real_time_and_ratio_of_each_test_are_compared(tmp_path: Path) -> None:
    a = finished(tmp_path, [launch(1, "sort", 10.0, 5.0), launch(2, "sort", 12.0, 6.0)])
    b = finished(tmp_path, [launch(1, "sort", 5.0, 5.0), launch(2, "sort", 6.0, 6.0)])
    comparisons = compare_runs(a, b)
    real = figure(comparisons, "sort", "launch_real_s")
    assert (real.a, real.b, real.ratio) == (11.0, 5.5, 0.5)
    assert real.differs is True
    ratio = figure(comparisons, "all launches", "launch_cpu_real_ratio")
    assert (ratio.a, ratio.b) == (0.5, 1.0)


def test_one_launch_has_no_noise_to_judge_by(tmp_path: Path) -> None:
    a = finished(tmp_path, [launch(1, "sort", 10.0, 5.0)])
    b = finished(tmp_path, [launch(1, "sort", 10.1, 5.0)])
    assert figure(compare_runs(a, b), "sort", "launch_real_s").differs is None


def test_failed_launches_do_not_count(tmp_path: Path) -> None:
    a = finished(tmp_path, [launch(1, "sort", 10.0, 5.0), launch(2, "sort", 0.1, 0.1, ok=False)])
    assert figure(compare_runs(a, a), "sort", "launch_real_s").a == pytest.approx(10.0)


def test_another_scale_is_another_test(tmp_path: Path) -> None:
    a = finished(tmp_path, [launch(1, "sort", 10.0, 5.0)])
    b = finished(tmp_path, [launch(1, "sort", 100.0, 50.0)], scale="small")
    assert compare_runs(a, b) == []


# What pairs of tests in two layouts can tell, and what they must not.

MB = 1e6


def phase(rate: float | None, op: Op = "write", **more: object) -> PhaseRecord:
    same: dict[str, Any] = {"engine": "direct", "block_bytes": 65536, "queue_depth": 8, "streams": 1}
    asked = RequestedSettings(size_bytes=None, seconds=1.0, verify=False, seed=None, **same)
    used = Used(direct=True, io_uring=True, method="io_uring", **same)
    figures = {"ops_per_s": rate} if op == "metadata" else {"per_core_bytes_per_s": rate}
    return PhaseRecord(op=op, asked=asked, used=used, **figures, **more)  # type: ignore[arg-type]


def record_of(
    own: Sequence[PhaseRecord],
    chosen: Sequence[PhaseRecord],
    *,
    requires: float | None = None,
    found: tuple[str, str] = ("-c 1", "-c 4"),
    extra: Sequence[IotestEvent] = (),
) -> IotestRecord:
    """The record of a test whose sides measured these phases, one for each repeat."""
    reducer = IotestReducer()
    for number in range(max(len(own), len(chosen))):
        reducer.take(RepeatBegun(number=number + 1, of=len(own)))
        order = (False, True) if number % 2 == 0 else (True, False)
        for is_chosen in order:
            phases = chosen if is_chosen else own
            if number >= len(phases):
                continue
            reducer.take(
                LibraryBegun(
                    library="data", path="/lake/data", filesystem="lake", nodes=1, streams=1, cores=1,
                    requires_bytes_per_s_per_core=requires,
                    layout=RequestedLayout(name="4", text="-c 4", chosen=is_chosen),
                )
            )  # fmt: skip
            reducer.take(PhaseDone(phase=phases[number]))
            reducer.take(
                LayoutSeen(
                    layout=ActualLayout(chosen=is_chosen, text=found[is_chosen], file_bytes=1, components=[])
                )
            )
            reducer.take(LibraryDone(status="complete", exit=ExitStatus.DONE))
    for event in extra:
        reducer.take(event)
    return reducer.record("run", "complete")


def figure_of(record: IotestRecord, op: str = "write") -> LayoutFigure:
    (library,) = record.libraries
    assert library.layouts is not None
    return next(each for each in library.layouts.figures if each.of == op)


def test_the_interval_is_that_of_the_paired_t_test() -> None:
    a, b = [100.0, 120.0, 90.0, 110.0], [130.0, 150.0, 100.0, 150.0]
    told = paired(a, b)
    assert told is not None
    logs = [math.log(second / first) for first, second in zip(a, b, strict=True)]
    oracle = stats.ttest_1samp(logs, 0.0)
    low, high = oracle.confidence_interval(0.95)
    assert (told.low, told.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert told.differs is bool(oracle.pvalue < 0.05)
    assert told.ratio == pytest.approx(stats.gmean(b) / stats.gmean(a))


def test_the_same_layout_twice_is_called_different_in_one_case_of_twenty() -> None:
    """Rates scatter by a tenth, and fall by half over the test, as where a burst runs out."""
    chance = random.Random(18)  # noqa: S311 - no secret
    cases, told = 2000, 0
    for _ in range(cases):
        sides: dict[bool, list[float]] = {False: [], True: []}
        for repeat in range(6):
            order = (False, True) if repeat % 2 == 0 else (True, False)
            for place, side in enumerate(order):
                drift = 1.0 - 0.5 * (2 * repeat + place) / 11
                sides[side].append(100 * drift * math.exp(chance.gauss(0, 0.1)))
        found = paired(sides[False], sides[True])
        assert found is not None
        told += found.differs
    # Three standard errors above 5 %; drift makes it fewer.
    assert told / cases < 0.05 + 3 * math.sqrt(0.05 * 0.95 / cases)


def test_the_least_change_is_told_in_four_cases_of_five() -> None:
    chance = random.Random(4)  # noqa: S311 - no secret
    cases = 1500
    noise = 0.05
    pairs = [math.exp(chance.gauss(0, noise)) for _ in range(6)]
    scale = noise / math.sqrt(sum((math.log(x) - math.log(stats.gmean(pairs))) ** 2 for x in pairs) / 5)
    exact = [math.exp(math.log(x) * scale) for x in pairs]
    known = paired([1.0] * 6, exact)
    assert known is not None
    told = 0
    for _ in range(cases):
        ratios = [(1 + known.least_change) * math.exp(chance.gauss(0, noise)) for _ in range(6)]
        found = paired([1.0] * 6, ratios)
        told += found is not None and found.differs
    assert told / cases == pytest.approx(0.8, abs=0.04)


def test_a_slower_layout_is_told_and_both_sides_are_kept_apart() -> None:
    own = [phase(rate * MB) for rate in (100, 104, 98, 101)]
    chosen = [phase(rate * MB) for rate in (51, 50, 49, 52)]
    record = record_of(own, chosen, requires=90 * MB)
    write = figure_of(record)
    assert write.differs is True
    assert "slower: 0.5" in write.verdict
    assert (write.default_median, write.chosen_median) == (100.5 * MB, 50.5 * MB)
    assert write.low is not None and write.high is not None and write.ratio is not None
    assert write.low < write.ratio < write.high < 1
    (library,) = record.libraries
    assert library.met is not False, "jobs have the library's own layout, and that is what is judged"
    assert [each.per_core_bytes_per_s for each in library.phases] == [
        each.per_core_bytes_per_s for each in own
    ]
    assert library.repeats[0].values == [each.per_core_bytes_per_s for each in own]
    assert library.layouts is not None
    assert len(library.layouts.phases) == 4


def test_no_difference_says_how_large_a_one_would_have_been_seen() -> None:
    own = [phase(rate * MB) for rate in (100, 110, 95, 105)]
    chosen = [phase(rate * MB) for rate in (104, 100, 101, 99)]
    write = figure_of(record_of(own, chosen))
    assert write.differs is False
    assert write.verdict.startswith("no difference that 4 pairs could show; they would tell one of ")


def test_a_pair_counts_where_both_its_tests_do() -> None:
    own = [phase(100 * MB), phase(101 * MB, cached=True), phase(99 * MB), phase(100 * MB), phase(100 * MB)]
    chosen = [
        phase(50 * MB),
        phase(50 * MB),
        phase(51 * MB, disturbed=True),
        phase(None, status="interrupted"),
        phase(
            50 * MB,
            nodes=[NodePhaseRecord(node="n2", cores=1, streams=1, status="failed", reason="it is gone")],
        ),
    ]
    write = figure_of(record_of(own, chosen))
    assert (write.default, write.chosen, write.ran) == ([100 * MB], [50 * MB], 5)
    assert (write.ratio, write.differs) == (None, None)
    assert write.verdict == "nothing can be told: 1 of 5 pairs count, and it takes 3"


def test_a_layout_beside_itself_never_differs() -> None:
    own = [phase(rate * MB) for rate in (100, 101, 100, 101)]
    chosen = [phase(rate * MB) for rate in (60, 61, 60, 61)]
    record = record_of(own, chosen, found=("-c 4 -S 1M", "-c 4 -S 1M"))
    write = figure_of(record)
    assert write.differs is False
    assert write.verdict == "no difference: files had the same layout on both sides"
    assert [each.name for each in record.findings] == ["layouts-alike"]


def test_wrong_data_in_the_chosen_layout_are_a_miss() -> None:
    failed = [phase(100 * MB), phase(None, status="failed")]
    wrong = Finding("error", "wrong-data", "bytes", "do not trust it")
    record = record_of([phase(100 * MB)] * 2, failed, requires=1.0, extra=[wrong])
    assert record.libraries[0].met is False


def test_operations_of_metadata_are_compared_by_their_number() -> None:
    own = [phase(1000.0 + each, "metadata") for each in range(3)]
    chosen = [replace(each, ops_per_s=(each.ops_per_s or 0) / 4) for each in own]
    found = figure_of(record_of(own, chosen), "metadata")
    assert (found.figure, found.differs) == ("ops_per_s", True)
