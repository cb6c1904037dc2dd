"""Whether what was measured meets what is required."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gridwright.errors import ExitStatus, Finding
from gridwright.messages import plain, typed
from gridwright.report.verdict import summarize, verdict_in_words
from gridwright.runs.directory import LoadedRun, Results, RunDirectory, load_run
from gridwright.runs.iotest_events import LibraryBegun, PhaseBegun, PhaseDone, RepeatBegun
from gridwright.runs.iotest_record import IotestReducer
from gridwright.runs.launch_record import LaunchRecord, LibraryTraffic
from gridwright.runs.load_record import Interference
from gridwright.runs.phase_record import Falling, NodePhaseRecord, PhaseRecord, RecordedNode, Steady
from gridwright.runs.records import IotestRecord, LibraryRecord, NodeCheck
from gridwright.runs.repeats import contrast, reaches, repeated
from gridwright.runs.verdict import (
    Graded,
    exit_status,
    grade_of,
    judge_library,
    judge_run,
    make_verdict,
    repeated_figures,
    verdict_on,
)
from gridwright.runs.workload_judge import WorkloadNeeds, judge_workload, met_by, ratio_of
from tests.fixtures.runs import built_runs
from tests.support.records import (
    ASKED,
    USED,
    launch_record,
    library_event,
    library_record,
    phase_record,
    workload_record,
)

REQUIRED = 100e6


def phase(op: str, per_core: float | None, **own: Any) -> PhaseRecord:
    return phase_record(op, per_core=per_core, **own)


READ = phase("read", 900e6)


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
    writes = [phase("write", each) for each in (20e6, 120e6, 90e6)]
    assert judge_library(library(*writes, READ)) is True


@pytest.mark.parametrize("op", ["write", "read"])
def test_what_was_not_measured_is_open_however_good_the_other_is(op: str) -> None:
    assert judge_library(library(phase(op, 900e6))) is None
    assert judge_library(library(phase(op, 1e6))) is False


def test_mixed_and_metadata_are_not_judged() -> None:
    others = phase("mixed", 1.0), phase("metadata", None)
    assert judge_library(library(phase("write", 200e6), READ, *others)) is True
    assert judge_library(library(phase("write", 200e6), *others)) is None
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
    assert judge_library(library(disturbed(rate), READ)) is None
    assert judge_library(library(disturbed(rate, allowed=True), READ)) is (rate >= REQUIRED)


def test_an_undisturbed_phase_counts_beside_a_disturbed_one() -> None:
    assert judge_library(library(disturbed(50e6), phase("write", 130e6), READ)) is True


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
    assert judge_library(library(*repeats("write", *writes), READ)) is met


def test_a_repeat_that_does_not_count_moves_no_median() -> None:
    """A cached repeat would lift it, a disturbed one lower it."""
    write = phase("write", 900e6)
    quiet = repeats("read", 110e6, 111e6, 112e6)
    cached = phase("read", 900e6, repeat=4, cached=True)
    disturbed = phase("read", 5e6, repeat=5, disturbed=True)
    assert judge_library(library(write, *quiet, cached, disturbed)) is True
    (found,) = repeated_figures([*quiet, cached, disturbed])
    assert (found.ran, len(found.values), found.median) == (5, 3, 111e6)
    assert judge_library(library(write, quiet[0], cached, disturbed)) is None


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


# What a run of the workload is judged by; every test tries to get a flattering verdict.


def launch(real: float, cpu: float, **own: Any) -> LaunchRecord:
    return launch_record(1, real_s=real, user_s=cpu, system_s=0.0, **own)


def waiting(wait_s: float, moved: int, real: float = 100.0) -> LaunchRecord:
    traffic = {"data": LibraryTraffic(read_bytes=moved, read_wait_s=wait_s)}
    return launch(real, real - wait_s, libraries=traffic)


def test_many_short_launches_do_not_hide_a_long_one_that_waits() -> None:
    launches = [launch(1.0, 1.0)] * 99 + [launch(1000.0, 100.0)]
    assert ratio_of(launches) == pytest.approx(199 / 1099)


def test_a_long_launch_does_not_hide_many_that_wait() -> None:
    launches = [launch(1000.0, 1000.0)] + [launch(1.0, 0.1)] * 9
    assert ratio_of(launches) == pytest.approx(0.19)


def test_launches_on_several_cores_do_not_make_up_for_others() -> None:
    assert ratio_of([launch(100.0, 380.0), launch(100.0, 20.0)]) == pytest.approx(0.6)


def test_nothing_launched_is_no_ratio() -> None:
    needs = WorkloadNeeds(ratio=0.5, tests={"absent": 0.5})
    found = judge_workload(needs, [], None, None)
    assert [(each.measured, each.met) for each in found] == [(None, None), (None, None)]
    assert met_by(found) is None


@pytest.mark.parametrize(("limit", "met"), [(59.0, False), (60.0, True)])
def test_the_time_of_the_whole_matrix(limit: float, met: bool) -> None:
    (found,) = judge_workload(WorkloadNeeds(real_s=limit), [launch(60, 60)], 60.0, 1.0)
    assert found.met is met


def test_one_test_is_judged_by_its_own_launches() -> None:
    launches = [launch(10.0, 10.0), launch_record(2, "slow", real_s=10.0, user_s=1.0, system_s=0.0)]
    found = judge_workload(WorkloadNeeds(tests={"slow": 0.5}), launches, 20.0, 1.0)
    assert [(each.of, each.met) for each in found] == [("slow", False)]
    assert found[0].measured == pytest.approx(0.1)


def test_a_library_that_was_waited_for_and_gave_less_is_missed() -> None:
    needs = WorkloadNeeds(libraries={"data": 100e6}, cores=4)
    (found,) = judge_workload(needs, [waiting(84.0, 840_000_000)], 100.0, 1.0)
    assert (found.of, found.met) == ("data", False)
    assert found.measured == pytest.approx(10e6)
    assert found.waited_share == pytest.approx(0.84)


def test_a_library_that_nobody_waited_for_is_not_judged() -> None:
    needs = WorkloadNeeds(libraries={"data": 100e6, "work": 100e6}, cores=4)
    assert judge_workload(needs, [waiting(4.9, 1_000)], 100.0, 1.0) == []


def test_a_library_that_kept_up_is_not_called_met() -> None:
    needs = WorkloadNeeds(libraries={"data": 100e6}, cores=4)
    assert judge_workload(needs, [waiting(50.0, 5_000_000_000)], 100.0, 1.0) == []


def test_more_launches_than_cores_share_what_the_cores_are_owed() -> None:
    """Eight launches on four cores each get half of what a core requires: the library gave all it owes."""
    needs = WorkloadNeeds(libraries={"data": 100e6}, cores=4)
    crowd = [waiting(100.0, 5_100_000_000)] * 8
    assert judge_workload(needs, crowd, 100.0, 8.0) == []
    assert [each.met for each in judge_workload(needs, crowd, 100.0, 4.0)] == [False]


# One verdict: run.json, exit status, headline and JSON of a run never contradict each other.

FAULT = NodeCheck(level="error", name="x", text="", remedy="", nodes=[], found="", expected="", why="")
LOST = built_runs.FINDINGS[0] | {"name": "node-lost"}
WRONG = built_runs.FINDINGS[0] | {"name": "wrong-data"}


def iotest(required: float | None, met: bool | None, **own: Any) -> Any:
    phases = [built_runs.phase("write", 140), built_runs.phase("read", 140)]
    return built_runs.iotest_record([built_runs.library("data", required, met, phases)], met, **own)


def workload(*, failed: bool = False, required: bool | None = None, requires: bool = False) -> Any:
    needs = [{"figure": "ratio", "required": 0.9, "measured": 0.5, "met": required}] if requires else []
    bad: dict[str, Any] = {"ok": False, "reason": "exit status 1."} if failed else {}
    met = False if failed else required if requires else None
    return workload_record([launch_record(1, **bad)], met=met, requirements=needs)


IOTESTS = [None, iotest(None, None), iotest(100, True), iotest(100, False), iotest(100, None)]
WORKLOADS = [
    None, workload(), workload(failed=True),
    *(workload(required=met, requires=True) for met in (True, False, None)),
]  # fmt: skip


@pytest.mark.parametrize(("tested", "ran"), list(itertools.product(IOTESTS, WORKLOADS)))
@pytest.mark.parametrize("checks", [[], [FAULT]], ids=["sound", "faulty"])
def test_all_that_a_run_says_of_itself_is_one_verdict(tested: Any, ran: Any, checks: list[NodeCheck]) -> None:
    kind = make_verdict("complete", tested, ran, checks)
    answers = [tested.met] if tested and tested.libraries[0].requires_bytes_per_s_per_core else []
    answers += [ran.met] if ran and (ran.requirements or ran.met is False) else []
    if checks or False in answers:
        expected = "missed"
    elif not answers:
        expected = "unrequired" if tested or ran else "unproven"
    else:
        expected = "unproven" if None in answers else "met"
    assert kind == expected
    assert (exit_status(ExitStatus.DONE, kind, []) == ExitStatus.DONE) is (kind in ("met", "unrequired"))
    run = built_runs.run_record(verdict=kind)
    assert verdict_in_words(run, tested, ran).kind == kind
    assert summarize(LoadedRun(Path("run"), run, tested, workload=ran)).kind == kind


def test_a_requirement_whose_part_was_left_out_is_open_and_named() -> None:
    left = ["125 MB/s/core of library data"]
    assert make_verdict("complete", None, None, [], left) == "unproven"
    assert make_verdict("complete", iotest(100, True), None, [], left) == "unproven"
    assert make_verdict("complete", iotest(100, False), None, [], left) == "missed"
    assert make_verdict("interrupted", iotest(100, True), None, [], left) == "interrupted"
    run = built_runs.run_record("complete", verdict="unproven", unmeasured=left)
    verdict = verdict_in_words(run, iotest(100, True))
    assert verdict.headline == "Not proven"
    assert "Required, and not measured by this run: 125 MB/s/core of library data." in verdict.sentence
    assert exit_status(ExitStatus.DONE, verdict.kind, []) == ExitStatus.MISSED


@pytest.mark.parametrize("state", ["interrupted", "failed", "running"])
def test_what_did_not_end_has_no_verdict_whatever_was_missed_until_then(state: Any) -> None:
    assert make_verdict(state, iotest(100, False), None, [FAULT]) == state


def test_wrong_data_are_a_verdict_and_named_in_the_headline() -> None:
    record = iotest(None, False, status="failed", findings=[WRONG])
    assert make_verdict("failed", record, None) == "missed"
    verdict = verdict_in_words(built_runs.run_record("failed", verdict="missed"), record)
    assert verdict.headline == "Data were wrong"


def test_a_node_that_failed_is_of_the_environment_whatever_was_met() -> None:
    record = iotest(100, True, findings=[LOST])
    assert exit_status(ExitStatus.DONE, "met", record.findings) == ExitStatus.ENVIRONMENT
    assert exit_status(ExitStatus.INTERRUPTED, "met", []) == ExitStatus.INTERRUPTED


def test_a_run_of_an_earlier_release_is_judged_by_what_it_stored() -> None:
    assert verdict_on(built_runs.run_record(met=False), iotest(100, True)) == "missed"
    assert verdict_on(built_runs.run_record(), iotest(100, True)) == "met"
    assert verdict_on(built_runs.run_record(verdict="of a newer release"), iotest(100, None)) == "unproven"


def test_the_verdict_stands_in_run_json(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "grid", command=["gridwright"], what=["doctor"])
    run.take(FAULT)
    run.finish("complete")
    loaded = load_run(run.path)
    assert (loaded.run.verdict, loaded.run.met) == ("missed", False)
    assert run.exit_status(ExitStatus.DONE) == ExitStatus.MISSED


# Median, spread and least change of repeats, against oracles and against chance.

MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""By how much the median of many is less certain than their mean."""


