"""One verdict: run.json, exit status, headline and JSON of a run never contradict each other."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import ExitStatus
from gridwright.report.run_summary import summarize
from gridwright.report.verdict import verdict_in_words
from gridwright.runs.directory import LoadedRun, RunDirectory, load_run
from gridwright.runs.records import NodeCheck
from gridwright.runs.verdict import exit_status, make_verdict, verdict_on
from tests.fixtures.runs import built_runs
from tests.support.records import launch_record, workload_record

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
