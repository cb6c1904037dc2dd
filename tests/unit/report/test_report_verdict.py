"""The verdict in words, and that it judges as `gridwright.runs.judge` does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gridwright.messages import plain, typed
from gridwright.report.verdict import Verdict, verdict_in_words
from gridwright.runs.judge import judge_library, judge_run, repeated_figures
from gridwright.runs.records import LibraryRecord
from tests.fixtures.runs import built_runs


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
