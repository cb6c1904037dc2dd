"""Runs Slurm's command-line tools on the head node, and reads its queue.

Tools run with time-outs, retries and a clean environment. One call of squeue is for all jobs of this user,
including those that ended recently.

Translates Slurm's states, reasons and error messages, with three tables of the package. Sources: states,
squeue(1) JOB STATE CODES and the state flags of the REST API; reasons, Slurm's page of job reason codes;
refusals, the messages of Slurm's error numbers and what sbatch 22.05 prints.

For 1000 ended jobs, 22.05 makes 3.8 MB of JSON in 0.36 s, and 0.1 MB of text in 0.04 s (one run here).

Parses what `squeue --json` prints, for releases 22.05 to 24.11.

The forms that are read:
- 22.05 (plugin openapi/v0.0.38): numbers and null, one word for the state, the exit code as wait(2) has it.
  Tests hold a recording of 22.05.8.
- 23.02 (data_parser/v0.0.39): some numbers as {set, infinite, number}.
- 23.11 to 24.11 (v0.0.40 to v0.0.42): times so too, the state as a list of words, the exit code as
  {status, return_code, signal: {id, name}}.
The newer ones are held by samples built after Slurm's OpenAPI description, not recorded.
Arguments of jobs are in there byte for byte, so that it need not be UTF-8.
"""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from gridwright.commands import CommandNotStarted, CommandOutput
from gridwright.errors import GridwrightError, environment_error, input_error
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.system import PATIENCE_S, ServiceDown, retrying
from gridwright.schedulers.head_node import HeadNode, HeadNodeUnreachable
from gridwright.schedulers.job import JobState, JobTag, tag_of
from gridwright.schedulers.job_request import expand_indices

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class StateMeaning:
    """What a word of Slurm for a state means."""

    state: JobState
    sentence: str
    """Why, in words; empty where the state says it."""


@dataclass(frozen=True, slots=True)
class ReasonMeaning:
    """Why a job waits or has ended."""

    word: str
    """Slurm's, such as AssocGrpCpuLimit."""
    sentence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a message of Slurm's tools means."""

    kind: str
    """away: the request did not arrive; unclear: it may have; broken: trying again does not help; input: it
    was understood and refused."""
    what: str
    remedy: str
    message: str
    """As the tool printed it, in one line."""


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (_DATA / name).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


@cache
def _states() -> dict[str, StateMeaning]:
    return {row["word"]: StateMeaning(JobState(row["state"]), row["sentence"]) for row in _rows("states.csv")}


@cache
def _reasons() -> tuple[ReasonMeaning, ...]:
    return tuple(ReasonMeaning(row["word"], row["sentence"], row["remedy"]) for row in _rows("reasons.csv"))


@cache
def _refusals() -> tuple[tuple[str, Refusal], ...]:
    return tuple(
        (row["text"].lower(), Refusal(row["kind"], row["what"], row["remedy"], ""))
        for row in _rows("refusals.csv")
    )


_UNKNOWN = "correct what Slurm names, and try again; where that is right, ask who runs Slurm"
"""What to do about a message that no table has."""


