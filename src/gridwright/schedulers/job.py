"""A job: what was asked for, its token, what became of it, and why it failed; the same for every scheduler.

Schedulers give the numbers of jobs that they have forgotten to others: a job of ours is known by its
token, never by a number alone.
"""

from __future__ import annotations

import json
import re
import secrets
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Options of a job. The defaults ask for nothing; text may hold any bytes, as `os.fsdecode` gives them.

    A scheduler declares on its section of the spec which of them it can do (`job_options`), and refuses a
    job with others: see `job_request.option_problems`.
    """

    account: str | None = None
    """Who pays: an account of Slurm, a project of Grid Engine or LSF."""
    qos: str | None = None
    """A quality of service: a set of limits and a priority that administrators have made."""
    reservation: str | None = None
    """A reservation of nodes, by its name."""
    licences: Sequence[str] = ()
    """Licences that it holds while it runs, each NAME or NAME:COUNT."""
    gres: Sequence[str] = ()
    """Generic resources of its node, each NAME[:TYPE][:COUNT], such as gpu:2."""
    constraint: str | None = None
    """Features that its node must have, in the scheduler's own language."""
    begin: float | None = None
    """It starts no sooner, in seconds since 1970."""
    nice: int = 0
    """How much later than alike jobs it is to start: above 0 later, below 0 sooner where that is allowed."""
    mail: str | None = None
    """Address that is told of its events."""
    mail_on: Sequence[str] = ("end", "fail")
    """Which events: begin, end, fail."""
    stdin: str | None = None
    """File that it reads as its standard input; None: nothing. A path of the node."""
    stdout: str | None = None
    """File that its standard output is appended to, instead of its log. A path of the node, in which
    {job} stands for the job's identifier, {index} for its index in an array, and {name} for its name."""
    stderr: str | None = None
    """The same for its standard error. None: where its standard output goes."""
    flow: str | None = None
    """The run of a flow that it belongs to, as NAME/RUN: kept with the job, and shown; no scheduler acts on
    it, and every one has it."""


_DEFAULTS = JobOptions()


def non_default_values(options: JobOptions) -> dict[str, Any]:
    """The options that differ from their defaults, by name."""
    return {name: value for name, value in asdict(options).items() if value != getattr(_DEFAULTS, name)}


def options_text(options: JobOptions) -> str:
    """As JSON, what differs from the defaults; bytes that are no UTF-8 are escaped, as lone surrogates."""
    return json.dumps(non_default_values(options))


@lru_cache(maxsize=256)
def read_options(text: str) -> JobOptions:
    """What `options_text` wrote."""
    return JobOptions(**json.loads(text))


_TAGGED = re.compile(r"~([0-9a-f]{16})\.([0-9]{1,6})$")


@dataclass(frozen=True, slots=True)
class JobTag:
    """Which submission a job of the scheduler belongs to; its name there ends with it."""

    token: str
    """16 hexadecimal digits, made for each request."""
    attempt: int
    """0, and one more each time that it is not known whether the scheduler has the job."""

    def __str__(self) -> str:
        return f"{self.token}.{self.attempt}"


def new_token() -> str:
    """A token that no other submission has: 64 random bits."""
    return secrets.token_hex(8)


def tag_of(name: str) -> JobTag | None:
    """The tag in a name; None for a job that is not ours."""
    found = _TAGGED.search(name)
    return JobTag(found[1], int(found[2])) if found else None


_BY_SHELLS = {
    126: "as where a program cannot be executed",
    127: "as where a program is not found",
}
"""POSIX, Shell Command Language, 2.8.2."""


def exit_reason(exit_status: int | None, number: int | None) -> str | None:
    """Such as "exit status 42" or "ended by signal 11 (SIGSEGV)"; None for what completed or is not known."""
    if number:
        return f"ended by signal {number} ({signal_name(number)})"
    if not exit_status:
        return None
    meant = _BY_SHELLS.get(exit_status)
    return f"exit status {exit_status}{f', {meant}' if meant else ''}"


