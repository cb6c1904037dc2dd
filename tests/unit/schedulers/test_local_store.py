"""The store of the local scheduler: requests are checked and kept byte for byte, and final states stay."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.schedulers.job import JobOptions, JobRequest, JobState
from gridwright.schedulers.local.job_table import (
    check_requests,
    find_keys,
    insert,
    job_environment,
    private_directories,
    queue_snapshot,
    read_jobs,
    read_rows,
    unmet_dependencies,
)
from gridwright.schedulers.local.policy import MachineResources, QueueLimits
from gridwright.schedulers.local.runner import RETENTION_S, delete_old_jobs
from gridwright.schedulers.local.store import (
    CHANGES,
    FILE,
    JobKey,
    Store,
    pack_mapping,
    parse_identifier,
    read_token,
    token,
    unpack_mapping,
)
from gridwright.schedulers.local.waiting_jobs import WaitingJobs, explain, reasons
from tests.support.examples import examples

GIB = 2**30
SITE = MachineResources(4, 8 * GIB, {"batch": QueueLimits(), "night": QueueLimits(10, 2, 3600.0)})


def request(*command: str, **fields: Any) -> JobRequest:
    return JobRequest(**({"command": command or ("true",), "directory": "/", "environment": {}} | fields))


def submit(store: Store, *requests: JobRequest) -> list[str]:
    with store.transaction():
        return insert(store, check_requests(requests, SITE, store), SITE)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "state")


def test_numbers_count_up_and_an_array_has_one(store: Store) -> None:
    assert submit(store, request(), request(array=[1, 2, 3]), request()) == ["1", "2", "3"]
    assert [job.id for job in read_jobs(store, None)] == ["1", "2_1", "2_2", "2_3", "3"]
    assert [job.id for job in read_jobs(store, find_keys(store, ["2"]))] == ["2_1", "2_2", "2_3"]
    assert [job.id for job in read_jobs(store, find_keys(store, ["2_3", "1"]))] == ["1", "2_3"]


def test_what_is_not_asked_for_is_filled_in(store: Store) -> None:
    submit(store, request("/usr/bin/env", cores=1), request(queue="night"))
    first, second = read_jobs(store, None)
    assert (first.name, first.queue, first.memory_bytes) == ("env", "batch", 2 * GIB)
    (row,) = [row for row in read_rows(store, "waiting") if row.id == 2]
    assert (second.queue, row.time_limit_s, row.priority) == ("night", 3600.0, 10)


def test_all_that_is_wrong_is_said_at_once(store: Store) -> None:
    wrong = request(
        cores=9, memory_bytes=9 * GIB, after=["7", "x"], array=[3, 3], queue="nigth", node="elsewhere"
    )
    with pytest.raises(GridwrightError) as caught:
        submit(store, wrong)
    assert caught.value.status is ExitStatus.INPUT
    places = [problem.where for problem in caught.value.problems]
    assert sorted(places, key=str) == ["after", "after", "array", "cores", "memory", "node", "queue"]
    (queue,) = [problem for problem in caught.value.problems if problem.where == "queue"]
    assert "did you mean night?" in str(queue.remedy)
    assert read_jobs(store, None) == []


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"command": ()}, "there is no command"),
        ({"command": ("true", "a\0b")}, "NUL"),
        ({"environment": {"A": "\0"}}, "NUL"),
        ({"environment": {"A=B": "c"}}, "is no name of a variable"),
        ({"array": []}, "no element"),
        ({"array": [-1]}, "-1 is no index"),
        ({"time_limit_s": 0.0}, "a time of 0 s"),
        ({"queue": "night", "time_limit_s": 7200.0}, "queue night gives a job 3600 s"),
        ({"queue": "night", "cores": 3}, "queue night gives its jobs 2"),
        ({"cores": 0}, "0 cores"),
    ],
)
def test_what_cannot_be_run_is_refused(store: Store, fields: dict[str, Any], what: str) -> None:
    with pytest.raises(GridwrightError, match=what):
        submit(store, request(**fields))


def test_requests_are_taken_all_or_none(store: Store) -> None:
    with pytest.raises(GridwrightError):
        submit(store, request(), request(cores=99))
    assert read_jobs(store, None) == []


texts = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])).map(
    lambda text: text
) | st.binary().filter(lambda data: b"\0" not in data).map(
    lambda data: data.decode("utf-8", "surrogateescape")
)


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(texts, min_size=1, max_size=5),
    st.dictionaries(texts.map(lambda t: "V" + t.replace("=", "_")), texts),
)
def test_arguments_and_environment_are_kept_byte_for_byte(
    store: Store, arguments: list[str], environment: dict[str, str]
) -> None:
    import os

    (identifier,) = submit(store, request("program", *arguments, environment=environment))
    (row,) = read_rows(store, "waiting", beyond=int(identifier) - 1)
    assert list(row.command) == [b"program", *map(os.fsencode, arguments)]
    assert row.environment == {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}


@given(st.dictionaries(texts, texts))
def test_a_mapping_comes_back(values: dict[str, str]) -> None:
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in values.items()}
    assert unpack_mapping(pack_mapping(encoded)) == encoded


def test_a_job_gets_its_own_variables_and_not_those_of_the_one_that_submits_it(store: Store) -> None:
    outer = {"GRIDWRIGHT_WORK": "/outer", "GRIDWRIGHT_ARRAY_INDEX": "9", "GRIDWRIGHT_RUNS": "/runs", "A": "1"}
    submit(store, request(environment=outer, libraries={"data": "/d", "work": "/w"}, memory_bytes=GIB))
    (row,) = read_rows(store, "waiting")
    found = job_environment(store, row, JobKey(1), 0)
    (work,) = private_directories(store, row, JobKey(1), 0)
    named = {name.decode(): value.decode() for name, value in found.items()}
    assert named.pop("GRIDWRIGHT_JOB_TOKEN")
    assert named == {
        "A": "1",
        "GRIDWRIGHT_RUNS": "/runs",
        "GRIDWRIGHT_DATA": "/d",
        "GRIDWRIGHT_WORK": work.decode(),
        "GRIDWRIGHT_JOB_ID": "1",
        "GRIDWRIGHT_CORES": "1",
        "GRIDWRIGHT_MEMORY_BYTES": str(GIB),
    }
    assert work.startswith(f"/w/.gridwright-job-1-{store.identity}-".encode())
    assert store.secret not in ("", store.identity)
    store.secret, own = "another", work
    assert private_directories(store, row, JobKey(1), 0) != [own], "names are no function of what is known"
    assert private_directories(store, row, JobKey(1), 1) != [work]


def test_a_final_state_stays(store: Store) -> None:
    submit(store, request())
    store.change("UPDATE tasks SET state='running'")
    store.change("UPDATE tasks SET state='completed'")
    for state in ("waiting", "running", "failed"):
        with pytest.raises(sqlite3.IntegrityError, match="final"):
            store.change("UPDATE tasks SET state=?", (state,))
    assert [job.state for job in read_jobs(store, None)] == [JobState.COMPLETED]


def test_many_processes_may_make_the_store_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from gridwright.schedulers.local.store import Store;"
        "print(Store(Path(sys.argv[1])).identity)"
    )
    command = [sys.executable, "-P", "-c", code, str(tmp_path / "state")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    identities = {process.communicate(timeout=60)[0] for process in processes}
    assert len(identities) == 1
    assert [process.returncode for process in processes] == [0] * 6


def test_nobody_else_reads_the_environments(store: Store) -> None:
    submit(store, request(environment={"SECRET": "x"}))
    modes = {
        path.name: path.stat().st_mode & 0o777 for path in store.state.iterdir() if path.name.startswith(FILE)
    }
    assert set(modes.values()) == {0o600}
    assert store.state.stat().st_mode & 0o777 == 0o700


def test_a_store_of_another_release_is_left_alone(tmp_path: Path) -> None:
    Store(tmp_path).change("PRAGMA user_version=99")
    with pytest.raises(GridwrightError, match="another release") as caught:
        Store(tmp_path)
    assert caught.value.status is ExitStatus.ENVIRONMENT


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"this is no database, " * 100)
    with pytest.raises(GridwrightError, match="cannot be read") as caught:
        Store(tmp_path)
    assert str(tmp_path / FILE) in str(caught.value)


def test_unknown_jobs_are_all_named(store: Store) -> None:
    submit(store, request(array=[1, 2]))
    with pytest.raises(GridwrightError) as caught:
        find_keys(store, ["1_1", "1_7", "44", "one"])
    assert [problem.what for problem in caught.value.problems] == [
        "'one' is no job",
        "job 1 has no element 7",
        "there is no job 44",
    ]


@given(st.integers(1, 10**9), st.integers(-1, 4_000_000), st.integers(0, 9))
def test_names_and_tokens_come_back(job: int, index: int, attempt: int) -> None:
    key = JobKey(job, index)
    assert parse_identifier(str(key)) == key
    environment = f"A=1\0GRIDWRIGHT_JOB_TOKEN={token('abc', key, attempt)}\0B=2\0".encode()
    assert read_token("abc", environment) == key
    assert read_token("abd", environment) is None


def test_jobs_that_ended_long_ago_are_forgotten_with_their_logs(store: Store) -> None:
    submit(store, request(array=[1, 2]), request())
    store.change("UPDATE tasks SET state='completed', ended=1000.0")
    store.change("UPDATE tasks SET ended=2000.0 WHERE job=2")
    for key in (JobKey(1, 1), JobKey(1, 2), JobKey(2)):
        Path(store.log_of(key)).write_text("x")
    assert delete_old_jobs(store, 1500.0 + RETENTION_S) == 2
    assert [job.id for job in read_jobs(store, None)] == ["2"]
    assert [path.name for path in (store.state / "logs").iterdir()] == ["2.log"]
    assert submit(store, request()) == ["3"], "no number is used twice"
    assert delete_old_jobs(store, 5000.0 + RETENTION_S) == 0, "job 3 waits, and might need job 2"


def test_reasons_come_from_the_decision(store: Store) -> None:
    submit(store, request(cores=3), request(cores=4), request(cores=1), request(cores=2, queue="night"))
    submit(store, request(after=["2"]))
    store.change("UPDATE tasks SET state='running', started=? WHERE job=1", (time.time(),))
    # Of the higher priority, the last is tried first: one core is free, and it needs two.
    assert reasons(queue_snapshot(store, SITE, time.time())) == {
        2: "waits for 4 cores: 1 of 4 are free",
        3: "would delay job 4, which is ahead of it",
        4: "waits for 2 cores: 1 of 4 are free",
        5: "waits for job 2",
    }


def test_an_explanation_names_what_does_not_fit(store: Store) -> None:
    submit(store, request(cores=4), request(cores=1, memory_bytes=7 * GIB), request(queue="night"))
    store.change("UPDATE tasks SET state='running', started=? WHERE job=1", (time.time(),))
    found = explain(store, SITE, JobKey(2), time.time())
    assert found.job.id == "2"
    wrong = [need.name for place in found.candidates for need in place.requirements if not need.fits]
    assert wrong == ["cores", "memory"]
    night = explain(store, SITE, JobKey(3), time.time())
    queue = {
        need.name: (need.required, need.provided, need.fits) for need in night.candidates[0].requirements
    }
    assert queue == {"cores of the queue": ("1", "2 of 2 free", True), "time": ("3600 s", "3600 s", True)}


def test_a_store_of_an_earlier_release_gets_what_it_lacks_and_keeps_its_jobs(tmp_path: Path) -> None:
    old = Store(tmp_path / "state")
    submit(old, request("old"), request("waits", after=["#0"]))
    for table, column in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", CHANGES[1]):
        old.change(f"ALTER TABLE {table} DROP COLUMN {column}")
    old.change("ALTER TABLE tasks ADD COLUMN outcome TEXT")
    old.change("PRAGMA user_version=1")
    old.close()
    store = Store(tmp_path / "state")
    options = JobOptions(begin=4e9, nice=7, account="ops", flow="n/1")
    submit(store, request("new", options=options, after=["any:1", "not-ok:2"]))
    first, second, third = read_rows(store, "waiting")
    assert (first.options, second.options) == (JobOptions(), JobOptions())
    assert (third.options.begin, third.options.nice, third.options.account) == (4e9, 7, "ops")
    assert {job: [str(each) for each in unmet] for job, unmet in unmet_dependencies(store).items()} == {
        2: ["1"],
        3: ["any:1", "not-ok:2"],
    }


def test_a_nice_job_comes_after_alike_ones_and_before_those_of_a_lower_queue(store: Store) -> None:
    submit(
        store,
        request("nice", options=JobOptions(nice=10_000), queue="night"),
        request("plain", queue="night"),
        request("low"),
    )
    ordered = sorted(read_rows(store, "waiting"), key=lambda row: row.rank)
    assert [os.fsdecode(row.name) for row in ordered] == ["plain", "nice", "low"]


def test_a_job_that_is_to_begin_later_does_not_wait_for_room(store: Store) -> None:
    submit(store, request("now"), request("later", options=JobOptions(begin=2000.0)))
    before, after = (queue_snapshot(store, SITE, now) for now in (1999.0, 2000.0))
    assert ([each.job for each in before.pending], before.begins) == ([1], {2: 2000.0})
    assert ([each.job for each in after.pending], after.begins) == ([1, 2], {})


def test_elements_of_an_array_are_released_one_by_one(store: Store) -> None:
    submit(
        store, request(array=[1, 2, 3]), request(array=[1, 2, 3], after=["each:#0"]), request(after=["#1"])
    )
    waiting = WaitingJobs(store)
    waiting.load()
    assert not waiting.check_dependencies(None)

    def counts() -> dict[int, int]:
        return {each.job: each.count for each in waiting.pending(SITE, 0.0)}

    assert counts() == {1: 3}
    ended = "UPDATE tasks SET state=?, ended=1 WHERE job=1 AND idx=?"
    store.change(ended, ("completed", 3))
    assert waiting.check_dependencies({1})
    assert counts() == {1: 3, 2: 1}
    assert [key.element for _, key, _ in waiting.take(2, 1)] == [3]
    store.change(ended, ("failed", 1))
    waiting.check_dependencies({1})
    states = {job.id: job for job in read_jobs(store, None)}
    assert states["2_1"].state is JobState.CANCELLED
    assert "job 1_1, which it waited for" in str(states["2_1"].reason)
    assert states["3"].state is JobState.CANCELLED, "it waited for all elements of 2"
    store.change(ended, ("completed", 2))
    again = WaitingJobs(store)
    again.load()
    again.check_dependencies(None)
    assert {each.job: each.count for each in again.pending(SITE, 0.0)}[2] == 2, "a runner that starts anew"
