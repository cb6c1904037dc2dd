"""Reads the ends of jobs that Slurm's queue no longer knows, from the file of jobcomp/filetxt or from sacct.

`sacct -c` reads that file too, but of an element of an array it shows neither the array nor the index
(22.05), so the file is searched for our tokens directly. A job that was requeued has a line for each run; the
last counts.
"""

from __future__ import annotations

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
_FIELDS = "JobID,JobName,StateMeaning,ExitCode,Start,End,Partition,NodeList"


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


@dataclass(frozen=True, slots=True)
class AccountingAnswer:
    """An answer of the accounting."""

    rows: Mapping[tuple[JobTag, int], AccountingRow]
    complete: bool
    """Whether a job that has ended must be in it; not where there is no accounting, or none we may read."""


def read_past(
    tools: Tools, config: Mapping[str, str], wanted: Mapping[JobTag, str], since: float
) -> AccountingAnswer:
    """What is known of submissions since a time; `wanted` has the name of each in Slurm.

    Raises GridwrightError (ENVIRONMENT) where the database does not answer.
    """
    if not wanted:
        return AccountingAnswer({}, complete=True)
    if "slurmdbd" in config.get("AccountingStorageType", ""):
        return _from_database(tools, wanted, since)
    kind = config.get("JobCompType", "jobcomp/none")
    if kind == "jobcomp/filetxt" and (past := _from_file(tools, config.get("JobCompLoc", ""), wanted)):
        return past
    if kind != "jobcomp/none":
        return _from_sacct_c(tools, wanted)
    return AccountingAnswer({}, complete=False)


def _chosen(
    rows: Sequence[AccountingRow | None], wanted: Mapping[JobTag, str], *, complete: bool
) -> AccountingAnswer:
    found = {(row.tag, row.element): row for row in rows if row is not None and row.tag in wanted}
    return AccountingAnswer(found, complete)


def _from_file(tools: Tools, path: str, wanted: Mapping[JobTag, str]) -> AccountingAnswer | None:
    rows: list[AccountingRow | None] = []
    tags = [str(tag) for tag in wanted]
    for first in range(0, len(tags), _AT_ONCE):
        patterns = [part for tag in tags[first : first + _AT_ONCE] for part in ("-e", f"~{tag} ")]
        answer = tools.head.run(["grep", "-aF", *patterns, "--", path], timeout_s=60.0)
        if answer.status > 1:
            return None
        rows += [parse_completion(line) for line in answer.stdout.decode(errors="replace").splitlines()]
    return _chosen(rows, wanted, complete=True)


def _from_database(tools: Tools, wanted: Mapping[JobTag, str], since: float) -> AccountingAnswer:
    rows: list[AccountingRow | None] = []
    names = list(wanted.values())
    # A day earlier: the clocks of the head node and of this machine need not agree, nor their zones.
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since - 86_400))
    for first in range(0, len(names), _AT_ONCE):
        chosen = ",".join(names[first : first + _AT_ONCE])
        command = ["sacct", "-n", "-P", "-X", "-S", start, f"--name={chosen}", f"--format={_FIELDS}"]
        rows += [parse_sacct(line) for line in tools.query(command).decode(errors="replace").splitlines()]
    return _chosen(rows, wanted, complete=True)


def _from_sacct_c(tools: Tools, wanted: Mapping[JobTag, str]) -> AccountingAnswer:
    try:
        output = tools.once(["sacct", "-c", "-n", "-P", f"--format={_FIELDS}"], timeout_s=60.0).stdout
    except (ToolRefused, GridwrightError):
        return AccountingAnswer({}, complete=False)
    rows = [parse_sacct(line) for line in output.decode(errors="replace").splitlines()]
    return _chosen(rows, wanted, complete=False)


def parse_completion(line: str) -> AccountingRow | None:
    """A line of jobcomp/filetxt; None where it is no job of ours. The directory in it may hold anything."""
    head, _, tail = line.partition(" WorkDir=")
    before = dict(re.findall(r"(?:^| )(\w+)=(\S*)", head))
    after = dict(re.findall(r" (\w+)=(\S*)", tail[tail.rfind(" SubmitTime=") :]))
    tag = tag_of(before.get("Name", ""))
    if tag is None or not {"JobId", "JobState"} <= before.keys():
        return None
    exit_status, signal = _end(after.get("ExitCode", ""))
    element = after.get("ArrayTaskId", "")
    return AccountingRow(
        tag=tag,
        job_id=int(after.get("ArrayJobId") or before["JobId"]),
        element=int(element) if element.isdigit() else WHOLE,
        word=before["JobState"],
        exit_status=exit_status,
        signal=signal,
        started=moment(before.get("StartTime", "")),
        ended=moment(before.get("EndTime", "")),
        partition=before.get("Partition"),
        node=_node(before.get("NodeList", "")),
    )


def parse_sacct(line: str) -> AccountingRow | None:
    """A line of sacct -P in our format; None where it is no job of ours, or elements that have not begun."""
    cells = line.split("|")
    if len(cells) != len(_FIELDS.split(",")):
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
    found = re.fullmatch(r"(\d+):(\d+)", code)
    return decode_end(int(found[1]), int(found[2])) if found else (None, None)


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
