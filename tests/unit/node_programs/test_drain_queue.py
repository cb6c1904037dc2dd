"""What Slurm prints of nodes and jobs is read; slurm.conf says of a node what it is until it is replaced."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gridwright.node_programs.drain import (
    OWN,
    Queue,
    ended_jobs,
    hardware,
    left_s,
    names_of,
    read_nodes,
    retain_hardware,
)
from gridwright.node_programs.scratch.commands import Ended

# As Slurm 22.05.8 prints them.
NODES = f"""\
NodeName=compute1 Arch=x86_64 CoresPerSocket=2 CPUAlloc=1 CPUTot=2 State=MIXED+DRAIN ThreadsPerCore=1 \
Reason={OWN}, drained at 1764025200 [root@2026-11-24T23:00:00]
NodeName=compute2 Arch=x86_64 CPUAlloc=0 CPUTot=2 State=IDLE+DRAIN Reason=broken fan [ann@2026]
NodeName=compute3 Arch=x86_64 CPUTot=2 State=DOWN* Reason=Not responding [slurm@2026-11-24T23:00:00]
NodeName=compute4 CPUTot=2 State=IDLE+DRAIN Reason=gridwright: health check: /a is not mounted [root@2026]
"""
JOBS = """\
7|RUNNING|compute1|1-02:03:04
8_1|PENDING||UNLIMITED
9|COMPLETED|compute2|0:10
10|COMPLETING|compute[2-3]|INVALID
11|SUSPENDED|compute4|59:00
"""


def test_nodes_and_their_jobs_are_read() -> None:
    nodes = read_nodes(NODES, JOBS)
    first = nodes["compute1"]
    assert (first.is_drained_by_us, first.is_drained_by_others, first.is_empty) == (True, False, False)
    assert first.since == 1764025200
    assert [(job.id, job.left_s) for job in first.jobs] == [("7", 93784.0)]
    second = nodes["compute2"]
    assert (second.is_drained_by_us, second.is_drained_by_others) == (False, True)
    assert [job.id for job in second.jobs] == ["10"], "an epilogue is a job that is not over"
    assert ended_jobs(nodes, ["compute1", "compute2"]) == ["7"], "Slurm is ending the other one already"
    assert nodes["compute3"].is_away
    assert not nodes["compute4"].is_drained_by_others
    assert not nodes["compute4"].is_empty, "a suspended job is on its node"


@pytest.mark.parametrize(
    ("nodes", "jobs"),
    [("slurm_load_node error: Unable to contact", ""), (NODES, "7|RUNNING"), (NODES, "7|RUNNING|a[1|0:1")],
)
def test_what_is_something_else_is_never_taken_for_an_empty_node(nodes: str, jobs: str) -> None:
    with pytest.raises(ValueError, match=r"line|list"):
        read_nodes(nodes, jobs)
    queue = Queue(lambda argv, _: Ended(tuple(argv), 0, nodes if argv[0] == "scontrol" else jobs, 0.1))
    assert queue.nodes() is None
    assert queue.failures


@pytest.mark.parametrize("failing", ["scontrol", "squeue"])
def test_a_slurm_that_does_not_answer_has_no_nodes(failing: str) -> None:
    queue = Queue(lambda argv, _: Ended(tuple(argv), int(argv[0] == failing), "", 0.1))
    assert queue.nodes() is None
    assert failing in queue.failures[0]


def test_a_job_is_started_again_or_ended_where_it_may_not() -> None:
    said: list[Sequence[str]] = []

    def run(argv: Sequence[str], _: float) -> Ended:
        said.append(argv)
        return Ended(tuple(argv), int(argv[1] == "requeue"), "", 0.1)

    assert Queue(run).end("7")
    assert said == [["scontrol", "requeue", "7"], ["scancel", "7"]]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:10", 10),
        ("59:00", 3540),
        ("8:00:01", 28801),
        ("2-00:00:00", 172800),
        ("UNLIMITED", None),
        ("", None),
    ],
)
def test_the_time_that_is_left(text: str, seconds: float | None) -> None:
    assert left_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("compute1", ["compute1"]),
        ("compute[1-3,7],login1", ["compute1", "compute2", "compute3", "compute7", "login1"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("", []),
    ],
)
def test_lists_of_nodes(text: str, names: list[str]) -> None:
    assert names_of(text) == names


@pytest.mark.parametrize("text", ["a[1", "a[x-y]", "a]1", ",a", "a[1-9999999]"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"list of nodes|more than"):
        names_of(text)


OLD = "Prio=1\nNodeName=c[1-4] CPUs=8 Sockets=1 State=UNKNOWN\nPartitionName=batch Nodes=c[1-4]\n"
NEW = "Prio=2\nNodeName=c[1-5] CPUs=16 Sockets=1 State=UNKNOWN\nPartitionName=batch Nodes=c[1-5]\n"


def test_a_node_keeps_its_line_until_it_is_replaced() -> None:
    text = retain_hardware(NEW, OLD, {"c2", "c3"})
    assert {name: rest.split()[0] for name, rest in hardware(text).items()} == {
        **dict.fromkeys(("c1", "c4", "c5"), "CPUs=16"),
        **dict.fromkeys(("c2", "c3"), "CPUs=8"),
    }
    assert text.startswith("Prio=2\n")
    assert text.endswith("PartitionName=batch Nodes=c[1-5]\n")
    assert retain_hardware(NEW, text, {"c3"}).count("CPUs=8") == 1
    assert retain_hardware(NEW, text, ()) == NEW
    assert retain_hardware(NEW, NEW, {"c1"}) == NEW


def test_lines_are_as_short_as_slurm_reads_them() -> None:
    old, new = (f"NodeName=compute[1-1000] CPUs={cores} State=UNKNOWN\n" for cores in (8, 16))
    text = retain_hardware(new, old, {f"compute{number}" for number in range(1, 1000, 2)})
    assert max(map(len, text.splitlines())) < 4096
    assert len(hardware(text)) == 1000
