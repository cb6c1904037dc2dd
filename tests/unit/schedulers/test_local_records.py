"""Records of jobs: what a guard wrote is read whole or not at all, and says how a job ended."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.schedulers.job import JobRequest, JobState
from gridwright.schedulers.local.job_table import JobRow, check_requests, insert, read_jobs, read_rows
from gridwright.schedulers.local.outcome import (
    GUARD_KILLED,
    SLOT,
    EndCause,
    ExitRecord,
    ExitRecords,
    JobOutcome,
    JobPhase,
    RunningJob,
    boot_identity,
    decode,
    outcome_of,
    read_trouble,
)
from gridwright.schedulers.local.policy import MachineResources, QueueLimits
from gridwright.schedulers.local.processes import Process
from gridwright.schedulers.local.running_jobs import lost_outcome, record_end
from gridwright.schedulers.local.store import CHANGES, FILE, JobKey, Store

SITE = MachineResources(4, 8 << 30, {"batch": QueueLimits()})
RECORD = ExitRecord(
    key=JobKey(1),
    attempt=0,
    phase=JobPhase.OVER,
    cause=EndCause.ITSELF,
    guard=Process(4711, 1),
    wait_status=0,
    launch_status=0,
    errno=0,
    excess_bytes=0,
    peak_bytes=5 << 20,
    started=1000.0,
    ended=1002.5,
    began=10.0,
    user_s=1.5,
    system_s=0.25,
    boot=boot_identity(),
    text="",
)
TERM, STATUS_7 = int(signal.SIGTERM), 7 << 8


def submitted(store: Store, *, restart: bool = False) -> JobRow:
    """A job that the store says to be running."""
    request = JobRequest(
        command=["true"],
        directory="/",
        environment={},
        restart=restart,
        time_limit_s=9.0,
        memory_bytes=1 << 30,
    )
    with store.transaction():
        insert(store, check_requests([request], SITE, store), SITE)
        store.change("UPDATE tasks SET state='running', started=999.0")
    return read_rows(store, "running")[-1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.mark.parametrize(
    ("fields", "cancel", "state", "reason"),
    [
        ({}, None, "completed", None),
        ({"wait_status": STATUS_7}, None, "failed", "exit status 7"),
        ({"wait_status": 11}, None, "failed", "ended by signal 11 (SIGSEGV)"),
        ({"wait_status": 64}, None, "failed", "ended by signal 64 (SIGRTMAX)"),
        ({"cause": EndCause.TIME, "wait_status": TERM}, None, "timed-out", "ran longer than 9 s"),
        (
            {"cause": EndCause.ORDERED, "wait_status": TERM},
            "cancelled by eva",
            "cancelled",
            "cancelled by eva",
        ),
        (
            {"cause": EndCause.ORDERED, "wait_status": TERM},
            None,
            "node-failed",
            "its guard was told to end (SIGTERM)",
        ),
        (
            {"cause": EndCause.MEMORY, "wait_status": 9, "excess_bytes": 3 << 30},
            None,
            "out-of-memory",
            "used 3 GiB of memory, and may use 1 GiB",
        ),
        (
            {"cause": EndCause.MEMORY, "wait_status": 9},
            None,
            "out-of-memory",
            "needed more memory than the 1 GiB that it may use",
        ),
        (
            {"wait_status": None, "launch_status": 127, "text": "cannot be started: x: No such file"},
            None,
            "failed",
            "cannot be started: x: No such file",
        ),
        (
            {"text": "processes that cannot be ended: 7, 8"},
            None,
            "completed",
            "processes that cannot be ended: 7, 8",
        ),
        ({}, "cancelled by eva", "completed", None),
    ],
)
def test_a_record_says_how_a_job_ended(
    store: Store, fields: dict[str, object], cancel: str | None, state: str, reason: str | None
) -> None:
    found = outcome_of(replace(RECORD, **fields), submitted(store), cancel)  # type: ignore[arg-type]
    assert (found.state.value, found.reason) == (state, reason)
    assert (found.user_s, found.system_s, found.peak_bytes) == (1.5, 0.25, 5 << 20)


def test_ends_are_kept_with_what_a_job_used(store: Store) -> None:
    live = RunningJob(submitted(store), JobKey(1), 0, slot=1, directories=[b"/w/left"])
    live.outcome = outcome_of(replace(RECORD, wait_status=STATUS_7), live.row, None)
    with store.transaction():
        assert record_end(store, live) is None
    (job,) = read_jobs(store, None)
    assert (job.state, job.exit_status, job.started, job.ended) == (JobState.FAILED, 7, 1000.0, 1002.5)
    assert job.reason == "exit status 7; left: /w/left"
    assert store.one("SELECT user_s, system_s, peak_bytes FROM tasks") == (1.5, 0.25, 5 << 20)


@pytest.mark.parametrize(
    ("restart", "cancel", "state", "restarts"),
    [(True, None, "waiting", 1), (False, None, "node-failed", 0), (True, "cancelled by eva", "cancelled", 0)],
)
def test_an_interrupted_job_waits_again_if_it_is_to(
    store: Store, restart: bool, cancel: str | None, state: str, restarts: int
) -> None:
    live = RunningJob(submitted(store, restart=restart), JobKey(1), 0, slot=1, directories=[], cancel=cancel)
    lost = replace(RECORD, wait_status=None, phase=JobPhase.RUNNING)
    live.outcome = lost_outcome(live, lost, hangs=False)
    with store.transaction():
        assert record_end(store, live) == (1 if state == "waiting" else None)
    (job,) = read_jobs(store, None)
    assert (job.state.value, job.restarts) == (state, restarts)
    assert job.reason == {"node-failed": GUARD_KILLED, "cancelled": cancel}.get(state)


def test_what_hangs_in_the_kernel_is_not_started_again(store: Store) -> None:
    live = RunningJob(submitted(store, restart=True), JobKey(1), 0, slot=1, directories=[])
    lost = replace(RECORD, wait_status=None, phase=JobPhase.RUNNING)
    live.outcome = lost_outcome(live, lost, hangs=True)
    with store.transaction():
        assert record_end(store, live) is None
    assert read_jobs(store, None)[0].reason == f"{GUARD_KILLED}, and its processes cannot be ended"


def test_one_that_was_cancelled_as_it_was_refused_does_not_wait_again(store: Store) -> None:
    """The command that cancelled it wrote to the store while the runner had it started."""
    live = RunningJob(submitted(store), JobKey(1), 0, slot=1, directories=[])
    with store.transaction():
        store.change("UPDATE tasks SET cancel='cancelled by eva'")
        assert record_end(store, live) is None
    (job,) = read_jobs(store, None)
    assert (job.state, job.reason) == (JobState.CANCELLED, "cancelled by eva")


def test_what_was_not_started_is_no_attempt(store: Store) -> None:
    live = RunningJob(submitted(store), JobKey(1), 0, slot=1, directories=[])
    with store.transaction():
        assert record_end(store, live) == 0
    assert [(job.state, job.restarts) for job in read_jobs(store, None)] == [(JobState.WAITING, 0)]
    assert JobOutcome(JobState.NODE_FAILED, is_final=True).is_interrupted is False


def test_the_room_of_records_is_taken_in_advance(tmp_path: Path) -> None:
    records = ExitRecords(tmp_path)
    records.reserve(100)
    about = os.fstat(records.file)
    assert about.st_size >= 101 * SLOT
    assert about.st_blocks * 512 >= about.st_size, "a hole takes no room"
    assert records.read_all() == {}


def test_a_record_that_is_not_whole_is_none(tmp_path: Path) -> None:
    assert decode(b"") is None
    assert decode(bytes(SLOT)) is None
    assert decode(b"GWEXIT\0\x01".ljust(SLOT, b"\1")) is None


def test_trouble_is_told_and_forgotten(tmp_path: Path) -> None:
    assert read_trouble(tmp_path).note == ""
    records = ExitRecords(tmp_path)
    assert read_trouble(tmp_path).note == ""
    records.put_note("the state disk /é is full")
    assert read_trouble(tmp_path).note == "the state disk /é is full"
    records.put_note("")
    assert read_trouble(tmp_path).note == ""


def test_a_store_of_the_release_before_is_taken_over(store: Store, tmp_path: Path) -> None:
    """Its jobs that had ended, and whose directories were being removed, have their state."""
    submitted(store)
    submitted(store)
    store.close()
    with sqlite3.connect(tmp_path / FILE) as old:
        for table, column in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", CHANGES[1]):
            old.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        old.execute("ALTER TABLE tasks ADD COLUMN outcome TEXT")
        old.execute("UPDATE tasks SET outcome='completed' WHERE job=1")
        old.execute("PRAGMA user_version=1")
    again = Store(tmp_path)
    assert [job.state.value for job in read_jobs(again, None)] == ["completed", "running"]
    live = RunningJob(read_rows(again, "running")[0], JobKey(2), 0, slot=1, directories=[])
    live.outcome = outcome_of(replace(RECORD, key=JobKey(2)), live.row, None)
    with again.transaction():
        assert record_end(again, live) is None
    assert Store(tmp_path).one("SELECT user_s FROM tasks WHERE job=2") == (1.5,)
