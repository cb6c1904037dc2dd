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
from gridwright.schedulers.batch.identifiers import split_identifier
from gridwright.schedulers.job_tag import JobTag, tag_of
from gridwright.schedulers.slurm.queue import QueueRow, decode_end
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


@dataclass(frozen=True, slots=True)
class AccountingAnswer:
    """An answer of the accounting."""

    rows: Mapping[tuple[JobTag, int], Sequence[QueueRow]]
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
    rows: Sequence[QueueRow | None], requested: Mapping[JobTag, str], *, complete: bool
) -> AccountingAnswer:
    found: dict[tuple[JobTag, int], list[QueueRow]] = {}
    for row in rows:
        if row is not None and (tag := row.tag) in requested and tag is not None:
            found.setdefault((tag, row.elements[0]), []).append(row)
    return AccountingAnswer(found, complete)


def believed_row(rows: Sequence[QueueRow], job_id: int | None, script_status: int | None) -> QueueRow | None:
    """The row that says how a job of ours has ended; None where none is believed.

    `job_id` is Slurm's number where it is known, `script_status` what the script of the last run wrote down:
    it does so whenever the command ended by itself, in a directory that no other user can write.
    """
    wrote = None if script_status is None else decode_end(script_status, 0)
    matching = [row for row in rows if job_id is None or row.job_id == job_id]
    # The command came to its own end, which the script of the job writes down, too.
    by_itself = [
        row
        for row in matching
        if row.words == ("COMPLETED",) or (row.words == ("FAILED",) and row.exit_status is not None)
    ]
    agreeing = [row for row in by_itself if (row.exit_status, row.signal) == wrote]
    return next(iter(agreeing[::-1] or [row for row in matching if row not in by_itself][::-1]), None)


def _from_file(tools: Tools, path: str, requested: Mapping[JobTag, str]) -> AccountingAnswer | None:
    rows: list[QueueRow | None] = []
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
    rows: list[QueueRow | None] = []
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


def parse_completion(line: str, uid: int) -> QueueRow | None:
    """A line of jobcomp/filetxt; None where it is no job of ours, of the user with this number."""
    fields = completion_fields(line)
    if fields is None or fields["uid"] != str(uid):
        return None
    element = fields["ArrayTaskId"]
    return _row(
        (int(fields["ArrayJobId"] or fields["JobId"] or 0), None if element is None else int(element)),
        fields["Name"] or "",
        fields["JobState"] or "",
        {name: fields[name] or "" for name in ("ExitCode", "StartTime", "EndTime", "Partition", "NodeList")},
    )


def parse_sacct(line: str) -> QueueRow | None:
    """A line of sacct -P in our format; None where it is no job of ours, or elements that have not begun."""
    cells = line.split("|")
    if len(cells) != len(FIELDS.split(",")):
        return None
    fields = dict(zip(FIELDS.split(","), cells, strict=True))
    parts = split_identifier(fields["JobID"])
    if parts is None or not fields["State"]:
        return None
    times = {"StartTime": fields["Start"], "EndTime": fields["End"]}
    word = fields["State"].split()[0].rstrip("+")
    return _row((int(parts[0]), parts[1]), fields["JobName"], word, fields | times)


def _row(job: tuple[int, int | None], name: str, word: str, fields: Mapping[str, str]) -> QueueRow | None:
    """A row of the accounting, of a number and an index in an array; None where the job is not ours."""
    if tag_of(name) is None:
        return None
    exit_status, signal = _end(fields["ExitCode"])
    return QueueRow(
        job_id=job[0],
        indices=None if job[1] is None else (job[1],),
        name=name,
        words=(word,),
        queue=fields["Partition"] or None,
        node=_node(fields["NodeList"]),
        started=moment(fields["StartTime"]),
        ended=moment(fields["EndTime"]),
        exit_status=exit_status,
        signal=signal,
        accounted=True,
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
