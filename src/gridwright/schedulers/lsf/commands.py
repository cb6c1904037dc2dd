"""LSF's section of a grid spec, its commands on the head node, and jobs as bjobs and bhist tell them.

LSF forgets jobs after CLEAN_PERIOD. Termination reasons are those that IBM lists for 10.1.
"""

from __future__ import annotations

import csv
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gridwright.commands import CommandOutput
from gridwright.errors import environment_error
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.system import Answered, BatchRow, BatchTools
from gridwright.schedulers.head_node import HeadNode, check_run
from gridwright.schedulers.job import JobState, JobTag, tag_of
from gridwright.spec.fields import Directory
from gridwright.spec.model import GridSpec
from gridwright.spec.scheduler import LATER_JOBS, REPLACED, SchedulerSection


class LsfSection(SchedulerSection):
    """An IBM Spectrum LSF that is there already: Gridwright does not set it up."""

    knows_nodes: ClassVar[bool] = True
    is_of_sites_alone: ClassVar[bool] = True
    job_options: ClassVar[frozenset[str]] = frozenset(
        {
            *("account", "qos", "reservation", "licences", "gres", "constraint", "begin", "mail"),
            *("stdin", "stdout", "stderr"),
        }
    )
    job_options_instead: ClassVar[Mapping[str, str]] = {
        "nice": "name a queue with a lower priority, with --queue: LSF orders jobs by queue and share"
    }
    dependency_types: ClassVar[frozenset[str]] = frozenset({"ok", "any", "not-ok", "each"})

    type: Annotated[Literal["lsf"], REPLACED] = Field(
        description="The kind of scheduler: lsf is an IBM Spectrum LSF that is there already."
    )
    profile: Annotated[Directory | None, LATER_JOBS] = Field(
        default=None,
        description="The file profile.lsf on the head node, which sets what LSF's commands need. By default "
        "they are found in PATH.",
    )
    owner: Annotated[str | None, LATER_JOBS] = Field(
        default=None,
        description="The account that profile belongs to, such as lsfadmin, where that is not root's: it "
        "could run anything as whoever runs gridwright.",
    )
    project: Annotated[str | None, LATER_JOBS] = Field(
        default=None, description="The project that jobs are charged to, as bsub -P has it."
    )
    queue: Annotated[str | None, LATER_JOBS] = Field(
        default=None, description="The queue of jobs that name none. By default LSF's own default queue."
    )


def section_of(spec: GridSpec) -> LsfSection:
    """The section of a spec whose scheduler is LSF. Raises TypeError for another."""
    if not isinstance(spec.scheduler, LsfSection):
        raise TypeError(f"{spec.scheduler.type} is not lsf")
    return spec.scheduler