def test_a_figure_is_summed_up() -> None:
    found = repeated("per_core_bytes_per_s", [98.0, 104.0, 101.0], ran=4, of="write")
    assert (found.median, found.lowest, found.highest, found.ran) == (101.0, 98.0, 104.0, 4)
    assert found.spread == pytest.approx(3.0 / 101)
    assert found.values == [98.0, 104.0, 101.0]


def test_one_repeat_that_counts_has_no_spread() -> None:
    found = repeated("ratio", [0.9], ran=5)
    assert (found.median, found.spread, found.least_change) == (0.9, None, None)
    assert repeated("ratio", [], ran=5).median is None


@pytest.mark.parametrize("number", [2, 3, 5, 10, 30])
def test_the_least_change_is_that_of_a_power_analysis(number: int) -> None:
    logarithms = np.linspace(-0.03, 0.03, number)
    found = repeated("rate", np.exp(logarithms).tolist(), ran=number)
    assert found.least_change is not None
    error = logarithms.std(ddof=1) * math.sqrt(2 / number) * (MEDIAN_ERROR if number > 2 else 1.0)
    freedom = 2 * (number - 1)
    power = stats.nct.sf(stats.t.ppf(0.975, freedom), freedom, math.log1p(found.least_change) / error)
    assert power == pytest.approx(0.8, abs=1e-4)


