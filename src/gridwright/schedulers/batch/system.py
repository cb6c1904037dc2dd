"""The protocol of a batch system: what differs between Grid Engine, LSF and others of their sort.

Runs the commands of a batch system on the head node, within a time, and again while nobody answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from gridwright.commands import CommandNotStarted, CommandOutput
from gridwright.errors import GridwrightError, Problem, environment_error
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.head_node import HeadNode, HeadNodeUnreachable
from gridwright.schedulers.job import JobRequest, JobState, JobTag, NodeState
from gridwright.schedulers.job_request import DependencyType

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


ANSWER_S = 30.0
"""The longest that one command may take."""
PATIENCE_S = 25.0
"""How long it is asked again while its service does not answer: a restart takes some seconds."""


_NOT_STARTED = (126, 127)
"""Exit statuses of shells, and of ssh, where a command cannot be started."""
_LAST_SIGNAL = 128 + 64
"""The highest exit status of a command that a signal ended."""


class Answered(Enum):
    """What the message of a command that failed says of its service."""

    YES = "yes"
    """It was understood, and refused."""
    AWAY = "away"
    """It was not reached."""
    UNCLEAR = "unclear"
    """It may have been reached, and no answer came."""

    @classmethod
    def of_message(cls, said: str, *, unclear: Sequence[str], away: Sequence[str]) -> Answered:
        """By the texts, in lower case, that a service is not reached with, or may have been."""
        folded = said.lower()
        if any(each in folded for each in unclear):
            return cls.UNCLEAR
        return cls.AWAY if any(each in folded for each in away) else cls.YES


class ServiceDown(GridwrightError):
    """The service does not answer now, and may later (status ENVIRONMENT)."""

    def __init__(self, error: GridwrightError) -> None:
        super().__init__(*error.problems, status=error.status)


def retrying(seconds: float) -> Retrying:
    """Calls again what raised ServiceDown, for so long, with pauses that grow to 2 s; then raises it."""
    return Retrying(
        retry=retry_if_exception_type(ServiceDown),
        stop=stop_after_delay(seconds),
        wait=wait_exponential(multiplier=0.2, max=2.0),
        reraise=True,
    )


class CommandMissing(GridwrightError):
    """A command is not there (status ENVIRONMENT)."""

    def __init__(self, error: GridwrightError) -> None:
        super().__init__(*error.problems, status=error.status)


class BatchTools:
    """The commands of one batch system."""

    def __init__(
        self,
        head: HeadNode,
        system: str,
        environment: Mapping[str, str],
        meaning: Callable[[str], Answered],
        prefix: Sequence[str] = (),
    ) -> None:
        """`meaning` tells what a message says of the service; `prefix` comes before every command."""
        self.head = head
        self._system = system
        self._environment = environment
        self._meaning = meaning
        self._prefix = prefix

    def run(self, command: Sequence[str], *, timeout_s: float = ANSWER_S) -> CommandOutput:
        """Run a command once, whatever its status. Raises GridwrightError (ENVIRONMENT)."""
        words = [*self._prefix, *command]
        try:
            answer = self.head.run(words, environment=self._environment, timeout_s=timeout_s)
        except CommandNotStarted as error:
            raise self._missing(error.problems[0].what) from error
        if answer.status in _NOT_STARTED:
            raise self._missing(f"{command[0]} cannot be started: {message(answer)}")
        return answer

    def _missing(self, what: str) -> CommandMissing:
        remedy = (
            f"install the commands of {self._system} on the head node, or name where they are in the spec"
        )
        return CommandMissing(environment_error(what, where=self.head.name, remedy=remedy))

    def query(
        self,
        command: Sequence[str],
        *,
        allowed: Callable[[CommandOutput], bool] = lambda _: False,
        timeout_s: float = ANSWER_S,
    ) -> bytes:
        """What a command prints that only reads, or may be repeated; asked again while nobody answers.

        `allowed` tells which failures are an answer. Raises GridwrightError (ENVIRONMENT).
        """
        return retrying(PATIENCE_S)(self._query, command, allowed, timeout_s)

    def _query(
        self, command: Sequence[str], allowed: Callable[[CommandOutput], bool], timeout_s: float
    ) -> bytes:
        try:
            answer = self.run(command, timeout_s=timeout_s)
        except (HeadNodeUnreachable, CommandMissing):
            raise
        except GridwrightError as error:
            raise ServiceDown(error) from error
        said = message(answer)
        if answer.status == 0 or allowed(answer):
            return answer.stdout
        silent = self._meaning(said) is not Answered.YES
        failed = environment_error(
            f"{self._system} does not answer: {command[0]} says {said}"
            if silent
            else f"{command[0]} failed: {said}",
            where=self.head.name,
            remedy=f"see whether the service of {self._system} runs there",
        )
        raise ServiceDown(failed) if silent else failed

    def hand_in(self, command: Sequence[str]) -> CommandOutput:
        """Run a command that submits a job, once. Raises NotTaken, NotReached and Unclear."""
        try:
            answer = self.run(command)
        except CommandMissing:
            raise
        except GridwrightError as error:
            # Of a head node that is out of reach, too, nobody knows how far it came.
            raise Unclear(error.problems[0].what) from error
        if answer.status:
            said = message(answer)
            if self._meaning(said) is Answered.AWAY:
                raise NotReached(said)
            # A signal, or a connection that broke: it may have arrived. LSF refuses with 255.
            killed = 128 < answer.status <= _LAST_SIGNAL
            if self._meaning(said) is Answered.UNCLEAR or killed or not said:
                raise Unclear(said or f"{command[0]} was killed")
            raise NotTaken(said)
        return answer


def message(answer: CommandOutput) -> str:
    """What a command complained of, in one line."""
    text = (answer.stderr or answer.stdout).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip() and line.strip() != "Exiting."]
    return "; ".join(lines)[:600]
