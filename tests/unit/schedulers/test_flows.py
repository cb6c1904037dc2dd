"""The file of a flow: what is read, what is refused, and what of a run is done again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.schedulers.flows import (
    FlowSurroundings,
    JobFlow,
    flow_requests,
    last_run,
    load_flow,
    new_run,
    order,
    reusable_jobs,
)
from gridwright.schedulers.job import Job, JobState
from gridwright.schedulers.job_request import Dependency, parse_dependency

NIGHTLY = """\
flow: nightly
defaults: {queue: night, memory: 1 GiB, environment: {LEVEL: "1"}}
jobs:
  report: {command: [report], after: ["any:load", "any:alarm"], queue: batch}
  extract: {command: [sas, extract.sas], environment: {LEVEL: "2"}}
  clean: {command: [clean], array: 1-3, after: extract}
  score: {command: [score], array: 1-3, after: "each:clean", stdout: "out/{index}", directory: sub}
  load: {command: [load], after: [score, clean], gres: gpu:2, nice: 5}
  alarm: {command: [page], after: "not-ok:load"}
"""
HERE = FlowSurroundings(directory="/flows", environment={"PATH": "/bin"}, libraries={"data": "/d"})


def flow(tmp_path: Path, text: str = NIGHTLY) -> JobFlow:
    file = tmp_path / "flow.yaml"
    file.write_text(text)
    return load_flow(file)[0]


def test_each_job_stands_after_those_that_it_waits_for(tmp_path: Path) -> None:
    requests = flow_requests(flow(tmp_path), "nightly/1", HERE)
    names = [each.name for each in requests]
    assert sorted(names) == ["alarm", "clean", "extract", "load", "report", "score"]
    for number, each in enumerate(requests):
        for text in each.after:
            found = parse_dependency(text)
            assert isinstance(found, Dependency)
            assert found.earlier is not None and found.earlier < number
    by_name = dict(zip(names, requests, strict=True))
    assert by_name["score"].after == [f"each:#{names.index('clean')}"]
    assert by_name["load"].after == [f"#{names.index('score')}", f"#{names.index('clean')}"]
    assert by_name["alarm"].after == [f"not-ok:#{names.index('load')}"]


def test_a_job_has_the_defaults_unless_it_says_else(tmp_path: Path) -> None:
    by_name = {each.name: each for each in flow_requests(flow(tmp_path), "nightly/1", HERE)}
    assert (by_name["extract"].queue, by_name["report"].queue) == ("night", "batch")
    assert by_name["extract"].environment == {"PATH": "/bin", "LEVEL": "2"}
    assert by_name["load"].environment == {"PATH": "/bin", "LEVEL": "1"}
    assert {each.memory_bytes for each in by_name.values()} == {2**30}
    score, load = by_name["score"], by_name["load"]
    assert (score.directory, score.options.stdout) == ("/flows/sub", "/flows/sub/out/{index}")
    assert (list(load.options.gres), load.options.nice, load.options.flow) == (["gpu:2"], 5, "nightly/1")
    assert list(by_name["clean"].array or ()) == [1, 2, 3]


def test_everything_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(GridwrightError) as caught:
        flow(
            tmp_path,
            """\
flow: bad
defaults: {command: [x]}
jobs:
  a: {command: [x], after: b}
  b: {command: [x], after: [c, exrtact]}
  c: {command: [x], after: "not-ok:a"}
  d: {after: "each:a", begin: soon}
  e: {command: [x], after: e}
  f: {command: [x], after: "maybe:a"}
  extract: {command: [x], memory: 1QB, cpus: 3}
""",
        )
    told = {f"{(each.where or '').split(':')[1]} {each.what}" for each in caught.value.problems}
    assert told == {
        "2 command is each job's own",
        "4 jobs wait for each other in a circle: a → b → c → a",
        '5 the flow has no job "exrtact"',
        "7 command is missing",
        "7 each:a goes from element to element, and both have to be arrays",
        "7 'soon' is no time to begin at",
        "8 job e waits for itself",
        "9 'maybe' in 'maybe:a' is no way for a job to end",
        '10 "1QB": "QB" is not a unit',
        '10 there is no field "cpus" in extract',
    }


def job(name: str, number: int, state: JobState, run: str = "nightly/1", element: int | None = None) -> Job:
    identifier = f"{number}" if element is None else f"{number}_{element}"
    return Job(id=identifier, name=name, state=state, flow=run, submitted=float(number))


DONE, FAILED, CANCELLED = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED


def kept(tmp_path: Path, *jobs: Job) -> set[str]:
    made = flow(tmp_path)
    run = last_run(jobs, made.flow)
    assert run is not None
    return reusable_jobs(made, run)


def test_what_completed_stands_and_what_comes_after_a_failure_is_done_again(tmp_path: Path) -> None:
    assert kept(
        tmp_path,
        job("extract", 1, DONE),
        *(job("clean", 2, FAILED if element == 2 else DONE, element=element) for element in (1, 2, 3)),
        *(job("score", 3, CANCELLED if element == 2 else DONE, element=element) for element in (1, 2, 3)),
        job("load", 4, CANCELLED),
        job("alarm", 5, DONE),
        job("report", 6, DONE),
    ) == {"extract"}


def test_the_last_time_that_a_job_was_done_counts(tmp_path: Path) -> None:
    arrays = [job(name, number, DONE, element=1) for number, name in ((2, "clean"), (3, "score"))]
    again = [
        job("load", 4, FAILED),
        job("load", 9, DONE),
        job("alarm", 10, CANCELLED),
        job("report", 11, FAILED),
    ]
    assert kept(tmp_path, job("extract", 1, DONE), *arrays, *again) == {
        "extract",
        "clean",
        "score",
        "load",
        "alarm",
    }, "an alarm that was not raised is not needed"


def test_a_run_that_goes_on_is_not_resumed_and_the_last_run_counts(tmp_path: Path) -> None:
    old = [job("extract", 1, DONE, "nightly/1")]
    with pytest.raises(GridwrightError) as caught:
        kept(tmp_path, *old, job("extract", 7, JobState.RUNNING, "nightly/2"))
    assert "extract (7)" in str(caught.value)
    assert kept(tmp_path, *old, job("extract", 7, FAILED, "nightly/2")) == set()
    assert last_run(old, "weekly") is None
    assert new_run("nightly") != new_run("nightly")


def test_a_flow_of_thousands_is_put_in_order_in_no_time(tmp_path: Path) -> None:
    lines = [f"  j{n}: {{command: [x]{f', after: j{n - 1}' if n else ''}}}" for n in range(1500)]
    made = flow(tmp_path, "flow: long\njobs:\n" + "\n".join(lines))
    assert order(made) == [f"j{n}" for n in range(1500)]
