"""Two runs side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.report.terminal.run import comparison_text
from gridwright.runs.compare import Comparison, compare_runs
from gridwright.runs.directory import LoadedRun, RunDirectory, load_run
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