def job_state(words: Sequence[str]) -> StateMeaning:
    """Our state for Slurm's: its base state, followed by flags in the newer JSON.

    A job that is completing still holds its node and is not final. A word that is newer than this
    release counts as running, so that nothing is taken for final that is not.
    """
    table = _states()
    named = [word.split()[0].upper() if word.split() else "" for word in words]
    for flag in ("COMPLETING", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUED"):
        if flag in named:
            return table[flag]
    for word in named:
        if word in table:
            return table[word]
    return StateMeaning(JobState.RUNNING, f"Slurm says {', '.join(words) or 'nothing'}")


def reason(text: str) -> ReasonMeaning:
    """What a reason means; `text` is its word, or that and more: ReqNodeNotAvail, UnavailableNodes:n1."""
    word = text.strip("()").replace(",", " ").split(" ")[0]
    for each in _reasons():
        if each.word == word or ("*" in each.word and fnmatchcase(word, each.word)):
            return ReasonMeaning(word, each.sentence, each.remedy)
    return ReasonMeaning(word, f"Slurm says {text.strip('()')}", "")


def refusal(stderr: str) -> Refusal:
    """What the message of a tool that failed means; `input`, with its own text, where it is not known."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("Try ")] or ["it gave no reason"]
    message = "; ".join(lines)[:600]
    folded = message.lower()
    for text, each in _refusals():
        if text in folded:
            return Refusal(each.kind, each.what, each.remedy, message)
    return Refusal("input", "Slurm refuses it", _UNKNOWN, message)


ANSWER_S = 20.0
"""The longest that one tool may take; the tools themselves give up after MessageTimeout, 10 s by default."""

RESPECTED = frozenset(
    {
        "SBATCH_ACCOUNT",
        "SBATCH_CONSTRAINT",
        "SBATCH_PARTITION",
        "SBATCH_QOS",
        "SBATCH_RESERVATION",
        "SBATCH_TIMELIMIT",
        "SBATCH_WCKEY",
        "SLURM_CONF",
    }
)
"""Variables of the caller's that hold for sbatch: who pays, where, how long. An option given explicitly wins,
as sbatch(1) says. Others of Slurm's would change what jobs are (SBATCH_ARRAY_INX, SBATCH_EXPORT, or
SLURM_MEM_PER_CPU of a job that submits) or what the tools print (SQUEUE_FORMAT), and are not handed on."""

_SLURMS = ("SLURM", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_", "SINFO_")


class ToolRefused(Exception):
    """A tool of Slurm failed, or did not end in time."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Tools:
    """The tools of one Slurm."""

    def __init__(self, head: HeadNode, environment: Mapping[str, str] | None = None) -> None:
        self.head = head
        self._environment = _environment(os.environ if environment is None else environment)

    def once(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = ANSWER_S
    ) -> CommandOutput:
        """Run a tool once. Raises ToolRefused where it failed; kind `unclear`: it did not end in time.

        Raises GridwrightError (ENVIRONMENT) where it cannot be started.
        """
        try:
            answer = self.head.run(command, stdin=stdin, environment=self._environment, timeout_s=timeout_s)
        except CommandNotStarted as error:
            remedy = "install Slurm's client tools on the head node (Debian: slurm-client)"
            raise environment_error(error.problems[0].what, where=self.head.name, remedy=remedy) from error
        except HeadNodeUnreachable:
            raise
        except GridwrightError as error:
            late = "it has not answered in time"
            raise ToolRefused(Refusal("unclear", "slurmctld has not answered in time", "", late)) from error
        if answer.status != 0:
            raise ToolRefused(refusal(answer.stderr.decode(errors="replace")))
        return answer

    def query(self, command: Sequence[str], *, timeout_s: float = ANSWER_S) -> bytes:
        """What a tool that only reads, or that may be repeated, prints; tried again while nobody answers.

        Raises GridwrightError: ENVIRONMENT after PATIENCE_S, INPUT where Slurm understood and refused.
        """
        return retrying(PATIENCE_S)(self._query, command, timeout_s)

    def _query(self, command: Sequence[str], timeout_s: float) -> bytes:
        try:
            return self.once(command, timeout_s=timeout_s).stdout
        except ToolRefused as refused:
            raise self.error(refused.refusal, command[0]) from None

    def error(self, refusal: Refusal, tool: str) -> GridwrightError:
        """A refusal as the error that users see."""
        what = f"{refusal.what}: {tool} says {refusal.message}"
        if refusal.kind in ("away", "unclear"):
            return ServiceDown(environment_error(what, where=self.head.name, remedy=refusal.remedy or None))
        if refusal.kind == "broken":
            return environment_error(what, where=self.head.name, remedy=refusal.remedy or None)
        return input_error(what, remedy=refusal.remedy or None)


