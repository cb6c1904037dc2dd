"""A proof killed at any moment: its run loads, says interrupted, and holds what was measured."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gridwright.runs.directory import JOURNAL_FILE, load_run
from gridwright.runs.journal import read_journal
from tests.support.command import Command, wait_until

SEED = random.SystemRandom().randrange(10**6)
WHOLE_S = 4.5
"""About how long the proof would take from its first event on."""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    for name in ("data", "work"):
        (tmp_path / "disk" / name).mkdir(parents=True)
    file = tmp_path / "grid.yaml"
    file.write_text(
        f"name: doomed\nfilesystems:\n  disk: {{type: local, path: {tmp_path}/disk}}\n"
        "libraries:\n  data: {filesystem: disk, requires: 1 kB/s/core}\n  work: {filesystem: disk}\n"
    )
    return file


def whole_phases(run: Path) -> int:
    """Results that the journal holds; none are left once the run has ended."""
    journal = run / JOURNAL_FILE
    return sum(event["event"] == "result" for event in read_journal(journal)) if journal.exists() else 0


def shown_by(gridwright: Command | None, run: Path, told: str) -> Any:
    """What `runs show --json` prints; without the command, as the function it calls loads it."""
    if gridwright is not None:
        shown = gridwright("runs", "show", run, "--json")
        assert shown.status == 0, f"{told}: {shown.err}"
        return shown.json
    loaded = load_run(run)
    iotest = loaded.iotest.model_dump(mode="json", by_alias=True) if loaded.iotest else None
    return {"run": loaded.run.model_dump(mode="json", by_alias=True), "iotest": iotest}


def check(document: Any, run: Path, results: int) -> int:
    """Hold a killed run to what it promises; returns how many whole phases it has."""
    assert document["run"]["status"] == "interrupted"
    assert document["run"]["met"] is None
    if document["iotest"] is None:
        assert results == 0
        return 0
    assert document["iotest"]["status"] == "interrupted"
    phases = [phase for library in document["iotest"]["libraries"] for phase in library["phases"]]
    whole = [phase for phase in phases if phase["status"] == "complete"]
    assert len(whole) == results
    for phase in whole:
        assert phase["ops_per_s" if phase["op"] == "metadata" else "rate_last_bytes_per_s"] > 0
    assert len(phases) - len(whole) <= 1, "only the phase that was cut off is not whole"
    loaded = load_run(run)
    measured = {
        (library["library"], phase["op"])
        for library in document["iotest"]["libraries"]
        for phase in library["phases"]
        if phase["status"] == "complete"
    }
    assert {(row.library, row.op) for row in loaded.samples} >= measured
    return len(whole)


@pytest.mark.parametrize("moments", [4, pytest.param(10, marks=pytest.mark.thorough)])
def test_random_moments(gridwright: Command, spec: Path, moments: int) -> None:
    chance = random.Random(SEED)  # noqa: S311 - moments, not secrets
    found = []
    # One in each part of the time, so that they do not fall together.
    for part in range(moments):
        moment = (part + chance.random()) / moments * WHOLE_S
        already = set(gridwright.runs.glob("[!.]*/run.json"))
        flags = ("--skip", "workload", "--seconds", "0.4", "--phases", "write,read,metadata")
        with gridwright.start("prove", spec, *flags) as running:
            run_file = wait_until(
                lambda already=already: next(  # type: ignore[misc]
                    iter(set(gridwright.runs.glob("[!.]*/run.json")) - already), None
                ),
                seconds=30,
                what="a run directory",
                last=lambda running=running: running.process.poll(),  # type: ignore[misc]
            )
            time.sleep(moment)
            ended = running.process.poll() is not None
            running.signal(signal.SIGKILL)
            running.process.wait(10)
        run = run_file.parent
        told = f"seed {SEED}, moment {moment:.2f} s, {run}"
        results = whole_phases(run)
        document = shown_by(gridwright if part % 3 == 0 else None, run, told)
        if ended or document["run"]["finished"]:
            assert document["run"]["status"] == "complete", told
            continue
        found.append(check(document, run, results))
        if part % 3 == 0:
            report = gridwright("report", run)
            assert report.status == 0, f"{told}: {report.err}"
            assert "interrupted" in (run / "report.html").read_text()
    assert len(found) >= moments // 2, f"seed {SEED}: most proofs must be killed before they end: {found}"
    assert max(found) > 0, f"seed {SEED}: some must be killed after a whole phase: {found}"
    wait_until(
        lambda: True if not [*spec.parent.glob("disk/*/.*")] else None,
        seconds=30,
        what="libraries without scratch directories",
        last=lambda: [*spec.parent.glob("disk/*/.*")],
    )


def test_a_killed_run_is_listed_shown_and_reported(gridwright: Command, spec: Path) -> None:
    flags = ("--skip", "workload", "--phases", "write,metadata", "--seconds", "5")
    with gridwright.start("prove", spec, *flags) as running:
        running.says("data: metadata (")
        wait_until(
            lambda: True if len(load_run(gridwright.only_run()).samples) >= 6 else None,
            seconds=30,
            what="a sample of the metadata phase",
            last=lambda: load_run(gridwright.only_run()).samples[-1:],
        )
        running.signal(signal.SIGKILL)
        running.process.wait(10)
    run = gridwright.only_run()
    (entry,) = gridwright("runs", "list", "--json").json["runs"]
    assert (entry["run"], entry["status"], entry["met"]) == (str(run), "interrupted", None)
    shown = gridwright("runs", "show")
    assert shown.status == 0
    assert "interrupted" in shown.out
    assert "metadata (interrupted)" in shown.out
    report = gridwright("report")
    assert report.status == 0, report.err
    assert report.out == f"report: {run}/report.html\n"
    page = (run / "report.html").read_text()
    assert "interrupted" in page
    assert json.loads((run / "run.json").read_text())["status"] == "running", "showing changes nothing"
