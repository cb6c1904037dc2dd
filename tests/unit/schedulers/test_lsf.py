"""LSF without one: what its commands print, what they are called with, and what their double refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.schedulers.batch.system import AfterJob, Answered, BatchCall
from gridwright.schedulers.head_node import LocalHeadNode
from gridwright.schedulers.job import JobOptions, JobRequest, JobState, JobTag
from gridwright.schedulers.job_request import DependencyType, fold_indices
from gridwright.schedulers.lsf.kind import (
    Lsf,
    ending,
    meaning,
    moment,
    parse_accounting,
    parse_history,
    plain_node,
    rows,
    size,
)
from gridwright.spec import parse_spec
from tests.support.lsf_double.daemon import Mbatchd
from tests.support.lsf_double.jobs import Element

TAG = JobTag("0123456789abcdef", 0)
SPEC = "scheduler: {type: lsf, project: blue}\nfilesystems: {disk: {type: local, path: /mnt/disk}}\n"
HISTORY = """\
Job <771278[3]>, Job Name <x~0123456789abcdef.0[3]>, Job Description <gridwright ~0123456789abcdef.0>, User <>
Mon Nov 23 10:16:26 2026: Submitted from host <falcon>, to Queue <short>, CWD <$HOME/test>;
Mon Nov 23 10:16:31 2026: Dispatched 1 Task(s) on Host(s) <n28>, Allocated 1 Slot(s) on Host(s) <n28>;
Mon Nov 23 10:16:31 2026: Starting (Pid 101);
Mon Nov 23 10:17:33 2026: Exited with exit code 140. The CPU time used is 0.1 seconds;
Mon Nov 23 10:17:33 2026: Completed <exit>; TERM_RUNLIMIT: job killed after reaching LSF run time limit;

Job <771279>, Job Name <y>, User <brandl>, Command <sleep 1>
Mon Nov 23 10:17:33 2026: Done successfully. The CPU time used is 0.1 seconds;

Job <771280>, Job Name <z>, Job Description <gridwright ~fedcba9876543210.2>, User <brandl>
Mon Nov 23 10:17:33 2026: Done successfully. The CPU time used is 0.1 seconds;
"""


ACCOUNTS = """\
Accounting information about jobs that are:
  - submitted by all users.
  - accounted on all projects.
------------------------------------------------------------------------------

Job <1743>, Job Name <a, User <b>, c>, User <ann>, Project <sales>, Status <EXIT>, Queue <night>, Command <x>
Mon Nov 23 10:16:26 2026: Submitted from host <falcon>, CWD <$HOME>;
Mon Nov 23 10:16:31 2026: Dispatched 4 Task(s) on Host(s) <n28> <n28> <n29> <n29>, Allocated 4 Slot(s);
Mon Nov 23 10:26:31 2026: Completed <exit>; TERM_RUNLIMIT: job killed after reaching LSF run time limit.

Accounting information about this job:
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
   1234.50        5            605     exit         2.0405     1G      2G
------------------------------------------------------------------------------

Job <1744[3]>, User <ben>, Project <default>, Status <DONE>, Queue <normal>, Command <true>
Mon Nov 23 10:16:26 2026: Submitted from host <falcon>, CWD <$HOME>;
Mon Nov 23 10:16:31 2026: [3] started on <2*n30>;
Mon Nov 23 10:16:32 2026: Completed <done>.

Accounting information about this job:
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
         -        5              6     done              -      -       -
------------------------------------------------------------------------------

Job <1745>, User <ben>, Project <default>, Status <EXIT>, Queue <normal>, Command <true>
Mon Nov 23 10:16:26 2026: Submitted from host <falcon>, CWD <$HOME>;
Mon Nov 23 10:16:40 2026: Completed <exit>; TERM_OWNER: job killed by owner.
------------------------------------------------------------------------------
SUMMARY:      ( time unit: second )
 Total number of done jobs:       1      Total number of exited jobs:     2
