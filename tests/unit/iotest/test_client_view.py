"""What a Lustre client adds to a phase: held against statistics and a full target as they were recorded."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error
from gridwright.filesystems.kind import TargetReports
from gridwright.filesystems.watching import kind_mounted_as
from gridwright.iotest.drive import ClientView
from gridwright.iotest.library_facts import outcome_problem
from gridwright.iotest.outcome import Failure, Outcome
from tests.unit.iotest.test_figures import outcome as some_outcome

RECORDED = Path(__file__).parents[2] / "fixtures/lustre"
MOUNTS = (RECORDED / "005-proc-mounts.out").read_text()
MOUNT = "/mnt/scratch"
READ_BYTES = 209_715_200
"""Of 340-dd-read-200M: one file of 200 MiB over two targets, after other files had gone through the cache."""


@dataclass
class Client:
    """Answers as the recorded client does."""

    stats: str
    root: bool = True
    hangs: bool = False

    def __call__(self, command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        assert timeout_s <= 10
        match list(command):
            case ["cat", "/proc/mounts"]:
                return CommandOutput(0, MOUNTS.encode(), b"")
            case ["id", "-u"]:
                return CommandOutput(0, b"0\n" if self.root else b"1000\n", b"")
            case ["lctl", "get_param", _]:
                return CommandOutput(0, (RECORDED / f"{self.stats}.out").read_bytes(), b"")
            case ["lfs", "df", "/mnt/scratch"] if not self.hangs:
                text = (RECORDED / "962-enospc.out").read_text()
                return CommandOutput(0, text[text.index("UUID") :].encode(), b"")
            case ["lfs", "getstripe", "-d", "--yaml", "/mnt/scratch/fill"] if not self.hangs:
                return CommandOutput(0, (RECORDED / "210-getstripe-y-default.out").read_bytes(), b"")
        raise environment_error(f"{command[0]} has not answered")


def view(client: Client) -> ClientView:
    return ClientView(MOUNT, client, "lustre")


def judged(before: str, after: str, outcome: Outcome, **changes: bool) -> float | None:
    client = Client(before, **changes)
    seen = view(client)
    counts = seen.counts()
    client.stats = after
    return seen.with_client_counts(outcome, counts).cached_fraction


@pytest.fixture
def read() -> Outcome:
    """A phase that read as much as dd did, and found no page of its file in memory before."""
    return replace(some_outcome(), read_bytes=READ_BYTES, written_bytes=0, cached_fraction=0.0)


def test_reads_that_the_servers_delivered_are_not_cached(read: Outcome) -> None:
    assert judged("330-after-write-c-osc-stats", "350-after-read-c-osc-stats", read) == 0.0


def test_reads_that_no_server_delivered_are_cached_whatever_pages_said(read: Outcome) -> None:
    """Between these readings 200 MiB were written and nothing was read from a target."""
    assert judged("310-before-c-osc-stats", "330-after-write-c-osc-stats", read) == 1.0
    twice = replace(read, read_bytes=2 * READ_BYTES)
    assert judged("330-after-write-c-osc-stats", "350-after-read-c-osc-stats", twice) == pytest.approx(0.5)


def test_pages_that_were_in_memory_count_where_others_read_too(read: Outcome) -> None:
    resident = replace(read, cached_fraction=0.4)
    assert judged("330-after-write-c-osc-stats", "350-after-read-c-osc-stats", resident) == 0.4


def test_where_the_client_does_not_tell_the_pages_alone_judge(read: Outcome) -> None:
    for fraction in (0.0, 0.3, None):
        seen = replace(read, cached_fraction=fraction)
        assert judged("310-before-c-osc-stats", "330-after-write-c-osc-stats", seen, root=False) == fraction
    # A count that was cleared meanwhile says nothing of what was read.
    assert judged("350-after-read-c-osc-stats", "310-before-c-osc-stats", read) == 0.0
    assert ClientView("/").with_client_counts(read, None) == read
    assert kind_mounted_as("xfs") is None


def test_a_target_that_is_full_is_named_with_the_layout_of_the_file(read: Outcome) -> None:
    failure = Failure("write", "/mnt/scratch/fill", 3_535_798_272, errno.ENOSPC, "No space left on device")
    failed = replace(read, failure=failure)
    found = view(Client("310-before-c-osc-stats")).with_client_counts(failed, None).failure
    assert found is not None
    problem = outcome_problem(found, library="data", direct=False)
    assert problem.what == (
        "library data: a part of the file system is full (write at byte 3535798272: ENOSPC): full: "
        "scratch-OST0001 (1.10 MiB left of 3.66 GiB), while all targets together have 3.24 GiB; "
        "the file lies on 1 target: scratch-OST0001"
    )
    silent = view(Client("310-before-c-osc-stats", hangs=True)).with_client_counts(failed, None).failure
    assert silent is not None
    told = outcome_problem(silent, library="data", direct=False).what
    assert told.startswith("library data: no space is left on the file system")


def test_the_fullest_target_of_the_file_is_named_though_it_has_some_room(read: Outcome) -> None:
    """ENOSPC came with 3.2 % left: what is left has been promised to other clients."""
    client = Client("310-before-c-osc-stats")

    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        told = client(command, timeout_s=timeout_s)
        row = rb"(scratch-OST0001_UUID\s+\d+\s+\d+\s+)\d+"
        return replace(told, stdout=re.sub(row, rb"\g<1>122660", told.stdout))

    kind = kind_mounted_as("lustre")
    assert isinstance(kind, TargetReports)
    found = kind.no_space(run, "/mnt/scratch", "/mnt/scratch/fill")
    assert found is not None
    assert found.startswith("the fullest, whose room may be promised to other clients (grants): scratch-OST")
