"""A job: what was asked for, and what became of it; the same for every scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gridwright.schedulers.job_options import JobOptions


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