"""


def record(**values: str) -> dict[str, str]:
    plain = {"JOBID": "22005", "JOBINDEX": "0", "STAT": "RUN", "QUEUE": "normal", "EXEC_HOST": "hostA:hostA"}
    return plain | {"JOB_DESCRIPTION": f"gridwright ~{TAG}", "START_TIME": "Nov 25 02:38"} | values


def call(request: JobRequest, *after: AfterJob, elements: int | None = None) -> BatchCall:
    program = ["/a state/run.sh", "/a state", str(TAG)]
    return BatchCall(
        request=request, tag=TAG, program=program, elements=elements, after=after, memory_bytes=1_000_000
    )


def request(**fields: object) -> JobRequest:
    return JobRequest(**({"command": ["true"], "directory": "/", "environment": {}} | fields))  # type: ignore[arg-type]


def test_records_are_read() -> None:
    found = list(
        rows([record(), record(JOBINDEX="3"), record(JOBID="22005[4]"), record(JOB_DESCRIPTION="mine")])
    )
    assert [list(each.positions) for each in found] == [[-1], [3], [4]]
    assert (found[0].number, found[0].tag, found[0].state) == (22005, TAG, JobState.RUNNING)
    assert found[0].node == "hostA"


@pytest.mark.parametrize(
    ("values", "state", "reason"),
    [
        ({"STAT": "PEND", "PEND_REASON": "New job is waiting for scheduling;"}, JobState.WAITING, "New job"),
        ({"STAT": "PSUSP"}, JobState.WAITING, "held"),
        ({"STAT": "UNKWN"}, JobState.RUNNING, "does not answer"),
        ({"STAT": "USUSP"}, JobState.RUNNING, "suspended"),
        ({"STAT": "DONE"}, JobState.COMPLETED, None),
        ({"STAT": "EXIT", "EXIT_CODE": "7"}, JobState.FAILED, None),
        ({"STAT": "EXIT", "EXIT_REASON": "TERM_OWNER: job killed by owner"}, JobState.CANCELLED, "bkill"),
    ],
)
def test_states_are_understood(values: Mapping[str, str], state: JobState, reason: str | None) -> None:
    (row,) = rows([record(**values)])
    assert row.state is state
    assert row.reason is None if reason is None else reason in str(row.reason)


@pytest.mark.parametrize(
    ("stat", "code", "reason", "expected"),
    [
        ("DONE", "", "", (JobState.COMPLETED, 0, None)),
        ("EXIT", "7", "", (JobState.FAILED, 7, None)),
        ("EXIT", "137", "", (JobState.FAILED, None, 9)),
        (
            "EXIT",
            "137",
            "TERM_EXTERNAL_SIGNAL: job killed by a signal external to LSF",
            (JobState.FAILED, None, 9),
        ),
        ("EXIT", "140", "TERM_RUNLIMIT: job killed after ...", (JobState.TIMED_OUT, None, None)),
        ("EXIT", "", "TERM_MEMLIMIT", (JobState.OUT_OF_MEMORY, None, None)),
        ("EXIT", "", "TERM_REMOVE_HUNG_JOB", (JobState.NODE_FAILED, None, None)),
        ("EXIT", "", "TERM_OF_A_NEWER_RELEASE", (JobState.FAILED, None, None)),
    ],
)
def test_ends_are_understood(stat: str, code: str, reason: str, expected: tuple[object, ...]) -> None:
    found = ending(stat, code, reason)
    assert (found.state, found.exit_status, found.signal) == expected


def test_history_is_read() -> None:
    first, last = parse_history(HISTORY)
    assert (first.number, list(first.positions), first.tag, first.node) == (771278, [3], TAG, "n28")
    assert (first.state, first.exit_status) == (JobState.TIMED_OUT, None)
    assert first.ended == time.mktime(time.strptime("2026 Nov 23 10:17:33", "%Y %b %d %H:%M:%S"))
    assert (last.number, last.state) == (771280, JobState.COMPLETED)


def test_times_have_a_year_in_the_past() -> None:
    now = time.mktime((2026, 1, 2, 3, 4, 0, 0, 0, -1))
    assert moment("Dec 31 23:59 L", now) == time.mktime((2025, 12, 31, 23, 59, 0, 0, 0, -1))
    assert moment("Jan  2 03:00", now) == time.mktime((2026, 1, 2, 3, 0, 0, 0, 0, -1))
    assert moment("", now) is None
    assert moment("-", now) is None


def test_sizes_and_hosts_are_read() -> None:
    assert (size("522 MBytes"), size("5.2 Gbytes"), size("")) == (522 << 20, int(5.2 * 2**30), 0)
    assert [plain_node(each) for each in ("4*hostA:2*hostB", "hostA:hostA", "", "-")] == [
        "hostA",
        "hostA",
        None,
        None,
    ]
    assert fold_indices([1, 2, 3, 7]) == "1-3,7"


def test_a_request_becomes_a_call_of_bsub() -> None:
    asked = request(
        cores=4,
        time_limit_s=61.0,
        array=[0, 7],
        queue="short",
        node="hostA",
        exclusive=True,
        restart=True,
        options=JobOptions(
            qos="gold",
            licences=["float:2"],
            gres=["gpu:a100:2"],
            constraint="type==any",
            mail="a@b",
            mail_on=["begin"],
        ),
    )
    after = [
        AfterJob(number=3, type=DependencyType.OK),
        AfterJob(number=4, type=DependencyType.EACH, each=True),
        AfterJob(number=5, type=DependencyType.ANY, position=2),
    ]
    assert Lsf(parse_spec(SPEC), LocalHeadNode()).command(call(asked, *after, elements=2)) == [
        *("bsub", "-J", f"true~{TAG}[1-2]", "-Jd", f"gridwright ~{TAG}", "-o", "/dev/null", "-cwd", "/"),
        *("-env", "none", "-n", "4", "-R", "select[type==any]", "-R", "span[hosts=1]"),
        *("-R", "rusage[mem=977KB]", "-R", "rusage[float=2]", "-M", "977KB", "-r", "-q", "short", "-W", "2"),
        *("-m", "hostA", "-x", "-w", "done(3) && done(4[*]) && ended(5[2])", "-ti", "-P", "blue"),
        *("-sla", "gold", "-gpu", "num=2", "-u", "a@b", "-B", f"'/a state/run.sh' '/a state' {TAG}"),
    ]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("LSF is down. Please wait ...", Answered.AWAY),
        ("Failed in an LSF library call: Communication time out. Job not submitted.", Answered.UNCLEAR),
        ("nosuch: No such queue. Job not submitted.", Answered.YES),
    ],
)
def test_messages_tell_whether_it_was_reached(said: str, expected: Answered) -> None:
    assert meaning(said) is expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-zz", "true"], "-zz: Illegal option. Job not submitted."),
        (["-n", "0", "true"], "0: Bad argument for option -n. Job not submitted."),
        (["-q", "nosuch", "true"], "nosuch: No such queue. Job not submitted."),
        (
            ["-m", "nosuch", "true"],
            "nosuch: Bad host name, host group name or cluster name. Job not submitted.",
        ),
        (["-J", "a[0-3]", "true"], "Bad job array index list. Job not submitted."),
        (["-J", "a[1-1001]", "true"], "Job array index too large. Job not submitted."),
        (["-J", "[1-3]", "true"], "Bad job name or job array index list. Job not submitted."),
        (["-R", "rusage[mem]", "true"], "Bad resource requirement syntax. Job not submitted."),
        (["-R", "spam[hosts=1]", "true"], "Bad resource requirement syntax. Job not submitted."),
        (["-W", "2.5", "true"], "2.5: Bad RUNLIMIT specification. Job not submitted."),
        (["-M", "1XB", "true"], "1XB: Bad MEMLIMIT specification. Job not submitted."),
        (["-w", "done(99)", "true"], "99: No matching job found. Job not submitted."),
        (["-w", "done 99", "true"], "Bad dependency condition. Job not submitted."),
        (["-ti", "true"], "-ti: Use only with the -w option. Job not submitted."),
        (["-r", "-rn", "true"], "-r and -rn cannot be used together. Job not submitted."),
        (["-n", "1"], "No command is specified. Job not submitted."),
    ],
)
def test_the_double_refuses_what_lsf_refuses(arguments: list[str], message: str) -> None:
    assert Mbatchd().answer("bsub", arguments, {}) == (255, "", f"{message}\n")


def test_the_double_answers_in_the_form_of_lsf() -> None:
    mbatchd = Mbatchd()
    assert mbatchd.answer("bsub", ["-J", "a[1-2]", "true"], {}) == (
        0,
        "Job <101> is submitted to default queue <normal>.\n",
        "",
    )
    assert mbatchd.answer("bjobs", ["-o", "jobid nosuch", "-json"], {})[0] == 255
    status, out, _ = mbatchd.answer("bjobs", ["-a", "-o", "jobid jobindex stat", "-json"], {})
    assert (status, json.loads(out)["JOBS"]) == (0, 2)
    assert json.loads(out)["RECORDS"][1] == {"JOBID": "101", "JOBINDEX": "2", "STAT": "PEND"}
    assert mbatchd.answer("bkill", ["101[2]"], {})[:2] == (0, "Job <101[2]> is being terminated\n")
    assert mbatchd.answer("bkill", ["101[2]", "7"], {})[0] == 255


def test_a_command_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GridwrightError, match="lshosts cannot be started") as missing:
        Lsf(parse_spec(SPEC), LocalHeadNode()).facts()
    assert missing.value.status is ExitStatus.ENVIRONMENT
    assert "install the commands of LSF" in str(missing.value)
    profile = tmp_path / "profile.lsf"
    profile.write_text("LSF_BINDIR=/nowhere\n")
    spec = parse_spec(SPEC.replace("project: blue", f"profile: {profile}"))
    with pytest.raises(GridwrightError, match="lshosts cannot be started") as missing:
        Lsf(spec, LocalHeadNode()).facts()
    assert missing.value.status is ExitStatus.ENVIRONMENT


def test_accounts_are_those_of_all_users() -> None:
    killed, element, never = parse_accounting(ACCOUNTS)
    assert (killed.id, killed.user, killed.account, killed.queue) == ("1743", "ann", "sales", "night")
    assert (killed.state, killed.cores, killed.node) == (JobState.TIMED_OUT, 4, "n28")
    assert (killed.elapsed_s, killed.waited_s, killed.core_s) == (600.0, 5.0, 2400.0)
    assert (killed.cpu_s, killed.memory_peak_bytes) == (1234.5, 2**30)
    assert (element.id, element.account, element.cores, element.node) == ("1744_3", None, 2, "n30")
    assert (element.state, element.elapsed_s, element.cpu_s) == (JobState.COMPLETED, 1.0, None)
    assert (never.state, never.started, never.elapsed_s) == (JobState.CANCELLED, None, 0.0)


def test_the_double_tells_its_accounts_as_documented() -> None:
    daemon = Mbatchd()
    daemon.jobs[7] = [
        Element(7, 0, "n", "d", "short", "c", slots=2, stat="DONE", host="n1", started=time.time())
    ]
    daemon.jobs[7][0].finished = time.time() + 2
    day = f"2020/01/01/00:00,{time.strftime('%Y/%m/%d/%H:%M', time.localtime(time.time() + 60))}"
    status, out, _ = daemon.answer("bacct", ["-u", "all", "-l", "-UF", "-C", day], {})
    (job,) = parse_accounting(out)
    assert (status, job.id, job.cores, job.state, job.user) == (0, "7", 2, JobState.COMPLETED, "root")
    assert daemon.answer("bacct", ["-u", "all", "-l"], {})[0] == 255
