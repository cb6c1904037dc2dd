"""The protocol of a batch system: what differs between Grid Engine, LSF and others of their sort."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gridwright.errors import Problem
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.dependency import DependencyType
from gridwright.schedulers.job import JobRequest, JobState, NodeState
from gridwright.schedulers.job_tag import JobTag

_LONGEST_LABEL = 64


def tagged_name(label: str, tag: JobTag) -> str:
    """A name for the batch system: what users would see, with nothing that a list or a pattern means."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", label)[:_LONGEST_LABEL]
    # Grid Engine takes no name that begins with a digit.
    return f"{'' if plain[:1].isalpha() else 'j'}{plain}~{tag}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterJob:
    """A job that another one waits for, and that has not ended yet."""

    number: int
    """The batch system's."""
    type: DependencyType
    position: int | None = None
    """Of one element of an array, from 1; None: all of it."""
    each: bool = False
    """Whether each element waits for the one at its own position, and both arrays have the same indices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCall:
    """A job as it is submitted: what the batch system has to know of it."""

    request: JobRequest
    tag: JobTag
    program: Sequence[str]
    """What it runs on the node: a file, and words of letters, digits and the like."""
    elements: int | None
    """How many elements its array has; None where it is no array."""
    after: Sequence[AfterJob] = ()
    """What it waits for; whether that ended as it should is looked at once more on the node."""
    memory_bytes: int | None = None
    """What it may use; None where nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """Jobs of one submission as the batch system, or its accounting, has them."""

    number: int
    """The batch system's."""
    tag: JobTag
    positions: Sequence[int] = (WHOLE,)
    """Which elements of an array, from 1; WHOLE where it is none."""
    state: JobState
    exit_status: int | None = None
    signal: int | None = None
    reason: str | None = None
    """Why it waits or has ended, in words; None where the state says it."""
    node: str | None = None
    queue: str | None = None
    started: float | None = None
    ended: float | None = None
    most_bytes: int = 0
    """The most memory that it used."""
    leaving: bool = False
    """Whether it is being ended on an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchQueue:
    """A queue."""

    name: str
    up: bool
    nodes: Sequence[str]
    longest_s: float | None = None
    """The longest that its jobs run; None is without limit."""
    cores_per_node: int | None = None
    """The most cores that its jobs may use of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """The queues and nodes of a batch system."""

    queues: Mapping[str, BatchQueue]
    nodes: Mapping[str, NodeState]
    default_queue: str | None = None
    """The queue of jobs that name none; None where such jobs may run in any."""

    def nodes_of(self, queue: str | None) -> list[NodeState]:
        """The nodes that jobs of a queue can run on; all, where it is None."""
        if queue is None or queue not in self.queues:
            return list(self.nodes.values())
        return [self.nodes[name] for name in self.queues[queue].nodes if name in self.nodes]


class NotTaken(Exception):
    """The batch system did not take a job, and says why: trying again does not help."""


class NotReached(Exception):
    """The batch system was not reached: it has not taken the job."""


class Unclear(Exception):
    """The batch system may have taken the job, and nobody has read its answer."""


class BatchSystem(Protocol):
    """A batch system, reached by its own commands on the head node.

    Failure contract. Every call returns within a bounded time. `submit` raises NotTaken, NotReached or
    Unclear, and is not tried again by itself. All others raise GridwrightError: ENVIRONMENT where nobody
    answers, after bounded retries. A job that `submit` has returned a number for is not lost.
    """

    name: str
    """As people write it."""
    number_variable: str
    """The variable of a job's environment that holds its number."""
    position_variable: str
    """The variable that holds which element of its array it is, from 1."""
    kept_prefixes: Sequence[str]
    """How the names of variables begin that it gives to its jobs, and that they are to have."""
    limits_memory: bool
    """Whether it ends jobs over their memory; where not, they are watched on their nodes."""
    forgets_after_s: float
    """How long a job that has ended may be in neither queue nor accounting."""

    def facts(self) -> BatchFacts:
        """Its queues and nodes, as they are now."""

    def request_problems(self, request: JobRequest) -> list[Problem]:
        """What of a request it cannot do at all, in words."""

    def submit(self, call: BatchCall) -> int:
        """Submit one job; its number."""

    def queue(self) -> list[BatchRow]:
        """The jobs of this user and of Gridwright that wait or run."""

    def past(self, requested: Mapping[JobTag, int | None], since: float) -> list[BatchRow]:
        """What its accounting has of these jobs; `requested` has the number of each where it is known."""

    def cancel(self, targets: Collection[tuple[int, Sequence[int] | None]]) -> None:
        """End jobs by number, of an array those at some positions or all; those that have ended stay so."""

    def why_waits(self, number: int) -> str | None:
        """Why a job waits, in words of its own; None where it does not say."""
