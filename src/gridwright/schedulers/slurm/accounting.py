"""Reads the ends of jobs that Slurm's queue no longer knows, from the file of jobcomp/filetxt or from sacct.

`sacct -c` reads that file too, but of an element of an array it shows neither the array nor the index
(22.05), so the file is searched for our tokens directly. A job that was requeued has a line for each run.

Slurm writes names, directories and wckeys of jobs as they are, newlines too (22.05): every user can put lines
of any content there. So a line counts for the user that it names alone, and what a job did by itself counts
only as its own script wrote it down: see `believed_row`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gridwright.errors import GridwrightError
from gridwright.schedulers.job_tag import JobTag, tag_of
from gridwright.schedulers.slurm.job_name import split_identifier
from gridwright.schedulers.slurm.queue_row import decode_end
from gridwright.schedulers.slurm.record_rows import WHOLE
from gridwright.schedulers.slurm.tools import ToolRefused, Tools

_AT_ONCE = 400
"""Tokens or names in one command, so that its arguments stay short."""
_HEAD = re.compile(r"JobId=(?P<JobId>\d+) UserId=(?P<user>[^\s()]*)\((?P<uid>\d+)\) GroupId=\S* Name=")
_MIDDLE = re.compile(
    r" JobState=(?P<JobState>[A-Z_]+) Partition=(?P<Partition>\S*) TimeLimit=\S* StartTime=(?P<StartTime>\S+)"
    r" EndTime=(?P<EndTime>\S+) NodeList=(?P<NodeList>None assigned|\S*) NodeCnt=\d+ ProcCnt=(?P<ProcCnt>\d+)"
    r" WorkDir="
)
_ACCOUNT = re.compile(r" ReservationName=\S* Tres=\S* Account=(?P<Account>\S*) QOS=\S* WcKey=")
_TAIL = re.compile(
    r" SubmitTime=(?P<SubmitTime>\S+) EligibleTime=(?P<EligibleTime>\S+)"
    r"(?: ArrayJobId=(?P<ArrayJobId>\d+) ArrayTaskId=(?P<ArrayTaskId>\d+))?(?: \w+=\S*)*"
    r" ExitCode=(?P<ExitCode>\d+:\d+) ?"
)
"""Parts of a line between which users write freely (filetxt_jobcomp.c of Slurm 22.05)."""
FIELDS = "JobID,JobName,State,ExitCode,Start,End,Partition,NodeList"
"""What sacct is asked of each job, in its own words (sacct(1))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingRow:
    """What the accounting keeps of a job."""

    tag: JobTag
    job_id: int
    """Slurm's number; of the whole array where it is one."""
    element: int
    """Index in its array, or WHOLE."""
    word: str
    """Slurm's word for the state, in which it may also be unended."""
    exit_status: int | None
    signal: int | None
    started: float | None
    ended: float | None
    partition: str | None
    node: str | None

    @property
    def by_itself(self) -> bool:
        """Whether the command came to its own end, which the script of the job writes down, too."""
        return self.word == "COMPLETED" or (self.word == "FAILED" and self.exit_status is not None)


@dataclass(frozen=True, slots=True)
class AccountingAnswer:
    """An answer of the accounting."""

    rows: Mapping[tuple[JobTag, int], Sequence[AccountingRow]]
    """All rows of a job, in the order in which they were written."""
    complete: bool
    """Whether a job that has ended must be in it; not where there is no accounting, or none we may read."""


def read_past(
    tools: Tools, config: Mapping[str, str], requested: Mapping[JobTag, str], since: float
) -> AccountingAnswer:
    """What is known of this user's submissions since a time; `requested` has the name of each in Slurm.

    Raises GridwrightError (ENVIRONMENT) where the database does not answer.
    """
    if not requested:
        return AccountingAnswer({}, complete=True)
    if "slurmdbd" in config.get("AccountingStorageType", ""):
        return _from_database(tools, requested, since)
    kind = config.get("JobCompType", "jobcomp/none")
    if kind == "jobcomp/filetxt" and (past := _from_file(tools, config.get("JobCompLoc", ""), requested)):
        return past
    if kind != "jobcomp/none":
        return _from_sacct_c(tools, requested)
    return AccountingAnswer({}, complete=False)


def _chosen(
    rows: Sequence[AccountingRow | None], requested: Mapping[JobTag, str], *, complete: bool
) -> AccountingAnswer:
    found: dict[tuple[JobTag, int], list[AccountingRow]] = {}
    for row in rows:
        if row is not None and row.tag in requested:
            found.setdefault((row.tag, row.element), []).append(row)
    return AccountingAnswer(found, complete)


def believed_row(
    rows: Sequence[AccountingRow], job_id: int | None, script_status: int | None
) -> AccountingRow | None:
    """The row that says how a job of ours has ended; None where none is believed.

    `job_id` is Slurm's number where it is known, `script_status` what the script of the last run wrote down:
    it does so whenever the command ended by itself, in a directory that no other user can write.
    """
    wrote = None if script_status is None else decode_end(script_status, 0)
    matching = [row for row in rows if job_id is None or row.job_id == job_id]
    by_itself = [row for row in matching if row.by_itself]
    agreeing = [row for row in by_itself if (row.exit_status, row.signal) == wrote]
    return next(iter(agreeing[::-1] or [row for row in matching if row not in by_itself][::-1]), None)


