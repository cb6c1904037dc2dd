"""The verdict in words, and that it judges as `gridwright.runs.judge` does."""

from __future__ import annotations

from typing import Any

import pytest

from gridwright.report.verdict import Verdict, judge
from gridwright.runs.judge import judge_library, judge_run
from gridwright.runs.records import LibraryRecord
from tests.fixtures.runs import built_runs


def verdict_of(name: str) -> Verdict:
    run = built_runs.RUNS[name]()
    return judge(run.run, run.iotest)


def judged(*libraries: dict[str, Any]) -> Verdict:
    """The verdict of a finished run, with `met` as the judge finds it."""
    records = [LibraryRecord.model_validate(library) for library in libraries]
    for record in records:
        record.met = judge_library(record)
    met = judge_run(records)
    iotest = built_runs.iotest_record([record.model_dump() for record in records], met)
    return judge(built_runs.run_record(met=met), iotest)


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
    assert judge(built_runs.run_record(met=True), iotest).kind == "interrupted"


def test_a_running_run_has_no_verdict() -> None:
    assert judge(built_runs.run_record("running"), None).headline == "Still running: no verdict"


def test_one_met_library_is_named_with_its_figures() -> None:
    verdict = judged(built_runs.library("data", 100, None, two(141.4, 162.9)))
    assert verdict.sentence == "data writes 141 and reads 163 MB/s per core against the 100 it requires."


def test_a_near_miss_shows_the_digits_that_tell() -> None:
    verdict = judged(built_runs.library("data", 125, None, two(140, 124.96)))
    assert verdict.kind == "missed"
    assert "reads 124.96 MB/s per core against the 125 it requires" in verdict.sentence


def test_several_misses_stand_together() -> None:
    verdict = judged(
        built_runs.library("data", 100, None, two(90, 91)), built_runs.library("work", 125, None, two(92, 93))
    )
    assert verdict.sentence == (
        "data writes 90.0 and reads 91.0 MB/s per core against the 100 it requires; "
        "work writes 92.0 and reads 93.0 MB/s per core against the 125."
    )


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
    assert (verdict.kind, verdict.libraries[0].word) == ("unproven", "no requirement")
    assert verdict.sentence == "The grid spec requires no rate of any library, so there is nothing to judge."


def test_another_check_that_failed_is_not_blamed_on_a_library() -> None:
    libraries = [built_runs.library("data", 100, True, two(140, 140))]
    verdict = judge(built_runs.run_record(met=False), built_runs.iotest_record(libraries, True))
    assert verdict.kind == "missed"
    assert verdict.sentence.startswith("No library misses its requirement, but another check")
