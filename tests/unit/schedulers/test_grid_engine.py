"""Grid Engine without one: what its commands print, and what they are called with."""

from __future__ import annotations

import calendar
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gridwright.commands import CommandOutput
from gridwright.errors import GridwrightError
from gridwright.schedulers.batch.system import AfterJob, Answered, BatchCall, tagged_name
from gridwright.schedulers.grid_engine.commands import meaning, parse_answer, section_of, tools
from gridwright.schedulers.grid_engine.kind import (
    CONFIGURE,
    DIRECTORY,
    INITIALISE,
    SPOOL,
    files,
)
from gridwright.schedulers.grid_engine.system import (
    GridEngine,
    ended,
    parse_accounts,
    parse_queue,
    row_of,
    seconds,
    size,
    used,
)
from gridwright.schedulers.head_node import LocalHeadNode
from gridwright.schedulers.job import JobOptions, JobRequest, JobState, JobTag, tag_of
from gridwright.schedulers.job_request import DependencyType, expand_indices, index_ranges
from gridwright.schedulers.machines import NodeHardware
from gridwright.spec import GridSpec, parse_spec
from tests.support.as_user import MALLORY, as_user, open_to_all

TAG = JobTag("0123456789abcdef", 0)
SPEC = """\
name: there
nodes: {compute: {count: 2}, wide: {count: 1}}
provider: lab
lab: {network: 10.99.0.0/24}
filesystems: {disk: {type: local, path: /mnt/disk}}
scheduler: {type: grid_engine, queues: {batch: {}, big: {nodes: [wide], time: 1h, cores: 3}}}
"""
QSTAT = """\
<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
  <queue_info>
    <job_list state="running">
      <JB_job_number>6</JB_job_number>
      <JB_name>arr~0123456789abcdef.0</JB_name>
      <state>r</state>
      <JAT_start_time>2026-11-25T02:38:43</JAT_start_time>
      <queue_name>batch@compute2</queue_name>
      <slots>1</slots>
      <tasks>4</tasks>
    </job_list>
    <job_list state="running">
      <JB_job_number>8</JB_job_number>
      <JB_name>of_others</JB_name>
      <state>r</state>
    </job_list>
  </queue_info>
  <job_info>
    <job_list state="pending">
      <JB_job_number>6</JB_job_number>
      <JB_name>arr~0123456789abcdef.0</JB_name>
      <state>hqw</state>
      <queue_name></queue_name>
      <tasks>5-9:2,12</tasks>
    </job_list>
  </job_info>
</job_info>
"""
QACCT = """\
==============================================================
qname        batch
hostname     compute1
owner        root
project      NONE
jobname      {name}
jobnumber    5
taskid       {task}
qsub_time    Wed Nov 25 02:38:43 2026
start_time   Wed Nov 25 02:38:44 2026
end_time     Wed Nov 25 02:38:46 2026
granted_pe   NONE
slots        2
failed       {failed}
exit_status  {status}
cpu          0.500s
maxvmem      3.441MB
"""


class Printing(LocalHeadNode):
    """A head node whose commands print what a test wants."""

    def __init__(self, printed: Mapping[str, str]) -> None:
        self._printed = printed
        self.asked: list[list[str]] = []

    def run(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> CommandOutput:
        self.asked.append(list(command))
        assert (environment or {})["TZ"] == "UTC"
        key = next((each for each in self._printed if " ".join(command).startswith(each)), None)
        assert key is not None, command
        return CommandOutput(0, self._printed[key].encode(), b"")


def spec() -> GridSpec:
    return parse_spec(SPEC)


def accounts(
    failed: str, status: str, *, name: str = f"tim~{TAG}", task: str = "undefined"
) -> dict[str, str]:
    (found,) = parse_accounts(QACCT.format(name=name, task=task, failed=failed, status=status))
    return found


def test_names_carry_a_tag() -> None:
    for label in ("plain", "two words\n'", "17", "", "a" * 200, "*?@[1-3]"):
        name = tagged_name(label, TAG)
        assert tag_of(name) == TAG
        assert name[0].isalpha()
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_~.")
    assert tag_of("someone's") is None


def test_the_queue_is_read() -> None:
    running, waiting = parse_queue(parse_answer(QSTAT.encode(), "qstat"))
    assert (running.number, running.tag, list(running.positions)) == (6, TAG, [4])
    assert (running.state, running.node, running.queue) == (JobState.RUNNING, "compute2", "batch")
    assert running.started == calendar.timegm((2026, 11, 25, 2, 38, 43))
    assert (waiting.state, list(waiting.positions)) == (JobState.WAITING, [5, 7, 9, 12])
    assert "held" in str(waiting.reason)


@pytest.mark.parametrize(
    ("letters", "state"),
    [
        ("qw", JobState.WAITING),
        ("Eqw", JobState.WAITING),
        ("t", JobState.RUNNING),
        ("Rr", JobState.RUNNING),
        ("dr", JobState.RUNNING),
        ("S", JobState.RUNNING),
        ("dqw", JobState.WAITING),
    ],
)
def test_letters_of_states_are_understood(letters: str, state: JobState) -> None:
    (row, *_) = parse_queue(parse_answer(QSTAT.replace("<state>r<", f"<state>{letters}<").encode(), "qstat"))
    assert row.state is state
    assert row.leaving == ("d" in letters)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "error: no XML",
        '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        "<?xml version='1.0' encoding='utf-7'?><!doctype a><a/>",
    ],
)
def test_what_is_no_plain_xml_is_refused(text: str) -> None:
    with pytest.raises(GridwrightError, match="cannot be read as XML"):
        parse_answer(text.encode(), "qstat")


