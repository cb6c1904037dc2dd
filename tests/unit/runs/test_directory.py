"""A run directory can be loaded whole, going on, killed, and says so when it is damaged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.runs.directory import (
    IOTEST_FILE,
    JOURNAL_FILE,
    SAMPLES_FILE,
    RunDirectory,
    list_runs,
    load_run,
)
from gridwright.runs.place import RUN_FILE
from tests.support.command import Command
from tests.support.records import (
    finished_run,
    library_event,
    measured_run,
    phase_event,
    result_event,
    sample_event,
    take,
)


def killed(run: Path) -> Path:
    """Make the run look as if its process had been killed."""
    record = json.loads((run / RUN_FILE).read_text())
    record["process"]["pid"] = 2**22 + 1
    (run / RUN_FILE).write_text(json.dumps(record))
    return run


def change(file: Path, **own: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | own))


def test_a_finished_run_is_loaded_as_it_was_measured(tmp_path: Path) -> None:
    path = finished_run(tmp_path / "runs")
    loaded = load_run(path)
    assert loaded.run.status == "complete"
    assert loaded.run.met is True
    assert loaded.run.finished is not None
    assert loaded.iotest is not None
    assert [phase.op for phase in loaded.iotest.libraries[0].phases] == ["write", "read"]
    assert len(loaded.samples) == 10
    assert {row.node for row in loaded.samples} == {loaded.run.host.hostname}
    assert not (path / JOURNAL_FILE).exists()


def test_its_name_is_the_time_in_utc_and_what_was_tested(tmp_path: Path) -> None:
    path = finished_run(tmp_path / "runs", "my grid/../x")
    stamp, _, name = path.name.partition("-")
    assert len(stamp) == len("20260101T000000Z")
    assert name == "my-grid-..-x"
    assert path.parent == tmp_path / "runs"


def test_two_runs_in_one_second_have_directories_of_their_own(tmp_path: Path) -> None:
    paths = {finished_run(tmp_path / "runs") for _ in range(3)}
    assert len(paths) == 3
    assert len(list_runs(tmp_path / "runs")) == 3


def test_a_run_that_goes_on_says_so_and_shows_what_it_has(tmp_path: Path) -> None:
    run = measured_run(tmp_path / "runs")
    loaded = load_run(run.path)
    assert loaded.run.status == "running"
    assert loaded.iotest is not None
    assert len(loaded.iotest.libraries[0].phases) == 2


def test_a_killed_run_is_interrupted_and_keeps_its_phases_and_samples(tmp_path: Path) -> None:
    run = measured_run(tmp_path / "runs")
    take(run, library_event("work"))
    take(run, phase_event("write"))
    take(run, sample_event("write", 1, written=7_000_000))
    take(run, sample_event("write", 2, written=5_000_000))
    loaded = load_run(killed(run.path))
    assert loaded.run.status == "interrupted"
    assert loaded.run.met is None
    assert loaded.iotest is not None
    assert loaded.iotest.status == "interrupted"
    first, second = loaded.iotest.libraries
    assert [phase.status for phase in first.phases] == ["complete", "complete"]
    (open_phase,) = second.phases
    assert open_phase.status == "interrupted"
    assert (open_phase.bytes, open_phase.seconds_last) == (12_000_000, 2.0)
    assert open_phase.rate_last_bytes_per_s is None, "a write without its fsync has no rate"
    assert open_phase.cpu_user_s is None
    assert len(loaded.samples) == 12


def test_a_read_that_was_cut_off_has_the_rate_of_its_samples(tmp_path: Path) -> None:
    run = measured_run(tmp_path / "runs")
    take(run, phase_event("read"))
    take(run, sample_event("read", 1, read=30_000_000))
    take(run, sample_event("read", 2, read=10_000_000))
    loaded = load_run(killed(run.path))
    assert loaded.iotest is not None
    assert loaded.iotest.libraries[0].phases[-1].rate_last_bytes_per_s == 20_000_000
    assert loaded.iotest.libraries[0].phases[-1].per_core_bytes_per_s is None


def test_a_run_killed_before_its_first_event_has_no_result(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "runs", "demo", command=["x"], what=["iotest"])
    for journal in (True, False):
        if not journal:
            (run.path / JOURNAL_FILE).unlink()
        loaded = load_run(killed(run.path))
        assert (loaded.run.status, loaded.iotest, loaded.samples) == ("interrupted", None, [])


def test_every_cut_of_the_journal_loads(tmp_path: Path) -> None:
    run = measured_run(tmp_path / "runs")
    journal = (run.path / JOURNAL_FILE).read_bytes()
    killed(run.path)
    phases = samples = 0
    for length in [*range(0, len(journal), 151), len(journal)]:
        (run.path / JOURNAL_FILE).write_bytes(journal[:length])
        loaded = load_run(run.path)
        libraries = loaded.iotest.libraries if loaded.iotest else []
        whole = sum(phase.status == "complete" for library in libraries for phase in library.phases)
        assert whole >= phases, "a longer journal never holds less"
        assert len(loaded.samples) >= samples
        phases, samples = whole, len(loaded.samples)
    assert (phases, samples) == (2, 10)


@pytest.mark.parametrize("junk", [b"\0" * 100, b'{"event":"resu', b"[1]\n", b"3\n", b"\xff\xfe\n"])
def test_junk_at_the_end_of_a_journal_hides_nothing_before_it(tmp_path: Path, junk: bytes) -> None:
    run = measured_run(tmp_path / "runs")
    with (run.path / JOURNAL_FILE).open("ab") as journal:
        journal.write(junk)
    loaded = load_run(killed(run.path))
    assert loaded.iotest is not None
    assert len(loaded.iotest.libraries[0].phases) == 2


def test_a_run_killed_while_its_last_files_were_written_is_still_interrupted(tmp_path: Path) -> None:
    run = measured_run(tmp_path / "runs")
    shutil.copytree(run.path, tmp_path / "kept")
    run.finish("complete")
    for name in (IOTEST_FILE, SAMPLES_FILE):
        shutil.copy(run.path / name, tmp_path / "kept" / name)
    loaded = load_run(killed(tmp_path / "kept"))
    assert loaded.run.status == "interrupted"
    assert len(loaded.samples) == 10


def test_a_run_of_another_host_is_not_called_interrupted(tmp_path: Path) -> None:
    run = measured_run(tmp_path / "runs")
    record = json.loads((run.path / RUN_FILE).read_text())
    change(run.path / RUN_FILE, process=record["process"] | {"host": "elsewhere"})
    assert load_run(run.path).run.status == "running"


def test_the_last_moment_of_a_run_is_not_mistaken_for_its_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run.json was read as running; before its journal is read, it has ended and dropped it."""
    run = measured_run(tmp_path / "runs")
    killed(run.path)
    finished = measured_run(tmp_path / "other")
    finished.finish("complete")

    def end_first(_process: dict[str, object]) -> bool:
        for name in (IOTEST_FILE, SAMPLES_FILE, RUN_FILE):
            shutil.copy(finished.path / name, run.path / name)
        (run.path / JOURNAL_FILE).unlink(missing_ok=True)
        return False

    monkeypatch.setattr("gridwright.runs.directory.is_alive", end_first)
    loaded = load_run(run.path)
    assert loaded.run.status == "complete"
    assert loaded.iotest is not None


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (RUN_FILE, b""),
        (RUN_FILE, b"{"),
        (RUN_FILE, b"\0\0\0"),
        (RUN_FILE, b'{"schema": 1}'),
        (IOTEST_FILE, b""),
        (IOTEST_FILE, b"[]"),
        (IOTEST_FILE, b'{"schema": 1, "libraries": 3}'),
        (SAMPLES_FILE, b""),
        (SAMPLES_FILE, b"PAR1"),
        (SAMPLES_FILE, b"PAR1 garbage in the middle PAR1"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, file: str, content: bytes) -> None:
    path = finished_run(tmp_path / "runs")
    (path / file).write_bytes(content)
    with pytest.raises(GridwrightError) as raised:
        load_run(path)
    assert raised.value.status == ExitStatus.ENVIRONMENT
    (problem,) = raised.value.problems
    assert problem.where == str(path / file)
    assert "damaged" in problem.what
    assert "None" not in problem.what