_WORD = re.compile(r"TERM_[A-Z_]+")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended."""

    state: JobState
    reason: str | None = None
    exit_status: int | None = None
    signal: int | None = None


def ending(stat: str, exit_code: str, reason: str) -> Ending:
    """How a job ended that LSF has as DONE or EXIT, with its exit code and its termination reason."""
    if stat == "DONE":
        return Ending(JobState.COMPLETED, exit_status=0)
    code = int(exit_code) if exit_code.isdigit() else None
    status = code if code is not None and code <= 128 else None
    signal = code - 128 if code is not None and code > 128 else None
    word = _WORD.search(reason)
    if word is None:
        return Ending(JobState.FAILED, None, status, signal)
    state, sentence = _terminations().get(word[0], (JobState.FAILED, f"LSF says {word[0]}"))
    if state is JobState.FAILED:
        return Ending(state, sentence or None, status, signal)
    return Ending(state, sentence or None)


@cache
def _terminations() -> dict[str, tuple[JobState, str]]:
    with (Path(__file__).parent / "data" / "terminations.csv").open(newline="", encoding="utf-8") as file:
        return {row["word"]: (JobState(row["state"]), row["sentence"]) for row in csv.DictReader(file)}


FIELDS = (
    "jobid jobindex stat queue job_description exec_host exit_code exit_reason start_time finish_time "
    "max_mem pend_reason"
)
"""Names of fields of bjobs -o (IBM Spectrum LSF 10.1, command reference)."""
DESCRIPTION = "gridwright "
"""What the description of our jobs begins with (bsub -Jd); the tag follows."""
_FACTORS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_RUNNING = {"RUN": None, "SSUSP": "LSF has suspended it", "USUSP": "it is suspended (bstop)"}
_LOST = {"UNKWN": "its node does not answer", "ZOMBI": "its node does not answer, and it is to be ended"}


def description(tag: JobTag) -> str:
    """The description of a job in LSF."""
    return f"{DESCRIPTION}~{tag}"


def read_queue(tools: BatchTools) -> list[BatchRow]:
    """The jobs of this user and of Gridwright, also those that ended within CLEAN_PERIOD.

    Raises GridwrightError (ENVIRONMENT).
    """
    return list(rows(records(tools, ["bjobs", "-a", "-o", FIELDS, "-json"])))


def rows(found: Sequence[Mapping[str, str]]) -> Iterator[BatchRow]:
    """The rows of jobs that are ours."""
    for each in found:
        tag = tag_of(each.get("JOB_DESCRIPTION", ""))
        number = re.match(r"(\d+)(?:\[(\d+)\])?$", each.get("JOBID", ""))
        if tag is None or number is None:
            continue
        index = number[2] or each.get("JOBINDEX", "0")
        position = int(index) if index.isdigit() and int(index) else WHOLE
        yield _row(each, int(number[1]), position, tag)


def _row(each: Mapping[str, str], number: int, position: int, tag: JobTag) -> BatchRow:
    stat = each.get("STAT", "")
    state, reason, exit_status, signal = JobState.WAITING, None, None, None
    if stat in ("DONE", "EXIT"):
        end = ending(stat, each.get("EXIT_CODE", ""), each.get("EXIT_REASON", ""))
        state, reason, exit_status, signal = end.state, end.reason, end.exit_status, end.signal
    elif stat in _RUNNING:
        state, reason = JobState.RUNNING, _RUNNING[stat]
    elif stat in _LOST:
        state, reason = JobState.RUNNING, _LOST[stat]
    else:
        reason = each.get("PEND_REASON", "").strip().rstrip(";").replace("; ", ", ") or None
        if stat == "PSUSP":
            reason = "it is held (bstop)"
    return BatchRow(
        number=number,
        tag=tag,
        positions=(position,),
        state=state,
        exit_status=exit_status,
        signal=signal,
        reason=reason,
        node=plain_node(each.get("EXEC_HOST", "")),
        queue=each.get("QUEUE") or None,
        started=moment(each.get("START_TIME", "")),
        ended=moment(each.get("FINISH_TIME", "")) if state.final else None,
        most_bytes=size(each.get("MAX_MEM", "")),
    )


def moment(text: str, now: float | None = None) -> float | None:
    """Seconds since 1970 of a time such as `Nov 25 02:38`, to the minute; it has no year, and is not to come.

    What follows, as in `Nov 25 02:38 L`, says how it is meant.
    """
    match = re.match(r"([A-Z][a-z]{2}\s+\d+ \d+:\d+(?::\d+)?)(?: (\d{4}))?", text)
    if match is None:
        return None
    today = time.localtime(now)
    form = "%b %d %H:%M:%S %Y" if match[1].count(":") == 2 else "%b %d %H:%M %Y"
    for year in (int(match[2]) if match[2] else today.tm_year, today.tm_year - 1):
        try:
            seconds = time.mktime(time.strptime(f"{match[1]} {year}", form))
        except ValueError:
            continue
        if match[2] or seconds <= time.mktime(today) + 86_400.0:
            return seconds
    return None


def size(text: str, unit: int = 1) -> int:
    """A size such as `522 MBytes` or `5.2G` in bytes; 0 where there is none. `unit` if it names none."""
    match = re.match(r"([0-9.]+)\s*([KMGT]?)", text)
    return int(float(match[1]) * (_FACTORS[match[2]] if match[2] else unit)) if match else 0


_AT_ONCE = 200
_JOB = re.compile(r"^Job <(\d+)(?:\[(\d+)\])?>,(.*)$", re.MULTILINE)
EVENT = re.compile(r"^[A-Z][a-z]{2} ([A-Z][a-z]{2}\s+\d+ \d+:\d+:\d+(?: \d{4})?): (.*)$", re.MULTILINE)
"""A line of a job's history: when, and what."""


def read_history(tools: BatchTools, requested: Mapping[JobTag, int | None]) -> list[BatchRow]:
    """What bhist has of these jobs, by their numbers. Raises GridwrightError (ENVIRONMENT)."""
    numbers = [str(number) for number in requested.values() if number is not None]
    rows: list[BatchRow] = []
    for first in range(0, len(numbers), _AT_ONCE):
        command = ["bhist", "-a", "-l", "-UF", "-n", "0", *numbers[first : first + _AT_ONCE]]
        printed = tools.query(command, allowed=says)
        rows += [row for row in parse_history(printed.decode(errors="replace")) if row.tag in requested]
    return rows


def job_blocks(text: str) -> Iterator[tuple[re.Match[str], list[tuple[str, str]], str]]:
    """What bhist -l -UF and bacct -l -UF print of each job: its first line, its events, and all of it.

    The first line has number, index in an array and the rest; an event has its time and what it was.
    """
    begins = list(_JOB.finditer(text))
    for named, end in zip(begins, [*(each.start() for each in begins[1:]), len(text)], strict=True):
        events = [(each[1], each[2]) for each in EVENT.finditer(text, named.start(), end)]
        yield named, events, text[named.start() : end]


