"""The scheduler of a grid with a batch system of a site's own: the protocol Scheduler on a BatchSystem."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.cleanup import clean_up
from gridwright.schedulers.batch.directories import BatchDirectories
from gridwright.schedulers.batch.explanation import explain_job
from gridwright.schedulers.batch.identifiers import (
    by_tokens,
    elements_named,
    states_of,
    unknown_job,
    waited_for,
)
from gridwright.schedulers.batch.listing import jobs_of
from gridwright.schedulers.batch.reconciliation import BatchQueueView, Reconciliation, position
from gridwright.schedulers.batch.record import BatchJobEnd, BatchRecord, BatchSubmission
from gridwright.schedulers.batch.submission import (
    LEASE_S,
    Outgoing,
    Submitter,
    memory_of,
    own_problems,
    request_problems,
)
from gridwright.schedulers.batch.system import BatchFacts, BatchSystem
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.job import Job, JobExplanation, JobRequest, JobState, NodeState
from gridwright.schedulers.job_tag import JobTag, new_token
from gridwright.schedulers.supported_options import option_problems
from gridwright.spec.scheduler import SchedulerSection
from gridwright.state_parts import KEPT_S


class BatchScheduler:
    """Implements the protocol Scheduler, whose docstring has the failure contract.

    `jobs` has the jobs that this user submitted through Gridwright with this state directory. A submission
    that raised ENVIRONMENT is kept: the next call of any method submits it, once. One that was
    interrupted (KeyboardInterrupt) is taken back.
    """

    def __init__(
        self, system: BatchSystem, section: SchedulerSection, head: HeadNode, directories: BatchDirectories
    ) -> None:
        self._system = system
        self._section = section
        self._head = head
        self._directories = directories

    @contextmanager
    def _reconciled(self) -> Iterator[tuple[BatchRecord, BatchQueueView]]:
        with BatchRecord(self._directories.record) as record:
            view = Reconciliation(self._system, self._directories, record).view()
            clean_up(self._head, record)
            if record.fact("tidied", KEPT_S) is None:
                self._directories.tidy(_needed(record, view.live))
                record.keep_fact("tidied", "")
            yield record, view

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        """Submit jobs; see Scheduler. All or none: where one is refused, the others are taken back."""
        if not requests:
            return []
        with self._reconciled() as (record, _):
            tokens = [new_token() for _ in requests]
            facts = self._checked(record, requests)
            sent = [
                replace(by_tokens(each, tokens[:number]), queue=each.queue or facts.default_queue)
                for number, each in enumerate(requests)
            ]
            memory = [memory_of(each, facts) for each in sent]
            record.intend(zip(tokens, sent, memory, strict=True), time.time() + LEASE_S * len(sent))
            return self._submit_all(record, list(zip(tokens, sent, memory, strict=True)))

    def _checked(self, record: BatchRecord, requests: Sequence[JobRequest]) -> BatchFacts:
        """The queues and nodes, when they could run all requests; else every problem at once."""
        problems = [found for each in requests for found in option_problems(each, self._section)]
        problems += [found for each in requests for found in own_problems(each, self._system.name)]
        if problems:
            raise GridwrightError(*dict.fromkeys(problems), status=ExitStatus.INPUT)
        facts = self._system.facts()
        for number, request in enumerate(requests):
            problems += request_problems(request, facts, self._system)
            # Those of the same call have no identifier yet.
            earlier = [f"#{each}" for each in range(number)]
            unknown = waited_for(record, request).unknown
            problems += [unknown_job(record, name) for name in unknown if name not in earlier]
        if problems:
            raise GridwrightError(*dict.fromkeys(problems), status=ExitStatus.INPUT)
        return facts

    def _submit_all(
        self, record: BatchRecord, intents: Sequence[tuple[str, JobRequest, int | None]]
    ) -> list[str]:
        submitter = Submitter(self._system, self._directories, record)
        answers: list[tuple[JobTag, int]] = []
        identifiers: list[str] = []
        tokens = [token for token, _, _ in intents]
        try:
            for token, request, memory in intents:
                waits = waited_for(record, request)
                answers.append(submitter.submit(Outgoing(request, JobTag(token, 0), waits, memory)))
                identifiers.append(record.accepted(answers[-1:])[token])
        except (GridwrightError, KeyboardInterrupt) as error:
            if isinstance(error, GridwrightError) and error.status is not ExitStatus.INPUT:
                record.released(tokens)
            else:
                self._take_back(record, tokens, answers)
            raise
        return identifiers

    def _take_back(
        self, record: BatchRecord, tokens: Sequence[str], answers: Sequence[tuple[JobTag, int]]
    ) -> None:
        tags = {each: JobTag(each, 0) for each in tokens} | {tag.token: tag for tag, _ in answers}
        for tag in tags.values():
            self._directories.fence(tag)
        if answers:
            self._system.cancel([(number, None) for _, number in answers])
        record.withdraw(tokens)
        for tag in tags.values():
            self._directories.forget(tag)

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        """How jobs stand; see Scheduler. Raises GridwrightError (INPUT) with every unknown identifier."""
        with self._reconciled() as (record, view):
            if identifiers is None:
                chosen = [(each, index) for each in record.all() for index in each.elements]
            else:
                chosen = elements_named(record, identifiers)
            return self._jobs(record, view, chosen)

    def _jobs(
        self, record: BatchRecord, view: BatchQueueView, chosen: Sequence[tuple[BatchSubmission, int]]
    ) -> list[Job]:
        live = {each.token: each for each in view.live}
        known: dict[str, dict[int, Job]] = {}
        found = []
        for submission, element in chosen:
            token = submission.token
            if submission.identifier is None:
                continue
            if token not in known:
                now = live.get(token) or record.by_token(token) or submission
                known[token] = jobs_of(now, record, view, self._directories, self._system.name)
            found.append(known[token][element])
        return found

    def cancel(self, identifiers: Collection[str]) -> None:
        """End jobs; see Scheduler. It is written down first: this process may be killed."""
        with self._reconciled() as (record, _):
            by_token: dict[str, tuple[BatchSubmission, list[int]]] = {}
            for submission, element in elements_named(record, identifiers):
                by_token.setdefault(submission.token, (submission, []))[1].append(element)
            targets: list[tuple[int, list[int] | None]] = []
            for token, (submission, elements) in by_token.items():
                ended = record.ended(token)
                left = [each for each in elements if each not in ended]
                record.cancel((token, each) for each in left)
                if submission.number is None:
                    self._directories.fence(submission.tag)
                elif left:
                    whole = len(left) == len(submission.elements) or WHOLE in left
                    places = None if whole else [position(submission, each) for each in left]
                    targets.append((submission.number, places))
            if targets:
                self._system.cancel(targets)
            never = [
                (submission, each)
                for submission, elements in by_token.values()
                if submission.number is None
                for each in elements
                if each not in record.ended(submission.token)
            ]
            record.end(
                BatchJobEnd(
                    token=submission.token,
                    element=each,
                    state=JobState.CANCELLED,
                    reason="its user cancelled it",
                    ended=time.time(),
                )
                for submission, each in never
            )

    def explain(self, identifier: str) -> JobExplanation:
        """Hold what a job needs against its queue and every node; of an array, the first that waits."""
        with self._reconciled() as (record, view):
            chosen = elements_named(record, [identifier])
            jobs = self._jobs(record, view, chosen)
            waiting = [number for number, job in enumerate(jobs) if job.state is JobState.WAITING]
            number = waiting[0] if waiting else 0
            submission = record.by_token(chosen[number][0].token) or chosen[number][0]
            says = None
            if waiting and submission.number is not None:
                with contextlib.suppress(GridwrightError):
                    says = self._system.why_waits(submission.number)
            return explain_job(
                jobs[number],
                submission,
                self._system.facts(),
                system=self._system.name,
                says=says,
                dependencies=states_of(record, submission.request),
            )

    def nodes(self) -> list[NodeState]:
        """All nodes that run jobs."""
        return list(self._system.facts().nodes.values())


def _needed(record: BatchRecord, live: Sequence[BatchSubmission]) -> set[str]:
    """Tokens of jobs that have not ended, and of those that they wait for."""
    needed = {each.token for each in live}
    for submission in live:
        needed |= {each.submission.token for each in waited_for(record, submission.request).on}
    return needed