def _environment(caller: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value for name, value in caller.items() if name in RESPECTED or not name.startswith(_SLURMS)
    }
    # Times as seconds since 1970, and array ranges of any length: squeue(1), ENVIRONMENT VARIABLES.
    return kept | {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}


HIGHEST_SIGNAL = 64
"""Linux has signals 1 to 64; Slurm puts numbers of its own above, such as 125 for out of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A job, or those elements of an array that Slurm keeps together; queued, or accounted."""

    job_id: int
    """Of the whole array, where it is one."""
    indices: tuple[int, ...] | None
    """Elements that it stands for; None where it is no array."""
    name: str
    words: tuple[str, ...]
    """Slurm's words for the state: the base state, then flags."""
    reason: str = ""
    queue: str | None
    """Its partition."""
    user: str = ""
    node: str | None
    submitted: float | None = None
    started: float | None
    """Seconds since 1970; a time to come is an estimate, and is None here."""
    ended: float | None
    exit_status: int | None
    signal: int | None
    restarts: int = 0
    accounted: bool = False
    """Whether it is of the accounting, which also has an exit status for what never ran."""

    @property
    def tag(self) -> JobTag | None:
        """Ours, in its name; None for the jobs of others."""
        return tag_of(self.name)

    @property
    def elements(self) -> tuple[int, ...]:
        """What it stands for in our record: WHOLE alone where it is no array."""
        return (WHOLE,) if self.indices is None else self.indices


def decode_end(exit_status: int, signal: int) -> tuple[int | None, int | None]:
    """Exit status and signal of the command, out of those of our script.

    The script ends with the status that the shell gives: 128 + n where signal n ended the command.
    """
    if signal:
        return None, signal if signal <= HIGHEST_SIGNAL else None
    if 128 < exit_status <= 128 + HIGHEST_SIGNAL:
        return None, exit_status - 128
    return exit_status, None


def decode_wait_status(status: int) -> tuple[int | None, int | None]:
    """The same out of a status as wait(2) gives it, which squeue shows."""
    return decode_end(status >> 8 & 0xFF, status & 0x7F)


def parse_squeue_json(output: bytes, *, now: float | None = None) -> list[QueueRow]:
    """Rows of the queue. Raises ValueError where the document is none of the known forms."""
    document = json.loads(output.decode(errors="surrogateescape"))
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise ValueError("squeue --json printed no jobs")
    moment = time.time() if now is None else now
    try:
        return [_squeue_row(job, moment) for job in jobs]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"squeue --json printed an unknown form: {error!r}") from error


def _number(value: Any) -> int | None:  # noqa: ANN401
    """A number in either form; None where none is set."""
    if isinstance(value, Mapping):
        return int(value["number"]) if value.get("set") and not value.get("infinite") else None
    return None if value is None else int(value)


def _squeue_moment(value: Any, now: float) -> float | None:  # noqa: ANN401
    seconds = _number(value)
    return float(seconds) if seconds and seconds <= now + 1 else None


def _end(value: Any) -> tuple[int | None, int | None]:  # noqa: ANN401
    if isinstance(value, Mapping) and "return_code" in value:
        signal = value.get("signal") or {}
        number = _number(signal.get("id", signal.get("signal_id")))
        return decode_end(_number(value["return_code"]) or 0, number or 0)
    return decode_wait_status(_number(value) or 0)


