"""What Slurm's tools print, read: recordings of 22.05.8, and the forms of later releases.

fixtures/slurm/22.05 was recorded from a real Slurm 22.05.8 (Debian 12) with the commands of grid/slurm; of
the queue and the accounting, the lines of one session are kept. The forms of 23.02 to 24.11 follow Slurm's
OpenAPI description (data_parser v0.0.39 to v0.0.42); nothing of them was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.schedulers.batch.record import split_identifier
from gridwright.schedulers.job import JobState, JobTag, tag_of
from gridwright.schedulers.job_request import expand_indices, fold_indices
from gridwright.schedulers.slurm.accounting import parse_completion, parse_sacct
from gridwright.schedulers.slurm.cluster import parse_config, parse_nodes, parse_partitions, parse_time_limit
from gridwright.schedulers.slurm.submission import slurm_name
from gridwright.schedulers.slurm.tools import (
    QueueRow,
    decode_end,
    decode_wait_status,
    job_state,
    parse_squeue_json,
    parse_squeue_text,
    reason,
)

RECORDED = Path(__file__).parents[2] / "fixtures" / "slurm" / "22.05"
NOW = 1795271750.0
"""A moment after the recording."""


def recorded_json() -> list[QueueRow]:
    return parse_squeue_json((RECORDED / "squeue.json").read_bytes(), now=NOW)


def recorded_text() -> list[QueueRow]:
    return parse_squeue_text((RECORDED / "squeue.txt").read_bytes(), now=NOW)


def key(row: QueueRow) -> tuple[int, tuple[int, ...]]:
    return row.job_id, row.indices or ()


def test_both_forms_of_the_queue_say_the_same() -> None:
    assert len(recorded_json()) == len(recorded_text()) == 14
    assert sorted(recorded_json(), key=key) == sorted(recorded_text(), key=key)


def test_the_recorded_queue_is_read() -> None:
    rows = {row.name.partition("~")[0] + str(row.job_id): row for row in recorded_text()}
    assert rows["sh1207"].words == ("FAILED",)
    assert rows["sh1207"].exit_status == 3
    assert (rows["sh1208"].exit_status, rows["sh1208"].signal) == (None, 9), "the shell gave 137"
    assert rows["x1216"].indices == tuple(range(100, 140, 3))
    assert rows["x1216"].started is None, "a start to come is an estimate"
    assert rows["sleep1209"].started == 1795271734
    assert rows["sleep1209"].ended is None
    assert reason(rows["true1219"].reason).word == "Nodes"
    arrays = sorted(row.indices or () for row in recorded_text() if row.job_id == 1210)
    assert arrays == [(1,), (2,), (3,), (5, 7, 9)]


def test_a_queue_with_bytes_that_are_no_utf8_is_read() -> None:
    content = (RECORDED / "squeue.json").read_bytes()
    with pytest.raises(UnicodeDecodeError):
        content.decode()
    assert len(parse_squeue_json(content, now=NOW)) == 14


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"jobs": [{}]}', b'{"jobs": [1]}', b'{"jobs": 3}'])
def test_json_of_another_form_is_refused_and_not_misread(content: bytes) -> None:
    with pytest.raises(ValueError):
        parse_squeue_json(content)


def number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def plain(value: int | None) -> int | None:
    return value


def wait_status(row: QueueRow) -> int:
    return (row.signal or 0) if row.exit_status is None else row.exit_status << 8


def form(row: QueueRow, release: tuple[int, int]) -> dict[str, Any]:
    """A row as a release prints it."""
    later = release >= (23, 2)
    lists = release >= (23, 11)
    count: Callable[[int | None], Any] = number if later else plain
    moment: Callable[[int | None], Any] = number if lists else plain
    whole = row.indices is None
    folded = row.indices is not None and len(row.indices) > 1
    code: Any = count(wait_status(row))
    if lists:
        code = {
            "status": ["SUCCESS" if row.exit_status == 0 else "ERROR"],
            "return_code": number(row.exit_status or 0),
            "signal": {"id": number(row.signal), "name": ""},
        }
    return {
        "job_id": row.job_id + (0 if whole else 1000),
        "array_job_id": count(0 if whole else row.job_id),
        "array_task_id": count(None if whole or folded else (row.indices or (0,))[0]),
        "array_task_string": fold_indices(row.indices or ()) if folded else "",
        "name": row.name,
        "job_state": list(row.words) if lists else row.words[0],
        "state_reason": row.reason,
        "state_description": "",
        "partition": row.queue,
        "user_name": row.user,
        "nodes": row.node or "",
        "submit_time": moment(int(row.submitted or 0)),
        "start_time": moment(int(row.started or 0)),
        "end_time": moment(int(row.ended or 0)),
        "exit_code": code,
        "restart_cnt": row.restarts,
    }


TOKENS = st.integers(0, 2**64 - 1).map(lambda value: f"{value:016x}")
ROWS = st.builds(
    QueueRow,
    job_id=st.integers(1, 900),
    indices=st.none() | st.sets(st.integers(0, 50), min_size=1).map(lambda found: tuple(sorted(found))),
    name=st.builds(lambda token, text: slurm_name(text, JobTag(token, 3)), TOKENS, st.text()),
    words=st.sampled_from([("PENDING",), ("RUNNING",), ("COMPLETED",), ("FAILED",), ("NODE_FAIL",)]),
    reason=st.sampled_from(["None", "Priority", "ReqNodeNotAvail, UnavailableNodes:n1", "a | b"]),
    queue=st.just("batch"),
    user=st.just("alice"),
    node=st.none() | st.just("n1"),
    submitted=st.integers(1, 1000).map(float),
    started=st.none() | st.integers(1, 1000).map(float),
    ended=st.none() | st.integers(1, 1000).map(float),
    exit_status=st.integers(0, 127),
    signal=st.none(),
    restarts=st.integers(0, 3),
)


@pytest.mark.parametrize("release", [(22, 5), (23, 2), (23, 11), (24, 5), (24, 11)])
@given(rows=st.lists(ROWS, max_size=5))
def test_the_json_of_every_release_is_read(release: tuple[int, int], rows: list[QueueRow]) -> None:
    document = {"meta": {}, "jobs": [form(row, release) for row in rows], "errors": []}
    assert parse_squeue_json(json.dumps(document).encode()) == rows


@given(rows=st.lists(ROWS, max_size=5))
def test_the_text_of_the_queue_is_read(rows: list[QueueRow]) -> None:
    def line(row: QueueRow) -> str:
        shown = f"{row.job_id}"
        if row.indices is not None:
            many = len(row.indices) > 1
            shown += f"_[{fold_indices(row.indices)}%10]" if many else f"_{row.indices[0]}"
        times = "|".join(
            "N/A" if each is None else f"{each:.0f}" for each in (row.submitted, row.started, row.ended)
        )
        middle = f"{row.words[0]}|{wait_status(row)}|{row.restarts}|{times}"
        return f"{shown}|{row.name}|{middle}|{row.queue}|{row.user}|{row.node or ''}|{row.reason}\n"

    assert parse_squeue_text("".join(map(line, rows)).encode()) == rows


def test_a_signal_of_the_newer_json_is_the_jobs_own() -> None:
    row = dict(form(recorded_text()[0], (24, 5)))
    row["exit_code"] = {
        "status": ["SIGNALED"],
        "return_code": number(0),
        "signal": {"id": number(9), "name": "KILL"},
    }
    (read,) = parse_squeue_json(json.dumps({"jobs": [row]}).encode())
    assert (read.exit_status, read.signal) == (None, 9)


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("PENDING",), JobState.WAITING),
        (("COMPLETED", "COMPLETING"), JobState.RUNNING),
        (("COMPLETING",), JobState.RUNNING),
        (("CANCELLED by 0",), JobState.CANCELLED),
        (("NODE_FAIL",), JobState.NODE_FAILED),
        (("PENDING", "REQUEUED"), JobState.WAITING),
        (("OUT_OF_MEMORY",), JobState.OUT_OF_MEMORY),
        (("TIMEOUT",), JobState.TIMED_OUT),
        (("DEADLINE",), JobState.TIMED_OUT),
        (("PREEMPTED",), JobState.CANCELLED),
        (("A_WORD_OF_TOMORROW",), JobState.RUNNING),
        ((), JobState.RUNNING),
    ],
)
def test_states_of_slurm_are_ours(words: tuple[str, ...], state: JobState) -> None:
    assert job_state(words).state is state


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Resources", "in use"),
        ("(Priority)", "higher priority"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "must run on"),
        ("AssocGrpCpuLimit", "its account has all"),
        ("QOSMaxCpuPerUserLimit", "its user has all"),
        ("QOSMaxWallDurationPerJobLimit", "more than its quality of service allows"),
        ("MaxJobsPerAccount", "its account has all that the quality"),
        ("SomethingNew", "Slurm says SomethingNew"),
    ],
)
def test_reasons_have_a_sentence(text: str, words: str) -> None:
    assert words in reason(text).sentence


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (0, (0, None)),
        (3 << 8, (3, None)),
        (9, (None, 9)),
        (137 << 8, (None, 9)),
        (255 << 8, (255, None)),
        (125, (None, None)),
    ],
)
def test_a_wait_status_is_an_exit_status_or_a_signal(
    status: int, expected: tuple[int | None, int | None]
) -> None:
    assert decode_wait_status(status) == expected


def test_a_number_of_slurms_own_is_no_signal() -> None:
    assert decode_end(0, 125) == (None, None)


@given(st.sets(st.integers(0, 5000)))
def test_indices_survive_folding(indices: set[int]) -> None:
    assert expand_indices(fold_indices(indices)) == tuple(sorted(indices))
    assert expand_indices(f"[{fold_indices(indices)}%7]") == tuple(sorted(indices))


@given(st.text(), TOKENS, st.integers(0, 99))
def test_a_name_in_slurm_is_one_plain_word_and_carries_its_tag(name: str, token: str, attempt: int) -> None:
    tag = JobTag(token, attempt)
    shown = slurm_name(name, tag)
    assert tag_of(shown) == tag
    assert shown.isascii()
    assert not set(shown) & set(" ,|%/\\\n")
    assert len(shown) < 100


@pytest.mark.parametrize(
    "name", ["", "job", "job~", "job~0123.0", "job~0123456789abcdef", "x~0123456789abcdeg.0"]
)
def test_a_job_that_is_not_ours_has_no_tag(name: str) -> None:
    assert tag_of(name) is None


def test_identifiers_are_split() -> None:
    assert split_identifier("17") == ("17", None)
    assert split_identifier("17_3") == ("17", 3)
    assert split_identifier("17-2_3") == ("17-2", 3)
    assert [split_identifier(text) for text in ("", "x", "17_", "_3", "17_[1-3]", "-1")] == [None] * 6


def test_the_recorded_accounting_is_read() -> None:
    lines = (RECORDED / "jobcomp.txt").read_text().splitlines()
    rows = {row.job_id: row for line in lines if (row := parse_completion(line, 0)) is not None}
    assert len(rows) == len(lines) == 6
    assert (rows[1207].words[0], rows[1207].exit_status, rows[1207].node) == ("FAILED", 3, "n1")
    assert rows[1208].signal == 9
    assert rows[1211].words[0] == "CANCELLED"
    assert rows[1211].node is None
    assert {row.indices for row in rows.values()} == {None}


def test_an_element_of_an_array_is_found_whatever_its_directory_is_called() -> None:
    line = (
        "JobId=3 UserId=root(0) GroupId=root(0) Name=arr~0123456789abcdef.0 JobState=FAILED Partition=batch"
        " TimeLimit=UNLIMITED StartTime=2026-11-21T13:57:25 EndTime=Unknown NodeList=n1 NodeCnt=1 ProcCnt=1"
        " WorkDir=/a JobState=COMPLETED ExitCode=0:0 ArrayTaskId=9 b ReservationName= Tres=cpu=1 Account="
        " QOS= WcKey= Cluster=c"
        " SubmitTime=2026-11-21T13:57:24 EligibleTime=2026-11-21T13:57:25 ArrayJobId=2 ArrayTaskId=1"
        " DerivedExitCode=0:0 ExitCode=1:0 "
    )
    row = parse_completion(line, 0)
    assert row is not None
    assert (row.job_id, row.elements[0], row.words[0], row.exit_status) == (2, 1, "FAILED", 1)
    assert row.started is not None
    assert row.ended is None


@pytest.mark.parametrize(
    "line", ["", "garbage", "JobId=1 Name=x JobState=FAILED", "Name=x~0123456789abcdef.0"]
)
def test_lines_of_other_jobs_are_passed_over(line: str) -> None:
    assert parse_completion(line, 0) is None
    assert parse_sacct(line) is None


def test_what_sacct_prints_is_read() -> None:
    """After sacct(1): not recorded."""
    row = parse_sacct("17_3|a~0123456789abcdef.1|CANCELLED by 0|0:15|1795271734|1795271739|batch|n1")
    assert row is not None
    assert (row.tag, row.job_id) == (JobTag("0123456789abcdef", 1), 17)
    assert (row.elements, row.words) == ((3,), ("CANCELLED",))
    assert (row.exit_status, row.signal, row.started) == (None, 15, 1795271734.0)
    assert (
        parse_sacct("17_[4-9]|a~0123456789abcdef.1|PENDING|0:0|Unknown|Unknown|batch|None assigned") is None
    )


def test_the_recorded_nodes_are_read() -> None:
    nodes = parse_nodes((RECORDED / "nodes.txt").read_text())
    assert list(nodes) == ["h1", "n1", "n2"]
    state = nodes["n1"].state
    assert (state.up, state.cores, state.memory_bytes) == (True, 8, 4000 * 2**20)
    assert nodes["h1"].state.cores == 8, "16 threads are 8 cores"
    assert nodes["h1"].threads == 2


@pytest.mark.parametrize(
    ("state", "up"),
    [("IDLE", True), ("MIXED", True), ("ALLOCATED+COMPLETING", True), ("DOWN*", False), ("IDLE*", False),
     ("IDLE+DRAIN", False), ("MIXED*+DRAIN", False), ("IDLE+CLOUD", True), ("DOWN+NOT_RESPONDING", False)],
)  # fmt: skip
def test_a_node_is_up_or_not(state: str, up: bool) -> None:
    line = (
        f"NodeName=n CPUTot=4 CPUAlloc=1 RealMemory=100 AllocMem=30 Sockets=1 CoresPerSocket=4 State={state}"
    )
    node = parse_nodes(f"{line} ThreadsPerCore=1  Reason=not well [root@now]").popitem()[1].state
    assert node.up is up
    assert (node.free_cores, node.free_memory_bytes) == (3, 70 * 2**20)
    assert node.reason == (None if up else "not well")


@pytest.mark.parametrize(
    ("state", "asleep"),
    [
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("IDLE+CLOUD+POWERING_DOWN", True),
        ("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", True),
        ("IDLE+CLOUD", False),
        # It could not be had, or an administrator drained it: no job starts it.
        ("DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING", False),
        ("IDLE+CLOUD+DRAIN+POWERED_DOWN", False),
        ("DOWN*", False),
    ],
)
def test_a_node_that_slurm_powers_on_for_a_job_is_asleep(state: str, asleep: bool) -> None:
    line = f"NodeName=n CPUTot=8 Sockets=1 CoresPerSocket=8 RealMemory=100 State={state} ThreadsPerCore=1"
    node = parse_nodes(line)["n"].state
    assert node.asleep is asleep
    assert not (node.asleep and node.up)


def test_the_recorded_queues_are_read() -> None:
    queues = parse_partitions((RECORDED / "partitions.txt").read_text())
    assert list(queues) == ["batch", "night", "ht"]
    assert queues["batch"].default
    assert queues["batch"].longest_s is None
    assert queues["batch"].nodes == ("n1", "n2")
    assert queues["night"].longest_s == 3600


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("UNLIMITED", None), ("01:00:00", 3600), ("2-00:00:00", 172_800), ("5:30", 330), ("1-01:00:30", 90_030)],
)
def test_time_limits_of_slurm_are_seconds(text: str, seconds: float | None) -> None:
    assert parse_time_limit(text) == seconds


def test_the_recorded_configuration_is_read() -> None:
    config: Mapping[str, str] = parse_config((RECORDED / "config.txt").read_text())
    assert config["JobCompType"] == "jobcomp/filetxt"
    assert config["JobCompLoc"] == "/var/log/jobcomp.txt"
    assert config["BOOT_TIME"].isdigit()
    assert config["MinJobAge"] == "300 sec"
