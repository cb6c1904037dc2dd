"""Translates Slurm's states, reasons and error messages, with three tables of the package.

Sources: states, squeue(1) JOB STATE CODES and the state flags of the REST API; reasons, Slurm's page of job
reason codes; refusals, the messages of Slurm's error numbers and what sbatch 22.05 prints.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

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