@pytest.mark.parametrize(
    "line",
    [
        {"event": "library"},
        {"event": "result", "phase": {"op": "write"}},
        {"event": "result"},
        {"event": "sample", "op": "write"},
        {"event": "finding", "level": "fatal", "name": "x", "text": "x", "remedy": "x"},
    ],
)
def test_a_journal_with_events_that_are_none_is_damaged(tmp_path: Path, line: dict[str, Any]) -> None:
    run = measured_run(tmp_path / "runs")
    with (run.path / JOURNAL_FILE).open("a") as journal:
        journal.write(json.dumps(phase_event("write")) + "\n" + json.dumps(line) + "\n")
    killed(run.path)
    try:
        load_run(run.path)
    except GridwrightError as error:
        assert error.status == ExitStatus.ENVIRONMENT
        assert error.problems[0].where == str(run.path / JOURNAL_FILE)


def test_what_is_no_run_is_the_user_s_mistake(tmp_path: Path) -> None:
    with pytest.raises(GridwrightError, match="no run directory") as raised:
        load_run(tmp_path)
    assert raised.value.status == ExitStatus.INPUT


def test_a_list_leaves_out_what_is_damaged_and_what_is_no_run(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    whole = finished_run(runs, "whole")
    damaged = finished_run(runs, "damaged")
    (damaged / RUN_FILE).write_text("{")
    (runs / "notes").mkdir()
    assert [entry.path for entry in list_runs(runs)] == [whole]
    assert list_runs(tmp_path / "nowhere") == []


def test_keys_of_a_newer_release_are_kept(tmp_path: Path) -> None:
    path = finished_run(tmp_path / "runs")
    change(path / RUN_FILE, schema=2, weather="fine")
    loaded = load_run(path)
    assert loaded.run.schema_ == 2
    assert loaded.run.model_dump()["weather"] == "fine"


def test_results_that_cannot_be_written_leave_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = measured_run(tmp_path / "runs")

    def full(path: Path, *_: object, **_named: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("gridwright.runs.directory.write_samples", full)
    with pytest.raises(GridwrightError, match="No space left") as raised:
        run.finish("complete")
    assert raised.value.status == ExitStatus.ENVIRONMENT
    loaded = load_run(killed(run.path))
    assert loaded.iotest is not None
    assert len(loaded.iotest.libraries[0].phases) == 2


def test_progress_is_shown_but_not_recorded(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "runs", "demo", command=["x"], what=["iotest"])
    size = os.path.getsize(run.path / JOURNAL_FILE)  # noqa: PTH202 - one line, no Path needed
    take(
        run,
        {"event": "progress", "op": "write", "syncing": False, "elapsed_s": 1.0}
        | {"read_bytes": 0, "written_bytes": 0, "operations": 0},
    )
    take(run, library_event())
    lines = (run.path / JOURNAL_FILE).read_bytes()[size:].splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["library"]


def test_a_second_result_of_a_phase_is_a_second_phase(tmp_path: Path) -> None:
    run = measured_run(tmp_path / "runs")
    take(run, phase_event("write"))
    take(run, result_event("write", per_core=1e6))
    record = run.finish("complete").iotest
    assert record is not None
    assert [phase.op for phase in record.libraries[0].phases] == ["write", "read", "write"]


def test_no_text_keeps_a_run_from_its_results(tmp_path: Path) -> None:
    run = measured_run(tmp_path / "runs")
    load = {"name": "n\ud800", "level": "info", "text": "t\udc80", "remedy": "\ud800", "nodes": ["\ud800"]}
    take(run, {"event": "check", **load, "found": "\ud800", "expected": "", "why": ""})
    run.finish("complete")
    assert load_run(run.path).run.status == "complete"


def test_a_damaged_run_is_named_and_the_others_are_listed(tmp_path: Path, gridwright: Command) -> None:
    run = measured_run(tmp_path / "runs")
    run.finish("complete")
    (run.path / RUN_FILE).write_text("{")
    done = gridwright("runs", "list", "--runs", tmp_path / "runs")
    assert done.status == 0
    assert str(run.path / RUN_FILE) in done.err
    assert "no runs that can be read" in done.err