def signal_name(number: int) -> str:
    """The name of a signal of Linux, such as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


class JobState(StrEnum):
    """Where a job stands. The words are those of `gridwright jobs` and of its JSON document."""

    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    """It ended by itself with exit status 0."""
    FAILED = "failed"
    """It ended by itself with another exit status, or by a signal that no scheduler sent."""
    OUT_OF_MEMORY = "out-of-memory"
    TIMED_OUT = "timed-out"
    CANCELLED = "cancelled"
    """By a user, or because a job that it waited for did not complete."""
    NODE_FAILED = "node-failed"
    """Its node or its runner died, and it was not to be restarted."""

    @property
    def final(self) -> bool:
        """Whether nothing will change any more."""
        return self not in (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job to be submitted; text may hold any bytes, as `os.fsdecode` gives them."""

    command: Sequence[str]
    """Program and arguments, handed on byte for byte."""
    directory: str
    """Where it starts, on the node."""
    environment: Mapping[str, str]
    """All of its environment, byte for byte, but for what the scheduler adds."""
    libraries: Mapping[str, str] = field(default_factory=dict)
    """Library name to its directory on the node: GRIDWRIGHT_DATA, and below work and util a private one."""
    name: str = ""
    """By default the last part of the program's path."""
    cores: int = 1
    memory_bytes: int | None = None
    """The most it may use. None: a share of the node's memory as its cores are a share of the node's."""
    queue: str | None = None
    time_limit_s: float | None = None
    array: Sequence[int] | None = None
    """Indices of an array: one job each, with GRIDWRIGHT_ARRAY_INDEX in its environment."""
    after: Sequence[str] = ()
    """Jobs that must end first, as `parse_dependency` reads them: JOB or ok:JOB, any:JOB, not-ok:JOB,
    each:JOB. When one ends otherwise than it has to, this job is cancelled. `#0` is the first request of the
    same call of `submit`."""
    restart: bool = False
    """Whether it starts again when its node or runner dies."""
    keep: bool = False
    """Whether its private directories stay when it has ended."""
    node: str | None = None
    """The only node it may run on."""
    exclusive: bool = False
    """Whether no other job may run on its node meanwhile."""
    options: JobOptions = field(default_factory=JobOptions)
    """What else it asks of its scheduler."""
    null: bool = False
    """For measuring: no process is started, and it completes at once. Only the local scheduler has such."""

    @property
    def label(self) -> str:
        """What users call it: its own name, or the last part of its program's path."""
        return self.name or "".join(self.command[:1]).rstrip("/").rpartition("/")[2] or "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it stands. Times in seconds since 1970, sizes in bytes; None is what is not known."""

    id: str
    """As its scheduler writes it: 17, and 17_3 for element 3 of array 17."""
    name: str
    state: JobState
    queue: str | None = None
    user: str | None = None
    cores: int = 1
    memory_bytes: int | None = None
    exit_status: int | None = None
    """Of the command; None while it has none, and where a signal ended it."""
    signal: int | None = None
    """The signal that ended it."""
    reason: str | None = None
    """Why it waits, or why it did not complete, in words."""
    node: str | None = None
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    restarts: int = 0
    log: str | None = None
    """File with what it printed, as the node and this machine see it."""
    flow: str | None = None
    """The run of a flow that it belongs to, as NAME/RUN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One line of an explanation: what a job needs, and what there is."""

    name: str
    """Such as cores, memory, queue, dependency, time."""
    required: str
    provided: str
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementCheck:
    """A place where a job could run (a node, or the queue before all nodes), held against what it needs."""

    place: str
    requirements: Sequence[Requirement]

    @property
    def fits(self) -> bool:
        """Whether every requirement is met there."""
        return all(requirement.fits for requirement in self.requirements)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation:
    """Why a job waits, or that it does not."""

    job: Job
    summary: str
    """One sentence."""
    candidates: Sequence[PlacementCheck] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node as its scheduler sees it."""

    name: str
    up: bool
    state: str
    """In the scheduler's own word."""
    cores: int
    memory_bytes: int
    free_cores: int
    free_memory_bytes: int
    reason: str | None = None
    """Why it is not up."""
    asleep: bool = False
    """Whether it is off, or on its way, and its scheduler powers it on when a job waits for it."""

    @property
    def standing(self) -> str:
        """Its state, with the reason where there is one."""
        return f"{self.state} ({self.reason})" if self.reason else self.state
