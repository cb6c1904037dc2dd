"""The mixed workload on the terminal."""

from __future__ import annotations

import pytest

from gridwright.report.terminal.workload import workload_text
from tests.support.records import launch_record, workload_record
from tests.unit.report import workload_runs


def printed(name: str) -> str:
    workload = workload_runs.RUNS[name]().workload
    assert workload is not None
    return workload_text(workload)


@pytest.mark.parametrize("name", list(workload_runs.RUNS))
def test_nothing_is_wider_than_a_page_of_a_pipe(name: str) -> None:
    assert max(map(len, printed(name).splitlines())) <= 120


def test_tests_sums_extent_and_diagnosis_are_printed() -> None:
    out = printed("workload")
    for words in (
        "compute_mixed_model",
        "ratio mean",
        "of sums",
        "matrix mixed, scale small, seed 7, streams 16",
    ):
        assert words in out
    assert "The cores waited for work" in out
    assert "failed:" not in out


def test_the_first_failures_are_named_and_the_rest_counted() -> None:
    out = printed("workload-failing")
    assert out.count("failed: ") == 5
    assert "3 more failed; the report names them" in out


def test_what_is_not_known_is_left_out() -> None:
    out = printed("workload-imported")
    assert "matrix" not in out
    assert "None" not in out
    assert "None" not in printed("workload-absent")


def test_markup_of_others_is_text() -> None:
    launch = launch_record(1, "[bold]x[/nonsense]", ok=False, reason="[red]y[/oops]", log="[z]")
    out = workload_text(workload_record([launch], matrix="[m]", summary={"diagnosis": "[/d]"}))
    for words in ("[bold]x[/nonsense]", "[red]y[/oops]", "(log: [z])", "matrix [m]", "[/d]"):
        assert words in out