@pytest.mark.parametrize(("b", "differs"), [([110.0, 112.0], True), ([104.0, 112.0], False)])
def test_two_repeats_are_compared_as_by_students_test(b: list[float], differs: bool) -> None:
    """Of two values the median is the mean, so that the oracle's answer is ours."""
    a = [100.0, 101.0]
    found = contrast(a, b)
    assert found is not None
    assert bool(stats.ttest_ind(np.log(a), np.log(b)).pvalue < 0.05) is differs
    assert found.differs is differs


@pytest.mark.parametrize("number", [2, 3, 5])
def test_chance_alone_seldom_differs_and_the_least_change_mostly_does(number: int) -> None:
    random = np.random.default_rng(20261122)
    deviation, trials = 0.02, 1500
    # Values of exactly this deviation say what change so many repeats can tell.
    shape = np.arange(number) - (number - 1) / 2
    values = (1 + deviation * shape / shape.std(ddof=1)).tolist()
    change = repeated("rate", values, ran=number).least_change
    assert change is not None
    false = told = 0
    for _ in range(trials):
        a, b = random.normal(1, deviation, (2, number)).tolist()
        same, other = contrast(a, b), contrast(a, [each + change for each in b])
        assert same is not None
        assert other is not None
        false += same.differs
        told += other.differs
    assert false / trials < 0.07
    assert told / trials > 0.74


