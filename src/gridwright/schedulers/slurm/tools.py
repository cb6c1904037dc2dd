"""Runs Slurm's command-line tools on the head node, with time-outs, retries and a clean environment.

Translates Slurm's states, reasons and error messages, with three tables of the package. Sources: states,
squeue(1) JOB STATE CODES and the state flags of the REST API; reasons, Slurm's page of job reason codes;
refusals, the messages of Slurm's error numbers and what sbatch 22.05 prints.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from gridwright.commands import CommandNotStarted, CommandOutput
from gridwright.errors import GridwrightError, environment_error, input_error
from gridwright.schedulers.batch.system import PATIENCE_S, ServiceDown, retrying
from gridwright.schedulers.head_node import HeadNode, HeadNodeUnreachable
from gridwright.schedulers.job import JobState

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
