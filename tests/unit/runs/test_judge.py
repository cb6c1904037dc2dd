"""Whether what was measured meets what is required."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.runs.judge import judge_library, judge_run
from gridwright.runs.records import LibraryRecord, PhaseRecord
from tests.support.records import library_record, phase_record

REQUIRED = 100e6


def phase(op: str, per_core: float | None, **own: Any) -> PhaseRecord:
    return phase_record(op, per_core=per_core, **own)


def library(*phases: PhaseRecord, required: float | None = REQUIRED) -> LibraryRecord:
    return library_record(phases=list(phases), requires=required)


def test_both_figures_at_the_requirement_meet_it() -> None:
    assert judge_library(library(phase("write", 100e6), phase("read", 101e6))) is True


@pytest.mark.parametrize(("write", "read"), [(99.9e6, 200e6), (200e6, 99.9e6), (1.0, 2.0)])
def test_one_figure_below_is_a_miss(write: float, read: float) -> None:
    assert judge_library(library(phase("write", write), phase("read", read))) is False


@pytest.mark.parametrize(
    "read",
    [
        phase("read", 900e6, cached=True, cached_fraction=1.0),
        phase("read", 900e6, status="interrupted"),
        phase("read", None),
    ],
)
def test_a_figure_that_does_not_count_leaves_it_open(read: PhaseRecord) -> None:
    assert judge_library(library(phase("write", 200e6), read)) is None
    assert judge_library(library(phase("write", 20e6), read)) is False


def test_a_failed_phase_is_a_miss_whatever_else_was_measured() -> None:
    failed = phase("read", 900e6, status="failed")
    assert judge_library(library(phase("write", 200e6), failed)) is False
    assert judge_library(library(failed, required=None)) is False


def test_the_best_of_a_sweep_counts() -> None:
    assert judge_library(library(phase("write", 20e6), phase("write", 120e6), phase("write", 90e6))) is True


def test_mixed_and_metadata_are_not_judged() -> None:
    assert judge_library(library(phase("write", 200e6), phase("mixed", 1.0), phase("metadata", None))) is True
    assert judge_library(library(phase("mixed", 900e6))) is None


def test_nothing_required_is_no_verdict() -> None:
    assert judge_library(library(phase("write", 1.0), required=None)) is None
    assert judge_library(library(required=100e6)) is None


@pytest.mark.parametrize(
    ("mets", "verdict"),
    [
        ([True, True], True),
        ([True, False], False),
        ([None, False], False),
        ([True, None], None),
        ([], None),
    ],
)
def test_a_run_meets_what_all_its_libraries_meet(mets: list[bool | None], verdict: bool | None) -> None:
    libraries = [library_record(requires=REQUIRED, met=met) for met in mets]
    assert judge_run(libraries) is verdict


def test_a_library_that_requires_nothing_has_no_say_unless_its_data_is_wrong() -> None:
    met = library_record(requires=REQUIRED, met=True)
    assert judge_run([met, library_record(requires=None, met=None)]) is True
    assert judge_run([met, library_record(requires=None, met=False)]) is False
    assert judge_run([library_record(requires=None, met=None)]) is None