def parse_history(text: str) -> Iterator[BatchRow]:
    """The ends in what `bhist -l -UF` prints: a block for each job, with a line for each event."""
    for named, events, block in job_blocks(text):
        described = re.search(r"Job Description <([^>]*)>", block)
        tag = tag_of(described[1]) if described else None
        if tag is None or (how := _ending(events)) is None:
            continue
        started = next((when for when, what in events if what.startswith(("Started", "Starting"))), "")
        node = next((each for _, what in events if (each := _node(what)) is not None), None)
        yield BatchRow(
            number=int(named[1]),
            tag=tag,
            positions=(int(named[2]) if named[2] else WHOLE,),
            state=how.state,
            exit_status=how.exit_status,
            signal=how.signal,
            reason=how.reason,
            node=node,
            started=moment(started),
            ended=moment(events[-1][0]),
        )


def _node(event: str) -> str | None:
    found = re.search(r"(?:Dispatched|Started)[^<]*(?:<\d+>[^<]*)?<([^>]*)>", event)
    return plain_node(found[1]) if found else None


def _ending(events: Sequence[tuple[str, str]]) -> Ending | None:
    """How a job ended by its events; None where it has not."""
    stat, code, reason = "", "", ""
    for _, what in events:
        if what.startswith("Done successfully"):
            stat = "DONE"
        elif exited := re.match(r"Exited with exit code (\d+)", what):
            stat, code = "EXIT", exited[1]
        elif signalled := re.match(r"Exited by signal (\d+)", what):
            stat, code = "EXIT", str(128 + int(signalled[1]))
        elif what.startswith(("Exited", "Completed <exit>")):
            stat = "EXIT"
        reason = what if "TERM_" in what else reason
    return ending(stat, code, reason) if stat else None


_AWAY = (
    "lsf is down",
    "cannot connect to lsf",
    "failed in an lsf library call",
    "lim is down",
    "batch daemon not responding",
    "cannot locate master",
    "unable to contact",
)
"""What LSF's commands say while mbatchd or LIM do not answer; they try again by themselves and wait."""
_UNCLEAR = ("communication time out", "connection reset", "bad data", "error in receiving")
NO_JOBS = ("no unfinished job found", "no job found", "no matching job found")
_OURS = (
    "LSB_BJOBS_FORMAT",
    "LSB_BHOSTS_FORMAT",
    "LSB_BQUEUES_FORMAT",
    "LSB_DEFAULTQUEUE",
    "LSB_DEFAULTPROJECT",
)
"""Variables of the caller's that would change what the commands print."""


def tools(section: LsfSection, head: HeadNode) -> BatchTools:
    """The commands, as the section finds them. Raises as `check_run`."""
    environment = {name: value for name, value in os.environ.items() if name not in _OURS}
    environment |= {"LC_ALL": "C", "LSB_NTRIES": "3", "LSB_DISPLAY_YEAR": "Y"}
    prefix: Sequence[str] = ()
    if section.profile is not None:
        instead = "source it in the shell that runs gridwright, without `profile`"
        check_run(head, section.profile, instead, section.owner)
        prefix = ("/bin/sh", "-c", '. "$0" && exec "$@"', str(section.profile))
    return BatchTools(head, "LSF", environment, meaning, prefix)


def meaning(said: str) -> Answered:
    """Whether a message says that mbatchd was not reached, or that it is not clear, or something else."""
    folded = said.lower()
    if any(each in folded for each in _UNCLEAR):
        return Answered.UNCLEAR
    return Answered.AWAY if any(each in folded for each in _AWAY) else Answered.YES


def says(answer: CommandOutput, texts: Sequence[str] = NO_JOBS) -> bool:
    """Whether a command printed one of some texts; by default that there are no such jobs."""
    printed = (answer.stdout + answer.stderr).decode(errors="replace").lower()
    return any(each in printed for each in texts)


def records(
    tools: BatchTools, command: Sequence[str], *, allowed: Callable[[CommandOutput], bool] = lambda _: False
) -> list[dict[str, str]]:
    """The records that a command prints with -o FIELDS -json, by the names of fields in capitals.

    Raises GridwrightError (ENVIRONMENT) where it is no such JSON.
    """
    printed = tools.query(command, allowed=lambda answer: says(answer) or allowed(answer))
    text = printed.decode("utf-8", errors="replace")
    begin = text.find("{")
    if begin < 0:
        if not text.strip() or any(each in text.lower() for each in NO_JOBS):
            return []
        raise _unreadable(command, text)
    try:
        # Control characters stand in its strings as they are.
        found = json.JSONDecoder(strict=False).raw_decode(text[begin:])[0]["RECORDS"]
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(command, str(error)) from error
    return [
        {str(name): str(value) for name, value in each.items()}
        for each in found
        if isinstance(each, dict) and "ERROR" not in each
    ]


def _unreadable(command: Sequence[str], why: str) -> Exception:
    return environment_error(
        f"what {command[0]} prints cannot be read as JSON: {why.strip()[:200]}",
        remedy=f"run {command[0]} -o FIELDS -json by hand; LSF has it since 10.1 with Fix Pack 2",
    )


def plain_node(text: str) -> str | None:
    """The first host of an allocation: hostA of `hostA:hostA` and of `4*hostA`; None for no host."""
    first = re.sub(r"^\d+\*", "", text.partition(":")[0].strip())
    return None if first in ("", "-") else first
