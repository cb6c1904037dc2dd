"""The verdict in words, and that it judges as `gridwright.runs.verdict` does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridwright.messages import plain, typed
from gridwright.report.figures import age
from gridwright.report.verdict import RunSummary, Verdict, summarize, verdict_in_words
from gridwright.runs.directory import load_run
from gridwright.runs.records import LibraryRecord
from gridwright.runs.verdict import judge_library, judge_run, repeated_figures
from gridwright.runs.workload_judge import JudgedRequirement
from gridwright.runs.workload_record import WorkloadRecord
from tests.fixtures.runs import built_runs
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
from tests.unit.report import workload_runs


def verdict_of(name: str) -> Verdict:
    run = built_runs.RUNS[name]()
    return verdict_in_words(run.run, run.iotest)


def judged(*libraries: dict[str, Any]) -> Verdict:
    """The verdict of a finished run, with `met` as the judge finds it."""
    given = [typed(library, LibraryRecord) for library in libraries]
    records = [replace(library, met=judge_library(library)) for library in given]
    met = judge_run(records)
    iotest = built_runs.iotest_record(list(map(plain, records)), met)
    return verdict_in_words(built_runs.run_record(met=met), iotest)


def two(write: float | None, read: float | None, **own: Any) -> list[dict[str, Any]]:
    return [built_runs.phase("write", write), built_runs.phase("read", read, **own)]


@pytest.mark.parametrize(
    ("name", "headline", "sentence"),
    [
        (
            "missed",
            "Requirements missed",
            "work writes 131 and reads 98.4 MB/s per core against the 125 it requires; "
            "data meets its requirement, util is not proven.",
        ),
        (
            "met",
            "Requirements met",
            "Both libraries reach their required rate; the closest, work writes 131 and reads 128 MB/s per "
            "core against the 125 it requires.",
        ),
        (
            "unproven",
            "Not proven",
            "The read of util came from the page cache and does not count.",
        ),
        (
            "interrupted",
            "Interrupted: no verdict",
            "The run was interrupted, so no requirement is judged. Measured until then: data writes 141 and "
            "reads 163 MB/s per core against the 100 it requires; work writes 131 MB/s per core against "
            "the 125.",
        ),
        ("killed", "Interrupted: no verdict", "The run was interrupted before a figure was complete."),
        ("failed", "Failed: no verdict", "The run failed before a figure was complete."),
    ],
)
def test_headline_and_sentence(name: str, headline: str, sentence: str) -> None:
    verdict = verdict_of(name)
    assert (verdict.headline, verdict.sentence) == (headline, sentence)


def test_each_score_has_its_own_mark() -> None:
    marks = {lib.library: [score.mark for score in lib.scores] for lib in verdict_of("missed").libraries}
    assert marks == {"data": ["met", "met"], "work": ["met", "missed"], "util": ["met", "cached"]}


def test_nothing_is_judged_in_an_interrupted_run() -> None:
    verdict = verdict_of("interrupted")
    assert {score.mark for lib in verdict.libraries for score in lib.scores} == {"unjudged", "unmeasured"}
    assert {lib.word for lib in verdict.libraries} == {"no verdict"}


def test_a_test_that_was_interrupted_outweighs_a_run_that_says_met() -> None:
    libraries = [built_runs.library("data", 100, True, two(140, 140))]
    iotest = built_runs.iotest_record(libraries, True, status="interrupted")
    assert verdict_in_words(built_runs.run_record(met=True), iotest).kind == "interrupted"


def test_a_running_run_has_no_verdict() -> None:
    assert verdict_in_words(built_runs.run_record("running"), None).headline == "Still running: no verdict"


@pytest.mark.parametrize(
    ("measured", "kind", "sentence"),
    [
        (
            {"data": (100, 141.4, 162.9)},
            "met",
            "data writes 141 and reads 163 MB/s per core against the 100 it requires.",
        ),
        (
            {"data": (125, 140, 124.96)},
            "missed",
            "data writes 140 and reads 124.96 MB/s per core against the 125 it requires.",
        ),
        (
            {"data": (100, 90, 91), "work": (125, 92, 93)},
            "missed",
            "data writes 90.0 and reads 91.0 MB/s per core against the 100 it requires; "
            "work writes 92.0 and reads 93.0 MB/s per core against the 125.",
        ),
    ],
    ids=["one met", "a near miss shows the digits that tell", "several misses"],
)
def test_libraries_are_named_with_their_figures(
    measured: dict[str, tuple[float, float, float]], kind: str, sentence: str
) -> None:
    verdict = judged(
        *(built_runs.library(name, need, None, two(*rates)) for name, (need, *rates) in measured.items())
    )
    assert (verdict.kind, verdict.sentence) == (kind, sentence)


def test_wrong_data_is_a_miss_and_says_so() -> None:
    phases = two(140, 150, status="failed")
    verdict = judged(built_runs.library("data", 100, None, phases))
    assert verdict.kind == "missed"
    assert verdict.sentence == "The read of data failed; see the findings."
    assert [score.mark for score in verdict.libraries[0].scores] == ["met", "failed"]


def test_of_several_reads_the_best_that_counts_is_shown() -> None:
    cached = built_runs.phase("read", 900, cached=True, cached_fraction=1.0)
    phases = [*two(140, 150), built_runs.phase("read", 90), cached]
    verdict = judged(built_runs.library("data", 100, None, phases))
    assert verdict.kind == "met"
    assert verdict.libraries[0].scores[1].text == "150"


def test_no_requirement_is_nothing_to_judge() -> None:
    verdict = judged(built_runs.library("data", None, None, two(140, 150)))
    assert (verdict.kind, verdict.libraries[0].word) == ("unrequired", "no requirement")
    assert verdict.headline == "No requirement on the libraries"
    assert verdict.sentence == "The grid spec requires no rate of any library, so there is nothing to judge."


def test_another_check_that_failed_is_not_blamed_on_a_library() -> None:
    libraries = [built_runs.library("data", 100, True, two(140, 140))]
    verdict = verdict_in_words(built_runs.run_record(met=False), built_runs.iotest_record(libraries, True))
    assert verdict.kind == "missed"
    assert verdict.sentence.startswith("No library misses its requirement, but another check")


def test_a_quick_look_is_no_green_banner_and_says_what_it_did_not_show() -> None:
    phases = [built_runs.phase("write", 140), built_runs.phase("read", 140)]
    iotest = built_runs.iotest_record([built_runs.library("data", 100, True, phases)], True)
    run = built_runs.run_record(met=True)
    assert verdict_in_words(run, iotest).colour_key == "met"
    glance = run.model_copy(
        update={"grade": "quick look", "not_shown": "Not shown: sustained rates, of data."}
    )
    verdict = verdict_in_words(glance, iotest)
    assert (verdict.kind, verdict.colour_key) == ("met", "glimpsed")
    assert verdict.headline == "Quick look: requirements met"
    assert verdict.not_shown == "Not shown: sustained rates, of data."


def test_what_repeats_cannot_tell_is_said_and_not_green() -> None:
    rates = (99.0, 101.0, 107.0)
    writes = [built_runs.phase("write", rate) | {"repeat": n} for n, rate in enumerate(rates, start=1)]
    record = typed(built_runs.library("data", 100.0, None, writes), LibraryRecord)
    found = judged(plain(replace(record, repeats=repeated_figures(record.phases))))
    assert (found.kind, found.libraries[0].scores[0].mark) == ("unproven", "untold")
    median = "data writes 101 MB/s per core in the median of 3 repeats against the 100 it requires"
    assert found.sentence.startswith(median)
    assert "so few repeats of so much spread cannot tell the write from that" in found.sentence


def test_a_median_that_is_told_from_the_requirement_is_met_and_says_what_stayed_below() -> None:
    rates = {"write": (99.0, 140.0, 141.0, 142.0, 143.0, 144.0, 145.0), "read": (150.0, 151.0, 152.0)}
    phases = [
        built_runs.phase(op, rate) | {"repeat": number}
        for op, each in rates.items()
        for number, rate in enumerate(each, start=1)
    ]
    record = typed(built_runs.library("data", 100.0, None, phases), LibraryRecord)
    found = judged(plain(replace(record, repeats=repeated_figures(record.phases))))
    assert found.kind == "met"
    assert "(1 repeat stayed below)" in found.sentence


@pytest.mark.parametrize(
    ("hypervisor", "grade", "named"), [("kvm", "proof", True), ("kvm", None, False), (None, "proof", False)]
)
def test_a_guest_s_host_may_flatter_and_is_named(hypervisor: str | None, grade: Any, named: bool) -> None:
    run = built_runs.run_record(met=True)
    run = run.model_copy(
        update={"grade": grade, "host": run.host.model_copy(update={"hypervisor": hypervisor})}
    )
    iotest = built_runs.iotest_record([built_runs.library("data", 100, True, two(140, 160))], True)
    assert ("the host of this guest (kvm)" in verdict_in_words(run, iotest).not_shown) is named


# The verdict on a workload, alone and beside a throughput test.

UNREQUIRED = (
    "All 3 launches ended with right answers. No requirement on the workload; its CPU/real ratio was 0.900."
)
FAILED: dict[str, Any] = {"ok": False, "reason": "exit status 1."}


def record(number: int = 3, failed: int = 0, **own: Any) -> WorkloadRecord:
    launches = [launch_record(i + 1, **(FAILED if i < failed else {})) for i in range(number)]
    return workload_record(launches, **own)


def iotest(met: bool | None, required: float | None = 100, rate: float = 140) -> Any:
    phases = [built_runs.phase("write", rate), built_runs.phase("read", rate)]
    return built_runs.iotest_record([built_runs.library("data", required, met, phases)], met)


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        (
            "workload",
            "unrequired",
            "All 101 launches ended with right answers. No requirement on the workload",
        ),
        (
            "workload-one",
            "unrequired",
            "The only launch ended with the right answer. No requirement on the workload",
        ),
        ("workload-empty", "unproven", "No test was launched, so there is no workload to judge."),
        (
            "workload-imported",
            "unrequired",
            "All 21 launches ended without an error. No requirement on the workload",
        ),
        (
            "workload-failing",
            "missed",
            "8 of 77 launches failed; the first, io_write_wide (launch 6): "
            "the answer is wrong: 1,204,112 rows where 1,204,113 are right.",
        ),
        (
            "workload-interrupted",
            "interrupted",
            "The run was interrupted, so the workload is not judged; until then 40 launches had ended, "
            "4 of which failed.",
        ),
    ],
)
def test_a_workload_alone(name: str, kind: str, sentence: str) -> None:
    run = workload_runs.RUNS[name]()
    verdict = verdict_in_words(run.run, run.iotest, run.workload)
    assert verdict.kind == kind
    assert verdict.sentence.startswith(sentence)


def test_the_first_failure_is_the_one_that_ended_first() -> None:
    launches = [
        launch_record(1, "late", ok=False, reason="late", ended=1_763_700_900.0),
        launch_record(2, "early", ok=False, reason="early", ended=1_763_700_100.0),
        launch_record(3, "unknown", ok=False, reason="unknown", ended=None),
    ]
    verdict = verdict_in_words(built_runs.run_record(met=False), None, workload_record(launches))
    assert verdict.sentence == "3 of 3 launches failed; the first, early (launch 2): early."


def test_failed_launches_outweigh_a_run_that_says_met() -> None:
    assert verdict_in_words(built_runs.run_record(met=True), None, record(failed=1)).kind == "missed"


@pytest.mark.parametrize("status", ["interrupted", "failed", "running"])
def test_a_workload_that_did_not_end_has_no_verdict(status: str) -> None:
    verdict = verdict_in_words(built_runs.run_record(met=False), None, record(failed=1, status=status))
    assert verdict.kind == status
    assert (
        "so the workload is not judged; until then 3 launches had ended, 1 of which failed"
        in verdict.sentence
    )


def test_both_met_reports_both() -> None:
    verdict = verdict_in_words(built_runs.run_record(met=True), iotest(True), record())
    assert verdict.kind == "met"
    assert verdict.sentence == (
        f"data writes 140 and reads 140 MB/s per core against the 100 it requires. {UNREQUIRED}"
    )
    assert verdict.headline == "Requirements of libraries met; no requirement on the workload"


def test_a_missed_workload_does_not_blame_a_library() -> None:
    verdict = verdict_in_words(built_runs.run_record(met=False), iotest(True), record(failed=1))
    assert verdict.kind == "missed"
    assert [library.kind for library in verdict.libraries] == ["met"]
    assert verdict.sentence == (
        "data writes 140 and reads 140 MB/s per core against the 100 it requires. "
        "1 of 3 launches failed; the first, io_sort (launch 1): exit status 1."
    )


def test_a_missed_library_leaves_the_workload_its_due() -> None:
    verdict = verdict_in_words(built_runs.run_record(met=False), iotest(False, rate=90), record())
    assert verdict.kind == "missed"
    assert verdict.sentence.startswith("data writes 90.0 and reads 90.0 MB/s per core against the 100")
    assert verdict.sentence.endswith(UNREQUIRED)


def test_a_library_that_is_not_proven_leaves_the_whole_unproven() -> None:
    assert verdict_in_words(built_runs.run_record(), iotest(None), record()).kind == "unproven"


def test_a_throughput_test_without_requirements_has_no_say() -> None:
    verdict = verdict_in_words(built_runs.run_record(), iotest(None, required=None), record())
    assert verdict.kind == "unrequired"
    assert "there is nothing to judge. All 3 launches" in verdict.sentence


def test_another_check_that_failed_is_said() -> None:
    alone = verdict_in_words(built_runs.run_record(met=False), None, record())
    assert alone.sentence.endswith("Another check of this run failed; see the findings.")
    both = verdict_in_words(built_runs.run_record(met=False), iotest(True), record())
    assert "another check of this run failed" in both.sentence


def test_an_interrupted_run_of_both_says_how_far_each_came() -> None:
    verdict = verdict_in_words(built_runs.run_record("interrupted"), iotest(None), record(failed=1))
    assert verdict.kind == "interrupted"
    assert verdict.sentence.startswith(
        "The run was interrupted, so no requirement is judged. Measured until then"
    )
    assert verdict.sentence.endswith("3 launches of the workload had ended, 1 of which failed.")


def test_a_test_that_found_no_library_is_not_spoken_of() -> None:
    nothing = built_runs.iotest_record([], None)
    assert verdict_in_words(built_runs.run_record(), nothing, record()).sentence == UNREQUIRED


def needed(figure: str, met: bool | None, **own: Any) -> JudgedRequirement:
    values: dict[str, Any] = {"figure": figure, "required": 0.9, "measured": 0.16, "met": met} | own
    return JudgedRequirement(**values)


def test_a_workload_that_waits_is_missed_though_its_answers_are_right() -> None:
    waits = needed("bytes_per_s_per_core", False, of="data", required=100e6, measured=10e6, waited_share=0.84)
    slow = record(met=False, requirements=[needed("ratio", False), waits])
    verdict = verdict_in_words(built_runs.run_record(met=False), iotest(True), slow)
    assert verdict.kind == "missed"
    assert verdict.sentence.endswith(
        "All 3 launches ended with right answers. The CPU/real ratio was 0.160 where 0.900 is required. "
        "Launches waited for data 84 % of their time, which delivered 10.0 MB/s per core and requires 100."
    )
    alone = record(met=False, requirements=[waits])
    assert verdict_in_words(built_runs.run_record(met=False), None, alone).kind == "missed"


def test_requirements_that_are_met_are_said_with_their_figures() -> None:
    fast = record(
        met=True,
        requirements=[
            needed("ratio", True, measured=0.95),
            needed("real_s", True, required=7200, measured=60),
        ],
    )
    verdict = verdict_in_words(built_runs.run_record(met=True), None, fast)
    assert (verdict.kind, verdict.headline) == ("met", "Requirements met")
    assert (
        "The CPU/real ratio was 0.950 where 0.900 is required. It took 1 min 0 s where at most"
        in verdict.sentence
    )


def test_a_test_that_was_not_launched_leaves_its_requirement_open() -> None:
    absent = record(met=None, requirements=[needed("ratio", None, of="regression", measured=None)])
    verdict = verdict_in_words(built_runs.run_record(), None, absent)
    assert verdict.kind == "unproven"
    assert "The CPU/real ratio of regression was not measured" in verdict.sentence


def test_a_run_of_an_earlier_release_proves_nothing_of_the_workload() -> None:
    assert verdict_in_words(built_runs.run_record(met=True), None, record(met=True)).kind == "unrequired"


# A run in one line: the figure that is closest to its requirement speaks for it.


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
