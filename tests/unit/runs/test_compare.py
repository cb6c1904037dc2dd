"""Two runs side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.runs.compare import Comparison, compare_runs
from gridwright.runs.directory import load_run
from tests.support.records import finished_run


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
