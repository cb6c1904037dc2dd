"""What schedulers with a record of submissions do alike: lists of jobs, orders to end them, usage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.record import JobEnd, Submission, SubmissionRecord, elements_named
from gridwright.schedulers.batch.submission import (
    SWEEP_AT_ONCE,
    SWEEP_TIMEOUT_S,
    OwnDirectories,
    sweep_command,
)
from gridwright.schedulers.batch.system import BatchQueue
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.job import (
    Job,
    JobExplanation,
    JobRequest,
    JobState,
    JobTag,
    NodeState,
    PlacementCheck,
    Requirement,
)
from gridwright.schedulers.job_request import filled
from gridwright.schedulers.usage import JobUsage
from gridwright.state_parts import this_user
from gridwright.units import format_bytes

CANCELLED_BY_USER = "its user cancelled it"

R = TypeVar("R", bound=SubmissionRecord)
V = TypeVar("V")
L = TypeVar("L")


class PlacedRow(Protocol):
    """A line of a queue, as far as lists of jobs need it."""

    @property
    def node(self) -> str | None:
        """Where it runs."""

    @property
    def queue(self) -> str | None:
        """Which queue it is in."""

    @property
    def started(self) -> float | None:
        """Seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedState:
    """How a job stands, before all that a list has of it is put together."""

    state: JobState
    sentence: str
    """Why, in words; empty where the state says it."""
    restarts: int = 0
    log: str
    memory_bytes: int | None
    """What was asked for."""


def listed_job(
    submission: Submission, element: int, end: JobEnd | None, row: PlacedRow | None, listed: ListedState
) -> Job:
    """A job as users see it, by its end where it has one, else by its row in the queue."""
    request = submission.request
    known = end if end is not None else row
    return Job(
        id=submission.name_of(element),
        name=request.label,
        state=listed.state,
        queue=(known.queue if known is not None else None) or request.queue,
        user=this_user(),
        cores=request.cores,
        memory_bytes=listed.memory_bytes,
        exit_status=end.exit_status if end is not None else None,
        signal=end.signal if end is not None else None,
        reason=listed.sentence or None,
        node=known.node if known is not None else None,
        submitted=submission.submitted,
        started=known.started if known is not None else None,
        ended=end.ended if end is not None else None,
        restarts=end.restarts if end is not None else listed.restarts,
        log=listed.log,
        flow=request.options.flow,
    )


def output_file(submission: Submission, element: int) -> str | None:
    """The file that a job's standard output goes to; None where that is its log, or it has no number yet."""
    request, number = submission.request, submission.number
    if request.options.stdout is None or number is None:
        return None
    job = f"{number}" if element == WHOLE else f"{number}_{element}"
    return filled(request.options.stdout, {"job": job, "index": f"{element}", "name": request.label})


