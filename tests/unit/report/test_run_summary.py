"""A run in one line: the figure that is closest to its requirement speaks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gridwright.report.figures import age
from gridwright.report.run_summary import RunSummary, summarize
from gridwright.runs.directory import load_run
from tests.support.records import (
    finished_run,
    launch_record,
    library_event,
    measured_run,
    phase_event,
    result_event,
    take,
    workload_record,
)


def summary(path: Path, **changed: Any) -> RunSummary:
    loaded = load_run(path)
    return summarize(type(loaded)(**{name: getattr(loaded, name) for name in loaded.__slots__} | changed))


def test_the_library_closest_to_its_requirement_speaks(tmp_path: Path) -> None:
    run = measured_run(tmp_path, per_core=100e6)  # data: 100 of 50
    take(run, library_event("work", 125e6))
    for op, rate in (("write", 130e6), ("read", 124.96e6)):
        take(run, phase_event(op))
        take(run, result_event(op, per_core=rate))
    take(run, {"event": "done", "status": "complete", "exit": 0})
    run.finish("complete")
    found = summary(run.path)
    assert (found.kind, found.requirement_text, found.figure_text) == (
        "missed",
        "work 125 MB/s/core",
        "124.96 read",
    )
    assert found.document()["requirement"] == {
        "library": "work",
        "op": "read",
        "requires_bytes_per_s_per_core": 125e6,
    }


def test_a_run_that_requires_nothing_names_the_library_of_its_figure(tmp_path: Path) -> None:
    run = measured_run(tmp_path)
    run.finish("complete")
    loaded = load_run(run.path)
    assert loaded.iotest is not None
    libraries = loaded.iotest.libraries
    libraries[0] = replace(libraries[0], requires_bytes_per_s_per_core=None)
    found = summarize(loaded)
    assert (found.requirement_text, found.figure_text) == ("–", "data 100 read")  # noqa: RUF001
    assert found.document()["requirement"] is None


def test_a_workload_alone_shows_its_ratio(tmp_path: Path) -> None:
    path = finished_run(tmp_path)
    found = summary(path, iotest=None, workload=workload_record([launch_record()]))
    assert (found.figure_text, found.document()["figure"]) == ("CPU/real 0.900", {"cpu_real_ratio": 0.9})


def test_the_grade_is_that_of_the_record(tmp_path: Path) -> None:
    path = finished_run(tmp_path)
    assert summary(path).grade == "quick look"
    run = load_run(path).run.model_copy(update={"grade": None})
    assert summary(path, run=run).grade is None


def test_an_age_is_in_its_largest_unit() -> None:
    ages = {0.4: "0 s", 59: "59 s", 60: "1 min", 7199: "1 h", 86_399: "23 h", 7_776_000: "90 d", -5: "0 s"}
    assert {seconds: age(seconds) for seconds in ages} == ages
