"""Reads jobs from bjobs -o FIELDS -json, and how they ended from bhist, where bjobs no longer has them.

LSF forgets jobs after CLEAN_PERIOD. Termination reasons are those that IBM lists for 10.1.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.system import BatchRow, BatchTools
from gridwright.schedulers.job import JobState
from gridwright.schedulers.job_tag import JobTag, tag_of
from gridwright.schedulers.lsf.commands import plain_node, records, says

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