@pytest.mark.parametrize(
    ("failed", "status", "expected"),
    [
        ("0", "0", (JobState.COMPLETED, 0, None)),
        ("0", "7", (JobState.FAILED, 7, None)),
        ("100 : assumedly after job", "137                  (Killed)", (JobState.FAILED, None, 9)),
        (
            "37  : qmaster enforced h_rt, h_cpu, or h_vmem limit",
            "137 (Killed)",
            (JobState.TIMED_OUT, None, None),
        ),
        ("19  : before writing exit_status", "0", (JobState.NODE_FAILED, None, None)),
        ("26  : opening input/output file", "0", (JobState.FAILED, None, None)),
        ("77  : of a newer release", "0", (JobState.FAILED, None, None)),
    ],
)
def test_the_accounting_tells_how_jobs_ended(failed: str, status: str, expected: tuple[object, ...]) -> None:
    fields = accounts(failed, status)
    state, sentence, exit_status, signal = ended(fields)
    assert (state, exit_status, signal) == expected
    assert sentence or state in (JobState.COMPLETED, JobState.TIMED_OUT) or exit_status is not None
    row = row_of(fields)
    assert row is not None
    assert (row.tag, row.node, row.ended) == (TAG, "compute1", calendar.timegm((2026, 11, 25, 2, 38, 46)))


def test_what_runs_again_or_is_not_ours_is_no_end() -> None:
    assert row_of(accounts("25  : rescheduling", "0")) is None
    assert row_of(accounts("0", "0", name="of_others")) is None
    element = row_of(accounts("0", "0", task="3"))
    assert element is not None
    assert list(element.positions) == [3]


def test_usage_is_that_of_jobs_that_ended_in_time() -> None:
    text = QACCT.format(name=f"tim~{TAG}", task="3", failed="0", status="0")
    head = Printing({"qacct": text})
    moment = calendar.timegm((2026, 11, 25, 2, 38, 46))
    (job,) = used(tools(section_of(spec()), head), moment - 1, moment + 1)
    assert (job.id, job.name, job.cores, job.user, job.account) == ("5_3", "tim", 2, "root", None)
    assert (job.cpu_s, job.elapsed_s, job.memory_peak_bytes) == (0.5, 2.0, int(3.441 * 2**20))
    assert used(tools(section_of(spec()), head), moment + 1, moment + 2) == []


def test_a_request_becomes_a_call_of_qsub() -> None:
    head = Printing({"qconf -sc": "h_rss h_rss MEMORY <= YES YES 0 0\nfloat f INT <= YES YES 0 0\n"})
    request = JobRequest(
        command=["true"],
        directory="/",
        environment={},
        cores=4,
        time_limit_s=1.2,
        array=[0, 7],
        node="compute1",
        exclusive=True,
        queue="batch",
        options=JobOptions(
            account="red", licences=["float:2"], begin=0.0, nice=5, mail="a@b", mail_on=["end"]
        ),
    )
    call = BatchCall(
        request=request,
        tag=TAG,
        program=["/state/run.sh", "/state", str(TAG)],
        elements=2,
        after=[
            AfterJob(number=3, type=DependencyType.OK),
            AfterJob(number=4, type=DependencyType.EACH, each=True),
            AfterJob(number=3, type=DependencyType.ANY, position=2),
        ],
        memory_bytes=1001,
    )
    assert GridEngine(spec(), head).command(call) == [
        *("qsub", "-clear", "-terse", "-N", f"true~{TAG}", "-o", "/dev/null", "-j", "y", "-wd", "/"),
        *("-b", "y", "-shell", "no", "-r", "n", "-pe", "smp", "4"),
        *("-l", "h_rss=251,h_rt=2,hostname=compute1,exclusive=true,float=2", "-q", "batch", "-t", "1-2"),
        *("-hold_jid", "3", "-hold_jid_ad", "4", "-A", "red", "-a", "197001010000.00", "-p", "-5"),
        *("-M", "a@b", "-m", "e", "/state/run.sh", "/state", str(TAG)),
    ]


