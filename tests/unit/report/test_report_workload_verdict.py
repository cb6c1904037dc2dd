"""The verdict on a workload, alone and beside a throughput test."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.report.verdict import verdict_in_words
from gridwright.runs.workload_judge import JudgedRequirement
from gridwright.runs.workload_record import WorkloadRecord
from tests.fixtures.runs import built_runs
from tests.support.records import launch_record, workload_record
from tests.unit.report import workload_runs

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
