from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.runs.compare import Comparison, compare_runs
from gridwright.runs.directory import LoadedRun, RunDirectory, load_run
from gridwright.runs.journal import Event
from tests.support.records import take


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