def test_a_run_without_repeats_has_the_spread_of_the_other() -> None:
    several, once = [100.0, 102.0, 98.0, 101.0, 99.0], [101.0]
    found, reverse = contrast(several, once), contrast(once, several)
    assert found is not None
    assert reverse is not None
    assert found.noise > contrast(several, several).noise  # type: ignore[union-attr]
    assert found.noise / found.ratio == pytest.approx(reverse.noise / reverse.ratio)


def test_unlike_numbers_of_repeats_have_welchs_degrees_of_freedom() -> None:
    a, b = [100.0, 101.0, 99.0, 100.5, 99.5], [90.0, 110.0]
    found = contrast(a, b)
    assert found is not None
    errors = [
        np.log(a).std(ddof=1) / math.sqrt(5) * MEDIAN_ERROR,
        np.log(b).std(ddof=1) / math.sqrt(2),
    ]
    freedom = sum(e**2 for e in errors) ** 2 / (errors[0] ** 4 / 4 + errors[1] ** 4 / 1)
    width = stats.t.ppf(0.975, freedom) * math.hypot(*errors)
    assert found.noise == pytest.approx(found.ratio * math.sinh(width))


def test_wide_spreads_tell_the_same_both_ways() -> None:
    a, b = [0.15, 0.14, 0.16], [0.006, 0.2, 0.005]
    found, reverse = contrast(a, b), contrast(b, a)
    assert found is not None
    assert reverse is not None
    assert (found.differs, reverse.differs) == (False, False)
    assert found.noise / found.ratio == pytest.approx(reverse.noise / reverse.ratio)