class RecordedScheduler(ABC, Generic[R, V]):
    """The part of the protocol Scheduler that is the same for each: see its docstring for the contract.

    `jobs` has the jobs that this user submitted through Gridwright with this state directory. A submission
    that raised ENVIRONMENT is kept: the next call of any method submits it, once. One that was
    interrupted (KeyboardInterrupt) is taken back. `R` is the kind of record, `V` what was seen of the queue.
    """

    others: str
    """Whose jobs are in no list, in words."""
    _directories: OwnDirectories

    @abstractmethod
    def _reconciled(self) -> AbstractContextManager[tuple[R, V]]:
        """The record, brought up to date, and the queue. Raises GridwrightError (ENVIRONMENT)."""

    @abstractmethod
    def _listed(self, submission: Submission, record: R, view: V) -> dict[int, Job]:
        """All jobs of a submission, by element."""

    @abstractmethod
    def _waiting(self, record: R, view: V, job: Job, submission: Submission, element: int) -> JobExplanation:
        """Why a job waits."""

    @abstractmethod
    def _end_unsubmitted(self, record: R, submission: Submission, elements: Sequence[int]) -> None:
        """Write down that jobs were cancelled before their scheduler had them."""

    @abstractmethod
    def _cancel_submitted(self, view: V, targets: Sequence[tuple[Submission, list[int], list[int]]]) -> None:
        """Have jobs ended: of each submission, the elements that were named, and which have not ended."""

    @abstractmethod
    def _cancel_numbers(self, numbers: Sequence[int]) -> None:
        """Have whole submissions ended, by the scheduler's numbers."""

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        """How jobs stand; see Scheduler. Raises GridwrightError (INPUT) with every unknown identifier."""
        with self._reconciled() as (record, view):
            if identifiers is None:
                chosen = [(each, element) for each in record.all() for element in each.elements]
            else:
                chosen = elements_named(record, identifiers, self.others)
            return self._jobs(record, view, chosen)

    def _jobs(self, record: R, view: V, chosen: Sequence[tuple[Submission, int]]) -> list[Job]:
        known: dict[str, dict[int, Job]] = {}
        found = []
        for submission, element in chosen:
            if submission.identifier is None:
                continue
            if submission.token not in known:
                known[submission.token] = self._listed(submission, record, view)
            found.append(known[submission.token][element])
        return found

    def cancel(self, identifiers: Collection[str]) -> None:
        """End jobs; see Scheduler. It is written down first: whoever is to do it may be killed."""
        with self._reconciled() as (record, view):
            by_token: dict[str, tuple[Submission, list[int]]] = {}
            for submission, element in elements_named(record, identifiers, self.others):
                by_token.setdefault(submission.token, (submission, []))[1].append(element)
            targets: list[tuple[Submission, list[int], list[int]]] = []
            for token, (submission, elements) in by_token.items():
                ended = record.ended(token)
                left = [each for each in elements if each not in ended]
                record.cancel((token, each) for each in left)
                if submission.number is None:
                    self._directories.fence(submission.tag)
                    self._end_unsubmitted(record, submission, left)
                elif left:
                    targets.append((submission, elements, left))
            if targets:
                self._cancel_submitted(view, targets)

    def explain(self, identifier: str) -> JobExplanation:
        """Hold what a job needs against its queue and every node; of an array, the first that waits."""
        with self._reconciled() as (record, view):
            chosen = elements_named(record, [identifier], self.others)
            jobs = self._jobs(record, view, chosen)
            waiting = [number for number, job in enumerate(jobs) if job.state is JobState.WAITING]
            number = waiting[0] if waiting else 0
            job = jobs[number]
            because = f" ({job.reason})" if job.reason else ""
            if job.state.final:
                return JobExplanation(job=job, summary=f"It has ended: {job.state}{because}.")
            if job.state is JobState.RUNNING:
                return JobExplanation(job=job, summary=f"It runs on {job.node or 'a node'}{because}.")
            return self._waiting(record, view, job, *chosen[number])

    @contextmanager
    def _all_or_none(
        self, record: R, tokens: Sequence[str], answers: Sequence[tuple[JobTag, int]]
    ) -> Iterator[None]:
        """Submits all of these, or takes back those that have `answers` and forgets the others.

        Where nobody answers they are kept: the next command submits those that have no answer.
        """
        try:
            yield
        except (GridwrightError, KeyboardInterrupt) as error:
            if isinstance(error, GridwrightError) and error.status is not ExitStatus.INPUT:
                record.accepted(answers)
                record.released(tokens)
            else:
                tags = {token: JobTag(token, 0) for token in tokens} | {tag.token: tag for tag, _ in answers}
                for tag in tags.values():
                    self._directories.fence(tag)
                if answers:
                    self._cancel_numbers([number for _, number in answers])
                record.withdraw(tokens)
                for tag in tags.values():
                    self._directories.forget(tag)
            raise


def queue_check(
    request: JobRequest,
    queue: BatchQueue | None,
    dependencies: Iterable[Requirement],
) -> PlacementCheck:
    """The queue before all nodes, and the jobs that this one waits for; `queue` None: none is known."""
    requirements = []
    longest_s = queue.longest_s if queue is not None else None
    if queue is not None:
        up = "up" if queue.up else "down"
        requirements.append(Requirement(name="queue", required="up", provided=up, fits=queue.up))
        asked = request.time_limit_s
        if longest_s is not None or asked is not None:
            requirements.append(
                Requirement(
                    name="time",
                    required="no limit" if asked is None else f"{asked:.0f} s",
                    provided="no limit" if longest_s is None else f"{longest_s:.0f} s",
                    # A job without a limit of its own gets that of its queue.
                    fits=longest_s is None or asked is None or asked <= longest_s,
                )
            )
    requirements += dependencies
    return PlacementCheck(
        place="queue" if queue is None else f"queue {queue.name}", requirements=requirements
    )