def _squeue_row(job: Mapping[str, Any], now: float) -> QueueRow:
    array, element = _number(job["array_job_id"]), _number(job["array_task_id"])
    indices: tuple[int, ...] | None = None
    if array and element is not None:
        indices = (element,)
    elif array and job.get("array_task_string"):
        indices = expand_indices(job["array_task_string"])
    state = job["job_state"]
    exit_status, signal = _end(job["exit_code"])
    return QueueRow(
        job_id=array or int(job["job_id"]),
        indices=indices,
        name=job["name"],
        words=tuple(state) if isinstance(state, list) else (state,),
        reason=job.get("state_description") or job["state_reason"],
        queue=job["partition"],
        user=job.get("user_name") or "",
        node=job["nodes"] or None,
        submitted=_squeue_moment(job["submit_time"], now),
        started=_squeue_moment(job["start_time"], now),
        ended=_squeue_moment(job["end_time"], now),
        exit_status=exit_status,
        signal=signal,
        restarts=_number(job["restart_cnt"]) or 0,
    )


_COLUMNS = (
    "JobArrayID",
    "Name",
    "State",
    "exit_code",
    "RestartCnt",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "Partition",
    "UserName",
    "NodeList",
    "Reason",
)
SQUEUE_FORMAT = ",".join(f"{name}:|" for name in _COLUMNS[:-1]) + f",{_COLUMNS[-1]}:"
"""For squeue -O. A column without a width is not cut; only the reason, which is last, can have a |."""


def parse_squeue_text(output: bytes, *, now: float | None = None) -> list[QueueRow]:
    """Rows of the queue, out of what squeue -h -O SQUEUE_FORMAT prints with times in seconds since 1970.

    Raises ValueError for anything else.
    """
    moment = time.time() if now is None else now
    return [_row(line, moment) for line in output.decode(errors="replace").splitlines() if line.strip()]


def _moment(text: str, now: float) -> float | None:
    return float(text) if text.isdigit() and 0 < int(text) <= now + 1 else None


def _row(line: str, now: float) -> QueueRow:
    cells = [cell.strip() for cell in line.split("|", len(_COLUMNS) - 1)]
    if len(cells) != len(_COLUMNS):
        raise ValueError(f"squeue printed {line!r}")
    identifier, name, state, code, restarts, submitted, started, ended, partition, user, node, reason = cells
    job_id, is_array, elements = identifier.partition("_")
    status, colon, signal = code.partition(":")
    exit_status, ended_by = (
        decode_end(int(status), int(signal)) if colon else decode_wait_status(int(status or 0))
    )
    return QueueRow(
        job_id=int(job_id),
        indices=expand_indices(elements) if is_array else None,
        name=name,
        words=(state,),
        reason=reason,
        queue=partition,
        user=user,
        node=node or None,
        submitted=_moment(submitted, now),
        started=_moment(started, now),
        ended=_moment(ended, now),
        exit_status=exit_status,
        signal=ended_by,
        restarts=int(restarts or 0),
    )


MANY = 100
"""From so many jobs on, text is asked for: see squeue_text."""
_WHOSE = ["--me", "-a", "-t", "all"]


def read_queue(tools: Tools, expected: int) -> list[QueueRow]:
    """All jobs of this user; `expected` is about how many. Raises GridwrightError (ENVIRONMENT)."""
    if expected < MANY:
        try:
            return parse_squeue_json(tools.query(["squeue", *_WHOSE, "--json"]))
        except ServiceDown:
            raise
        except (GridwrightError, ValueError):
            # Built without JSON, or a form that is newer than this release: the text form is older than both.
            pass
    try:
        return parse_squeue_text(tools.query(["squeue", *_WHOSE, "-h", "-O", SQUEUE_FORMAT]))
    except ValueError as error:
        raise environment_error(
            f"squeue printed what cannot be read: {error}",
            where=tools.head.name,
            remedy="see squeue --version: releases 22.05 to 24.11 are known",
        ) from error


def by_tag(rows: Iterable[QueueRow]) -> dict[JobTag, list[QueueRow]]:
    """Rows of ours, by the submission and the attempt that they belong to."""
    found: dict[JobTag, list[QueueRow]] = {}
    for row in rows:
        if (tag := row.tag) is not None:
            found.setdefault(tag, []).append(row)
    return found