def test_what_it_lacks_is_said() -> None:
    head = Printing({"qconf -sc": "", "qconf -spl": "mpi\n"})
    request = JobRequest(command=["true"], directory="/", environment={}, cores=2, exclusive=True)
    found = GridEngine(spec(), head).request_problems(request)
    assert [each.what.rpartition(" ")[2] for each in found[:2]] == ["smp", "h_rss"]
    assert "exclusive" in found[2].what
    assert all(each.remedy for each in found)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("error: commlib error: got select error (Connection refused)", Answered.AWAY),
        ("unable to send message to qmaster using port 6444", Answered.AWAY),
        ("error: failed receiving gdi request response for mid=1 (got no message).", Answered.UNCLEAR),
        ('Job was rejected because job requests unknown queue "nosuch"', Answered.YES),
    ],
)
def test_messages_tell_whether_it_was_reached(said: str, expected: Answered) -> None:
    assert meaning(said) is expected


def test_ranges_are_folded_and_expanded() -> None:
    assert index_ranges([1, 2, 3, 7, 9, 10]) == ["1-3", "7", "9-10"]
    assert expand_indices("1-9:4,12") == (1, 5, 9, 12)


def test_sizes_and_times_are_read() -> None:
    assert (size("2G"), size("23.541G"), size("-"), size("5k")) == (2 << 30, int(23.541 * 2**30), 0, 5000)
    assert (seconds("INFINITY"), seconds("24:00:00"), seconds("90")) == (None, 86_400.0, 90.0)


def test_a_lab_is_told_of_its_nodes_and_queues(tmp_path: Path) -> None:
    nodes = [
        NodeHardware(name=name, cores_per_socket=4, memory_bytes=1 << 30)
        for name in ("compute1", "compute2", "wide1")
    ]
    found = files(spec(), "controller", nodes)
    assert found["hosts"].splitlines()[2] == f"wide1 4 h_rss={1 << 30}"
    assert "hostlist=compute1 compute2 wide1\n" in found["queues/batch"]
    assert "hostlist=wide1\n" in found["queues/big"]
    assert "h_rt=3600\n" in found["queues/big"]
    assert "limit queues big to slots=3" in found["quotas/big"]
    assert "quotas/batch" not in found


def test_priorities_are_refused_in_a_lab() -> None:
    with pytest.raises(GridwrightError, match="no priority over others"):
        parse_spec(SPEC.replace("batch: {}", "batch: {priority: 5}"))


def test_commands_are_found_where_the_spec_says() -> None:
    named = parse_spec(SPEC.replace("type: grid_engine,", "type: grid_engine, root: /opt/sge, cell: prod,"))
    environment: dict[str, str] = {}

    class Keeping(Printing):
        def run(
            self,
            command: Sequence[str],
            *,
            stdin: bytes = b"",
            environment: Mapping[str, str] | None = None,
            timeout_s: float = 30.0,
        ) -> CommandOutput:
            kept.update(environment or {})
            return super().run(command, environment=environment)

    kept = environment
    tools(section_of(named), Keeping({"qstat": "<a/>"})).query(["qstat", "-xml"])
    assert (kept["SGE_ROOT"], kept["SGE_CELL"]) == ("/opt/sge", "prod")
    assert kept["PATH"].startswith("/opt/sge/bin/lx-amd64:")


@pytest.mark.skipif(os.geteuid() != 0, reason="other users' ids take root")
def test_what_makes_the_queues_writes_through_no_name_that_a_user_could_take(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    for name in ("queues", "quotas", "spool", "bin", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    canary = tmp_path / "canary"
    canary.write_text("root's")

    def mallory() -> None:
        for name in ("host", "template", "queue", "scheduling"):
            (tmp_path / "tmp" / name).symlink_to(canary)

    as_user(MALLORY, mallory)
    (tmp_path / "hosts").write_text("n1 4 8G\n")
    for name in ("submitters", "scheduling", "queues/batch"):
        (tmp_path / name).write_text("")
    said = tmp_path / "said"
    qconf = tmp_path / "bin" / "qconf"
    qconf.write_text(f'#!/bin/sh\necho "$1" >>{said}\n[ "$1" != -Ae ] || cat "$2" >>{said}\n')
    qconf.chmod(0o755)
    text = CONFIGURE.replace("/tmp/", f"{tmp_path}/tmp/")
    text = text.replace(DIRECTORY, str(tmp_path)).replace(SPOOL, f"{tmp_path}/spool")
    variables = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "TMPDIR": f"{tmp_path}/tmp"}
    subprocess.run(["sh", "-c", text], check=True, env=variables)
    assert canary.read_text() == "root's"
    assert "hostname n1\nload_scaling NONE\ncomplex_values slots=4,exclusive=true,8G\nuser_lists NONE\n" in (
        said.read_text()
    )
    assert len(list((tmp_path / "tmp").iterdir())) == 4, "nothing is left"
    assert "/tmp" not in INITIALISE.replace(SPOOL, "")