def _from_file(tools: Tools, path: str, requested: Mapping[JobTag, str]) -> AccountingAnswer | None:
    rows: list[AccountingRow | None] = []
    tags = [str(tag) for tag in requested]
    for first in range(0, len(tags), _AT_ONCE):
        patterns = [part for tag in tags[first : first + _AT_ONCE] for part in ("-e", f"~{tag} ")]
        answer = tools.head.run(["grep", "-aF", *patterns, "--", path], timeout_s=60.0)
        if answer.status > 1:
            return None
        lines = answer.stdout.decode(errors="replace").split("\n")
        rows += [parse_completion(line, os.geteuid()) for line in lines]
    return _chosen(rows, requested, complete=True)


def _from_database(tools: Tools, requested: Mapping[JobTag, str], since: float) -> AccountingAnswer:
    rows: list[AccountingRow | None] = []
    names = list(requested.values())
    # A day earlier: the clocks of the head node and of this machine need not agree, nor their zones.
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since - 86_400))
    for first in range(0, len(names), _AT_ONCE):
        chosen = ",".join(names[first : first + _AT_ONCE])
        command = ["sacct", "-n", "-P", "-X", *_own(), "-S", start, f"--name={chosen}", f"--format={FIELDS}"]
        rows += [parse_sacct(line) for line in tools.query(command).decode(errors="replace").splitlines()]
    return _chosen(rows, requested, complete=True)


def _from_sacct_c(tools: Tools, requested: Mapping[JobTag, str]) -> AccountingAnswer:
    try:
        output = tools.once(["sacct", "-c", "-n", "-P", *_own(), f"--format={FIELDS}"], timeout_s=60.0).stdout
    except (ToolRefused, GridwrightError):
        return AccountingAnswer({}, complete=False)
    rows = [parse_sacct(line) for line in output.decode(errors="replace").splitlines()]
    return _chosen(rows, requested, complete=False)


def _own() -> list[str]:
    """Jobs of this user alone: root is shown those of all, and their names may hold lines."""
    return ["-u", str(os.geteuid())]


def completion_fields(line: str) -> Mapping[str, str | None] | None:
    """The fields of a line of jobcomp/filetxt; None where it is no whole one.

    Name and directory may hold anything, also what looks like a field.
    """
    head, at, end = _HEAD.match(line), line.rfind(" ReservationName="), line.rfind(" SubmitTime=")
    if head is None or not head.end() < at < end:
        return None
    middle = _MIDDLE.search(line, head.end(), at)
    account, tail = _ACCOUNT.match(line, at, end), _TAIL.fullmatch(line, end)
    if middle is None or account is None or tail is None:
        return None
    name = {"Name": line[head.end() : middle.start()]}
    return head.groupdict() | name | middle.groupdict() | account.groupdict() | tail.groupdict()


def parse_completion(line: str, uid: int) -> AccountingRow | None:
    """A line of jobcomp/filetxt; None where it is no job of ours, of the user with this number."""
    fields = completion_fields(line)
    if fields is None or fields["uid"] != str(uid):
        return None
    tag = tag_of(fields["Name"] or "")
    if tag is None:
        return None
    exit_status, signal = _end(fields["ExitCode"] or "")
    element = fields["ArrayTaskId"]
    return AccountingRow(
        tag=tag,
        job_id=int(fields["ArrayJobId"] or fields["JobId"] or 0),
        element=WHOLE if element is None else int(element),
        word=fields["JobState"] or "",
        exit_status=exit_status,
        signal=signal,
        started=moment(fields["StartTime"]),
        ended=moment(fields["EndTime"]),
        partition=fields["Partition"],
        node=_node(fields["NodeList"] or ""),
    )


def parse_sacct(line: str) -> AccountingRow | None:
    """A line of sacct -P in our format; None where it is no job of ours, or elements that have not begun."""
    cells = line.split("|")
    if len(cells) != len(FIELDS.split(",")):
        return None
    identifier, name, state, code, started, ended, partition, node = cells
    tag, parts = tag_of(name), split_identifier(identifier)
    if tag is None or parts is None or not state:
        return None
    exit_status, signal = _end(code)
    return AccountingRow(
        tag=tag,
        job_id=int(parts[0]),
        element=WHOLE if parts[1] is None else parts[1],
        word=state.split()[0].rstrip("+"),
        exit_status=exit_status,
        signal=signal,
        started=moment(started),
        ended=moment(ended),
        partition=partition or None,
        node=_node(node),
    )


def _end(code: str) -> tuple[int | None, int | None]:
    match = re.fullmatch(r"(\d+):(\d+)", code)
    return decode_end(int(match[1]), int(match[2])) if match else (None, None)


def _node(text: str) -> str | None:
    return None if text in ("", "(null)", "None") or text.startswith("None ") else text


def moment(text: str | None) -> float | None:
    """Seconds since 1970, or a time of the head node's zone, which is taken to be ours."""
    if text is None:
        return None
    if text.isdigit():
        return float(text) or None
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None