@pytest.mark.parametrize("nothing", [([], [1.0, 2.0]), ([1.0], [2.0]), ([0.0, 0.0], [1.0, 2.0])])
def test_without_repeats_nothing_is_known_of_noise(nothing: tuple[list[float], list[float]]) -> None:
    assert contrast(*nothing) is None


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ([110.0, 111.0, 112.0], True),
        ([99.0, 101.0, 107.0], None),  # the median reaches it, and chance could have lifted it there
        ([98.0, 99.0, 140.0], False),  # one lucky repeat, as the best of all, met it
        ([101.0], None),
        ([99.0], False),
        ([], None),
    ],
)
def test_a_requirement_within_the_spread_is_not_met(values: list[float], answer: bool | None) -> None:
    assert reaches(values, 100.0) is answer
    assert reaches([-each for each in values], -100.0, at_most=True) is answer


def test_a_grid_at_its_limit_is_seldom_called_good() -> None:
    random = np.random.default_rng(7)
    lucky = sum(reaches(random.normal(100, 3, 3).tolist(), 100.0) is True for _ in range(1500))
    assert lucky / 1500 < 0.07


# How much a run shows: what moved less than memory can hold is never a proof.

GIB = 1 << 30
MEMORY = 8 * GIB


def record(*phases: PhaseRecord, nodes: tuple[RecordedNode, ...] = ()) -> IotestRecord:
    library = built_runs.library("data", 100, True, [plain(each) for each in phases])
    return built_runs.iotest_record([library], True).model_copy(update={"nodes": list(nodes)})


def phase_of_size(op: str, size: int, **own: Any) -> PhaseRecord:
    return replace(typed(built_runs.phase(op, 140), PhaseRecord), bytes=size, **own)


def steady_at(found: bool) -> Steady:
    return Steady(
        steady=found, rule="", peak_bytes_per_s=1e9, peak_lasted_s=3.0,
        steady_bytes_per_s=1e9 if found else None, change_points_s=[],
    )  # fmt: skip


def graded(iotest: IotestRecord | None, workload: Any = None) -> Graded:
    found = grade_of(iotest, workload, MEMORY)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("written", "read", "grade"), [(16, 16, "proof"), (16, 15, "quick look"), (4, 16, "quick look")]
)
def test_each_judged_phase_moves_twice_the_memory(written: int, read: int, grade: str) -> None:
    found = graded(record(phase_of_size("write", written * GIB), phase_of_size("read", read * GIB)))
    assert found.grade == grade
    assert ("data" in found.not_shown) is (grade == "quick look")


def test_a_rate_that_was_found_steady_is_a_proof_and_one_that_was_not_is_none() -> None:
    assert graded(record(phase_of_size("write", GIB, steady=steady_at(True)))).grade == "proof"
    assert graded(record(phase_of_size("write", GIB, steady=steady_at(False)))).grade == "quick look"


def test_every_node_counts_by_its_own_memory() -> None:
    """Much on a small node does not make up for little on a large one."""
    of = [
        NodePhaseRecord(node=name, cores=4, streams=1, bytes=size * GIB)
        for name, size in (("a", 60), ("b", 20))
    ]
    nodes = (
        RecordedNode(node="a", cores=4, memory_bytes=4 * GIB),
        RecordedNode(node="b", cores=4, memory_bytes=16 * GIB),
    )
    assert graded(record(phase_of_size("write", 80 * GIB, nodes=of), nodes=nodes)).grade == "quick look"


def test_a_workload_moves_twice_the_memory_too() -> None:
    def ran(size: int) -> Any:
        return workload_record([launch_record(1, read_bytes=size * GIB, written_bytes=0)])

    assert graded(None, ran(16)).grade == "proof"
    assert "the workload" in graded(None, ran(15)).not_shown
    assert graded(record(phase_of_size("write", 16 * GIB)), ran(1)).grade == "quick look"


def test_what_measured_nothing_has_no_grade() -> None:
    assert grade_of(record(), None, MEMORY) is None
    assert grade_of(None, None, MEMORY) is None
    assert grade_of(record(phase_of_size("write", GIB, status="interrupted")), None, MEMORY) is None


def test_a_rate_that_still_fell_is_no_proof_however_much_was_moved() -> None:
    falling = Falling(1e9, 3e8, 10.0)
    found = graded(record(phase_of_size("write", 16 * GIB, falling=falling), phase_of_size("read", 16 * GIB)))
    assert found.grade == "quick look"
    assert "still fell when a phase ended" in found.not_shown
    assert "twice the memory" not in found.not_shown, "that is not why"