def node_check(
    request: JobRequest, memory_bytes: int | None, node: NodeState, state: Requirement
) -> PlacementCheck:
    """A node; `state` says whether it takes jobs, `memory_bytes` is what was asked for, None for nothing."""
    requirements = [
        state,
        Requirement(
            name="cores",
            required=str(request.cores),
            provided=f"{node.free_cores} free of {node.cores}",
            fits=request.cores <= node.free_cores,
        ),
    ]
    if memory_bytes is not None:
        free, there = format_bytes(node.free_memory_bytes), format_bytes(node.memory_bytes)
        requirements.append(
            Requirement(
                name="memory",
                required=format_bytes(memory_bytes),
                provided=f"{free} free of {there}",
                fits=memory_bytes <= node.free_memory_bytes,
            )
        )
    if request.exclusive:
        alone = node.free_cores == node.cores
        provided = "free" if alone else "in use"
        requirements.append(Requirement(name="alone", required="free", provided=provided, fits=alone))
    return PlacementCheck(place=node.name, requirements=requirements)


def adopt(record: SubmissionRecord, live: Iterable[Submission], numbers: Mapping[JobTag, int]) -> bool:
    """Write down the numbers of jobs that were submitted, and whose answer nobody read; whether any were."""
    found = [(each.tag, numbers[each.tag]) for each in live if each.number is None and each.tag in numbers]
    if found:
        record.accepted(found)
    return bool(found)


def note_seen(
    record: SubmissionRecord,
    live: Iterable[Submission],
    listed: Collection[JobTag],
    *,
    now: float,
    every_s: float,
) -> None:
    """Note which submissions the scheduler has `listed`, each not more often than every so many seconds."""
    stale = [each.token for each in live if each.tag in listed and now - each.seen > every_s]
    if stale:
        record.saw(stale)


def sweep(
    head: HeadNode, left: Iterable[tuple[Submission, L, str]]
) -> Iterator[tuple[str, list[L], int | None]]:
    """Remove private directories of jobs that have ended: those with the prefix that follows each.

    Yields library, jobs and exit status for each command: NO_LIBRARY where the head node does not see that,
    None where a file system hangs, which must not keep jobs from being shown; the library is left then.
    """
    by_library: dict[str, list[tuple[L, str]]] = {}
    for submission, job, prefix in left:
        for library in ("work", "util"):
            if directory := submission.request.libraries.get(library):
                by_library.setdefault(directory, []).append((job, prefix))
    for directory, jobs in by_library.items():
        for first in range(0, len(jobs), SWEEP_AT_ONCE):
            chosen = jobs[first : first + SWEEP_AT_ONCE]
            command = sweep_command(directory, [prefix for _, prefix in chosen])
            try:
                status: int | None = head.run(command, timeout_s=SWEEP_TIMEOUT_S).status
            except GridwrightError:
                status = None
            yield directory, [job for job, _ in chosen], status
            if status is None:
                break


def private_prefix(tag: JobTag, element: int) -> str:
    """How the names of a job's private directories begin.

    The number of the restart follows, and random letters where somebody else had taken that name.
    """
    return f"gridwright-{tag}." if element == WHOLE else f"gridwright-{tag}_{element}."


def recorded_usage(record: SubmissionRecord) -> Iterator[JobUsage]:
    """The jobs of this user that were submitted here and have ended, as their nodes told it.

    Exact where the accounting of a batch system is not. Raises GridwrightError (ENVIRONMENT).
    """
    for submission in record.all():
        request = submission.request
        if submission.identifier is None:
            continue
        for element, end in record.ended(submission.token).items():
            yield JobUsage(
                id=submission.name_of(element),
                name=request.label,
                state=end.state,
                user=this_user(),
                account=request.options.account,
                queue=end.queue,
                node=end.node,
                cores=request.cores,
                submitted=submission.submitted,
                started=end.started,
                ended=end.ended,
                cpu_s=record.cpu_s(end),
                memory_bytes=request.memory_bytes if submission.memory is None else submission.memory,
                memory_peak_bytes=end.most_bytes or None,
                eligible=request.options.begin,
            )
