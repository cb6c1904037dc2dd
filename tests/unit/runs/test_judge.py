"""Whether what was measured meets what is required."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gridwright.errors import Finding
from gridwright.messages import plain, typed
from gridwright.runs.iotest_events import LibraryBegun, PhaseBegun, PhaseDone, RepeatBegun
from gridwright.runs.iotest_record import IotestReducer
from gridwright.runs.judge import judge_library, judge_run, repeated_figures
from gridwright.runs.load_record import Interference
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.records import LibraryRecord, NodeCheck
from gridwright.runs.results import Results
from tests.support.records import ASKED, USED, library_event, library_record, phase_record

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


def begun(library: str, required: float | None) -> LibraryBegun:
    return LibraryBegun(
        streams=1,
        library=library,
        path=f"/{library}",
        filesystem=None,
        requires_bytes_per_s_per_core=required,
        cores=1,
        nodes=1,
    )


@pytest.mark.parametrize(("name", "met"), [("library-failed", None), ("wrong-data", False)])
def test_a_run_that_failed_has_no_verdict_but_wrong_data_are_one(name: str, met: bool | None) -> None:
    reducer = IotestReducer()
    for library_name, status in (("data", "complete"), ("work", "failed")):
        reducer.take(begun(library_name, REQUIRED))
        reducer.take(PhaseDone(phase=phase("write", 1.0, status=status)))
    reducer.take(Finding("error", name, "what happened", "what to do"))
    record = reducer.record("run", "failed")
    assert [each.met for each in record.libraries] == [False, met]
    assert record.met is met
    checks = [NodeCheck(level="error", name="x", text="", remedy="", nodes=[], found="", expected="", why="")]
    assert Results(record, None, checks, "failed").met is met


DISTURBER = Interference("cpu", "burner", "bob", 0.5, 0.1, "process burner of bob used 50 % of the CPU time")


def disturbed(per_core: float, *, allowed: bool = False) -> PhaseRecord:
    quiet = phase("write", per_core)
    asked = replace(quiet.asked, allow_disturbed=allowed)
    return replace(quiet, asked=asked, disturbed=True, disturbances=[DISTURBER])


@pytest.mark.parametrize("rate", [50e6, 500e6])
def test_what_was_disturbed_proves_nothing_unless_that_is_allowed(rate: float) -> None:
    assert judge_library(library(disturbed(rate))) is None
    assert judge_library(library(disturbed(rate, allowed=True))) is (rate >= REQUIRED)


def test_an_undisturbed_phase_counts_beside_a_disturbed_one() -> None:
    assert judge_library(library(disturbed(50e6), phase("write", 130e6))) is True


def repeats(op: str, *per_core: float, **own: Any) -> list[PhaseRecord]:
    return [phase(op, each, repeat=number, **own) for number, each in enumerate(per_core, start=1)]


@pytest.mark.parametrize(
    ("writes", "met"),
    [
        ((110e6, 111e6, 112e6), True),
        ((99e6, 101e6, 130e6), None),  # the median reaches it by chance, the best of all by far
        ((98e6, 99e6, 200e6), False),
        ((101e6,), None),
    ],
)
def test_of_repeats_the_median_is_judged_and_open_within_the_spread(
    writes: tuple[float, ...], met: bool | None
) -> None:
    assert judge_library(library(*repeats("write", *writes))) is met


def test_a_repeat_that_does_not_count_moves_no_median() -> None:
    """A cached repeat would lift it, a disturbed one lower it."""
    quiet = repeats("read", 110e6, 111e6, 112e6)
    cached = phase("read", 900e6, repeat=4, cached=True)
    disturbed = phase("read", 5e6, repeat=5, disturbed=True)
    assert judge_library(library(*quiet, cached, disturbed)) is True
    (found,) = repeated_figures([*quiet, cached, disturbed])
    assert (found.ran, len(found.values), found.median) == (5, 3, 111e6)
    assert judge_library(library(quiet[0], cached, disturbed)) is None


def test_wrong_data_in_one_repeat_is_a_miss() -> None:
    wrong = phase("read", 500e6, repeat=4, status="failed")
    assert judge_library(library(*repeats("read", 500e6, 501e6, 502e6), wrong)) is False


def test_repeats_of_all_libraries_come_one_after_the_other() -> None:
    """The second repeat of a library goes on with its record; the third was stopped in its first phase."""
    reducer = IotestReducer()
    for number in (1, 2):
        reducer.take(RepeatBegun(number=number, of=3))
        for name in ("data", "work"):
            reducer.take(typed(library_event(name) | {"event": None}, LibraryBegun))
            reducer.take(PhaseDone(phase=phase("write", 100e6 + number)))
    reducer.take(RepeatBegun(number=3, of=3))
    reducer.take(typed(library_event("data") | {"event": None}, LibraryBegun))
    reducer.take(typed({"op": "write", "started": 0.0, "asked": ASKED, "used": USED}, PhaseBegun))
    data, work = reducer.record("a", "interrupted").libraries
    assert [each.repeat for each in data.phases] == [1, 2, 3]
    assert [each.repeat for each in work.phases] == [1, 2]
    assert data.phases[2].status == "interrupted"
    assert (data.repeats[0].ran, data.repeats[0].values) == (3, [100e6 + 1, 100e6 + 2])


def test_a_test_that_is_not_repeated_says_nothing_of_repeats() -> None:
    reducer = IotestReducer()
    reducer.take(typed(library_event() | {"event": None}, LibraryBegun))
    reducer.take(PhaseDone(phase=phase("write", 100e6)))
    (found,) = plain(reducer.record("a", "complete").libraries)
    assert "repeats" not in found
    assert "repeat" not in found["phases"][0]
