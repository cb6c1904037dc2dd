"""A run directory can be loaded whole, going on, killed, and says so when it is damaged."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from gridwright.atomic import write_atomically
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.runs.directory import (
    IOTEST_FILE,
    JOURNAL_FILE,
    SAMPLES_FILE,
    RunDirectory,
    list_runs,
    load_run,
)
from gridwright.runs.journal import Journal, read_journal
from gridwright.runs.place import RUN_FILE, find_run
from gridwright.runs.worker_process import is_alive, process_facts
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


# Finding the run that a user means.

NAMES = ("20260101T000000Z-demo", "20260102T000000Z-demo", "20260103T000000Z-lustre")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    directory = tmp_path / "runs"
    for name in NAMES:
        (directory / name).mkdir(parents=True)
        (directory / name / "run.json").write_text("{}")
    (directory / "20270101T000000Z-no-run").mkdir()
    return directory


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("last", NAMES[2]),
        (NAMES[0], NAMES[0]),
        ("lustre", NAMES[2]),
        ("20260102", NAMES[1]),
    ],
)
def test_a_name_a_part_of_it_or_last(runs: Path, typed: str, meant: str) -> None:
    assert find_run(runs, typed) == runs / meant


def test_a_directory_anywhere(runs: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (runs / NAMES[0]).rename(elsewhere)
    assert find_run(runs, str(elsewhere)) == elsewhere
    assert find_run(tmp_path / "nothing", str(elsewhere)) == elsewhere


@pytest.mark.parametrize("runs_directory", ["nothing", "empty"])
@pytest.mark.parametrize("typed", ["last", "demo"])
def test_where_there_are_no_runs_the_way_to_one_is_named(
    tmp_path: Path, runs_directory: str, typed: str
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(GridwrightError, match="no runs here") as raised:
        find_run(tmp_path / runs_directory, typed)
    assert raised.value.status == ExitStatus.INPUT
    assert raised.value.problems[0].where == str(tmp_path / runs_directory)
    assert "gridwright prove" in str(raised.value.problems[0].remedy)


def test_a_part_of_two_names_is_answered_with_both(runs: Path) -> None:
    with pytest.raises(GridwrightError, match="2 runs match 'demo'") as raised:
        find_run(runs, "demo")
    assert NAMES[0] in str(raised.value.problems[0].remedy)
    assert NAMES[1] in str(raised.value.problems[0].remedy)


@pytest.mark.parametrize(
    ("typed", "near"), [("20260103T000000Z-luster", NAMES[2]), ("20260101-demo", NAMES[0])]
)
def test_a_name_that_is_none_is_answered_with_the_nearest(runs: Path, typed: str, near: str) -> None:
    with pytest.raises(GridwrightError, match="there is no run") as raised:
        find_run(runs, typed)
    assert near in str(raised.value.problems[0].remedy)


@pytest.mark.parametrize("typed", ["x" * 5000, "a/" * 3000, ""], ids=["long", "deep", "empty"])
def test_no_name_is_too_strange_for_an_answer(runs: Path, typed: str) -> None:
    with pytest.raises(GridwrightError):
        find_run(runs, typed)


# Atomic files and the journal: a reader sees the old file or the whole new one.


def test_text_and_bytes_replace_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    write_atomically(file, "grün")
    assert file.read_text() == "grün"
    write_atomically(file, b"\0\1")
    assert file.read_bytes() == b"\0\1"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize("size", [1 << 15, (1 << 16) + 1, 1_234_567])
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_large_files_are_written_past_the_cache_where_that_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, where: str
) -> None:
    """Kernels before 6.6 refuse it in memory (tmpfs); what is written is the same."""
    told: list[int] = []
    real = fcntl.fcntl

    def heard(descriptor: int, command: int, flags: int = 0) -> int:
        told.append(flags)
        return real(descriptor, command, flags)

    monkeypatch.setattr(fcntl, "fcntl", heard)
    directory = tmp_path if where == "disk" else Path("/dev/shm")
    file = directory / f"gridwright-test-{os.getpid()}"
    try:
        content = os.urandom(size)
        write_atomically(file, content)
        assert file.read_bytes() == content
        assert any(flags & os.O_DIRECT for flags in told)
    finally:
        file.unlink()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("fsync", OSError(28, "No space left on device")),
        ("rename", OSError(28, "No space left on device")),
        ("fsync", KeyboardInterrupt()),
    ],
    ids=["full when flushed", "full when renamed", "interrupted in between"],
)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    file = tmp_path / "run.json"
    write_atomically(file, "old")

    def fail(*_: Any, **_named: Any) -> None:
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error), match=r"No space|^$"):
        write_atomically(file, "new")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_links_in_a_directory_of_somebody_else_are_replaced_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    (run / "report.html").symlink_to(outside)
    # The name that it had for a process, which can be guessed: each one leads out.
    for pid in (os.getpid(), os.getpid() + 1):
        (run / f".report.html.{pid}.part").symlink_to(outside)
    write_atomically(run / "report.html", "page")
    assert outside.read_text() == "mine"
    assert not (run / "report.html").is_symlink()
    assert (run / "report.html").read_text() == "page"


def test_a_directory_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "report.html", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_events_come_back_in_order(tmp_path: Path) -> None:
    events = [{"event": "sample", "n": number, "text": "zwei\nZeilen"} for number in range(5)]
    with Journal(tmp_path / "journal") as journal:
        for event in events:
            journal.append(event, durable=event["n"] == 4)
    assert list(read_journal(tmp_path / "journal")) == events


@pytest.mark.parametrize("cut", [1, 5, 17])
def test_a_line_torn_in_the_middle_ends_the_journal(tmp_path: Path, cut: int) -> None:
    lines = [json.dumps({"event": "sample", "n": number}) + "\n" for number in range(4)]
    torn = "".join(lines[:2]) + lines[2][:cut] + "\n" + lines[3]
    (tmp_path / "journal").write_text(torn)
    assert [event["n"] for event in read_journal(tmp_path / "journal")] == [0, 1]


def test_this_process_is_alive_and_a_reused_number_is_not_it() -> None:
    facts = process_facts()
    assert is_alive(facts) is True
    assert is_alive(facts | {"started": 1.0}) is False
    assert is_alive(facts | {"pid": 2**22 + 1}) is False
    assert is_alive(facts | {"boot_id": "another boot"}) is False
    assert is_alive(facts | {"host": "another host"}) is None


@pytest.mark.parametrize("pid", [None, "7", -1, 2**70, True])
def test_a_process_that_cannot_be_is_not_alive(pid: Any) -> None:
    assert is_alive(process_facts() | {"pid": pid}) is False
