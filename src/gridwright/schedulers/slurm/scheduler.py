"""The scheduler of a grid with Slurm: runs Slurm's tools on the head node, and keeps a record of jobs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.schedulers.dependency import Dependency, parse_dependency
from gridwright.schedulers.head_node import HeadNode
from gridwright.schedulers.job import Job, JobExplanation, JobRequest, JobState, NodeState
from gridwright.schedulers.job_tag import JobTag, new_token
from gridwright.schedulers.slurm.access import SlurmAccess, scancel
from gridwright.schedulers.slurm.batch import Batch
from gridwright.schedulers.slurm.cleanup import clean_up
from gridwright.schedulers.slurm.cluster import MIB, Cluster, read_cluster, read_nodes
from gridwright.schedulers.slurm.cpu_times import note_cpu_times
from gridwright.schedulers.slurm.dependencies import (
    ResolvedDependencies,
    by_tokens,
    look_up,
    name_of,
    resolve,
)
from gridwright.schedulers.slurm.ends import ended_otherwise, write_ends
from gridwright.schedulers.slurm.explanation import explain_job
from gridwright.schedulers.slurm.job_directories import make_job_directories
from gridwright.schedulers.slurm.job_name import split_identifier
from gridwright.schedulers.slurm.listing import JobElement, job_of
from gridwright.schedulers.slurm.options import sbatch_options
from gridwright.schedulers.slurm.reconciliation import QueueView, reconcile
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.record_rows import WHOLE, Submission
from gridwright.schedulers.slurm.section import section_of
from gridwright.schedulers.slurm.submission import memory_mib, request_problems
from gridwright.schedulers.slurm.submitting import LEASE_S, submit_request, try_request
from gridwright.schedulers.slurm.tools import Tools
from gridwright.schedulers.slurm.translations import reason
from gridwright.schedulers.slurm.usage import read_usage
from gridwright.schedulers.slurm.visible_paths import path_visibility_problems
from gridwright.schedulers.supported_options import option_problems
from gridwright.schedulers.usage import JobUsage
from gridwright.spec.model import GridSpec
from gridwright.state_parts import KEPT_S


class SlurmScheduler:
    """Implements the protocol Scheduler, whose docstring has the failure contract.

    `jobs` has the jobs that this user submitted through Gridwright with this state directory. A submission
    that raised ENVIRONMENT is kept: the next call of any method submits it, once. One that was
    interrupted (KeyboardInterrupt) is taken back.
    """

    def __init__(self, spec: GridSpec, head: HeadNode, state: Path) -> None:
        """`state` is the state directory of the grid: the same path here, on the head node and on all nodes.

        Raises GridwrightError: INPUT for wrong scheduler.options, ENVIRONMENT where `state` cannot be used.
        """
        place = str(spec.file) if spec.file is not None else None
        options = sbatch_options(section_of(spec).options, place)
        self._access = SlurmAccess(spec, Tools(head), make_job_directories(state), options)

    @contextmanager
    def _reconciled(self) -> Iterator[tuple[JobRecord, QueueView]]:
        with JobRecord(self._access.directories.record) as record:
            standing = reconcile(self._access, record)
            note_cpu_times(self._access.directories, record)
            clean_up(self._access, record)
            if record.fact("tidied", KEPT_S) is None:
                self._access.directories.tidy([each.token for each in standing.live], time.time())
                record.keep_fact("tidied", "")
            yield record, standing

    def submit(self, requests: Sequence[JobRequest]) -> list[str]:
        """Submit jobs; see Scheduler. All or none: where one is refused, the others are taken back."""
        if not requests:
            return []
        with self._reconciled() as (record, _):
            tokens = [new_token() for _ in requests]
            problems: list[Problem] = []
            named: list[JobRequest] = []
            for number, request in enumerate(requests):
                problems += option_problems(request, self._access.section)
                after, wrong = by_tokens(request, tokens[:number])
                problems += wrong
                named.append(replace(request, after=after))
            batch = Batch(tokens, named)
            dependencies = [resolve(record, each, batch.unnumbered, batch.arrays) for each in named]
            cluster = self._checked(record, named, dependencies, problems)
            intents = zip(tokens, named, (each.doomed for each in dependencies), strict=True)
            record.intend(intents, time.time() + LEASE_S * len(requests))
            identifiers = self._submit_all(record, cluster, batch)
            return [identifiers[token] for token in tokens]

    def _checked(
        self,
        record: JobRecord,
        requests: Sequence[JobRequest],
        dependencies: Sequence[ResolvedDependencies],
        others: Sequence[Problem],
    ) -> Cluster:
        """The cluster, when it could run all requests; else every problem at once."""
        unknown = [name for each in dependencies for name in each.unknown]
        default = self._access.section.partition
        for fresh in (False, True):
            cluster = read_cluster(self._access.tools, record, fresh=fresh)
            problems = [found for each in requests for found in request_problems(each, cluster, default)]
            if not problems:
                break
        problems += [_unknown(record, name) for name in unknown]
        problems += [found for each in dependencies for found in each.problems]
        problems += others
        problems += path_visibility_problems(requests, self._access.tools.head, record)
        if problems:
            raise GridwrightError(*dict.fromkeys(problems), status=ExitStatus.INPUT)
        return cluster

    def _submit_all(self, record: JobRecord, cluster: Cluster, batch: Batch) -> dict[str, str]:
        answers: list[tuple[JobTag, int]] = []
        doomed: list[str] = []
        try:
            if batch.depends_on_itself:
                # One that is refused later would leave the earlier ones begun.
                for call in batch.calls(record):
                    try_request(self._access, record, cluster, call)
            for call in batch.calls(record):
                answers.append(submit_request(self._access, record, cluster, call))
                batch.numbers[call.tag.token] = answers[-1][1]
                doomed += call.doomed_jobs(answers[-1][1])
        except (GridwrightError, KeyboardInterrupt) as error:
            if isinstance(error, GridwrightError) and error.status is not ExitStatus.INPUT:
                record.accepted(answers)
                record.released(batch.tokens)
            else:
                self._take_back(record, batch, answers)
            raise
        identifiers = record.accepted(answers)
        scancel(self._access, doomed)
        return identifiers

    def _take_back(self, record: JobRecord, batch: Batch, answers: Sequence[tuple[JobTag, int]]) -> None:
        for token in batch.tokens[len(answers) :]:
            self._access.directories.fence(JobTag(token, 0))
        scancel(self._access, [str(number) for _, number in answers])
        record.withdraw(batch.tokens)

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job]:
        """How jobs stand; see Scheduler. Raises GridwrightError (INPUT) with every unknown identifier."""
        with self._reconciled() as (record, standing):
            if identifiers is None:
                chosen = [JobElement(each, number) for each in record.all() for number in each.elements]
            else:
                chosen = self._resolve(record, identifiers)
            return self._jobs(record, standing, chosen)

    def _jobs(self, record: JobRecord, standing: QueueView, chosen: Sequence[JobElement]) -> list[Job]:
        live = {each.token: each for each in standing.live}
        known: dict[str, tuple[Submission, dict[int, Job]]] = {}
        found = []
        cluster = read_cluster(self._access.tools, record) if live else None
        for element in chosen:
            token = element.submission.token
            if element.submission.identifier is None:
                continue
            if token not in known:
                submission = live.get(token) or record.by_token(token) or element.submission
                memory = None
                if cluster is not None and submission.live:
                    memory = self._memory(submission.request, cluster)
                known[token] = (
                    submission,
                    job_of(submission, record, standing, self._access.directories, memory),
                )
            found.append(known[token][1][element.number])
        return found

    def _memory(self, request: JobRequest, cluster: Cluster) -> int | None:
        partition = cluster.partition(request.queue or self._access.section.partition)
        asked = memory_mib(request, cluster, partition)
        if asked is None:
            share = cluster.default_memory_per_core
            return None if share is None else share * request.cores
        return asked * MIB

    def _resolve(self, record: JobRecord, identifiers: Collection[str]) -> list[JobElement]:
        found: list[JobElement] = []
        problems: list[Problem] = []
        for identifier in identifiers:
            parts = split_identifier(identifier)
            submission = record.by_identifier(parts[0]) if parts else None
            if parts is None or submission is None:
                problems.append(_unknown(record, identifier))
            elif parts[1] is None:
                found += [JobElement(submission, number) for number in submission.elements]
            elif parts[1] in submission.elements:
                found.append(JobElement(submission, parts[1]))
            else:
                problems.append(
                    Problem(
                        what=f"job {parts[0]} has no element {parts[1]}",
                        remedy=f"see gridwright jobs {parts[0]}",
                    )
                )
        if problems:
            raise GridwrightError(*problems, status=ExitStatus.INPUT)
        return list(dict.fromkeys(found))

    def cancel(self, identifiers: Collection[str]) -> None:
        """End jobs; see Scheduler. It is written down first: slurmctld may be killed and forget it."""
        with self._reconciled() as (record, standing):
            chosen = self._resolve(record, identifiers)
            by_token: dict[str, list[int]] = {}
            for each in chosen:
                by_token.setdefault(each.submission.token, []).append(each.number)
            targets: list[str] = []
            for token, numbers in by_token.items():
                submission = record.by_token(token)
                if submission is None:
                    continue
                open_numbers = [each for each in numbers if each not in record.ended(token)]
                record.cancel((token, each) for each in open_numbers)
                if submission.slurm_id is None:
                    self._access.directories.fence(submission.tag)
                    ends = [
                        ended_otherwise(submission, each, JobState.CANCELLED, "its user cancelled it")
                        for each in open_numbers
                    ]
                    write_ends(record, [submission], ends)
                elif not standing.has(submission):
                    # Its number may be another's by now; the next command cancels it should it be back.
                    continue
                elif WHOLE in numbers or set(numbers) == set(submission.elements):
                    targets += [str(submission.slurm_id)] if open_numbers else []
                else:
                    targets += [f"{submission.slurm_id}_{each}" for each in open_numbers]
            scancel(self._access, targets)

    def explain(self, identifier: str) -> JobExplanation:
        """Hold what a job needs against its queue and every node; of an array, the first that waits."""
        with self._reconciled() as (record, standing):
            chosen = self._resolve(record, [identifier])
            jobs = self._jobs(record, standing, chosen)
            waiting = [number for number, job in enumerate(jobs) if job.state is JobState.WAITING]
            number = waiting[0] if waiting else 0
            job, element = jobs[number], chosen[number]
            cluster = read_cluster(self._access.tools, record, fresh=True)
            submission = record.by_token(element.submission.token) or element.submission
            row = standing.row(submission, element.number)
            request = submission.request
            name = row.partition if row is not None else request.queue or self._access.section.partition
            return explain_job(
                job,
                request,
                cluster,
                reason=reason(row.reason) if row is not None else None,
                memory_bytes=self._memory(request, cluster),
                partition=cluster.partition(name),
                dependencies=list(self._dependencies(record, request)),
            )

    def _dependencies(
        self, record: JobRecord, request: JobRequest
    ) -> Iterator[tuple[Dependency, JobState | None]]:
        for text in request.after:
            found = parse_dependency(text)
            if isinstance(found, Dependency):
                submission, element = look_up(record, found.job)
                name = found.job if submission is None else name_of(submission, element)
                yield Dependency(name, found.type), self._state_of(record, submission, element)

    def _state_of(
        self, record: JobRecord, submission: Submission | None, element: int | None
    ) -> JobState | None:
        """The end of a job, or of an array the worst; None while not all have ended."""
        if submission is None:
            return None
        ended = record.ended(submission.token)
        wanted = submission.elements if element is None else (element,)
        states = [ended[each].state for each in wanted if each in ended]
        bad = [each for each in states if each is not JobState.COMPLETED]
        if bad:
            return bad[0]
        return JobState.COMPLETED if len(states) == len(wanted) else None

    def usage(self, since: float, until: float) -> list[JobUsage]:
        """What jobs used that ended from `since` to `until`; see SchedulerKind.usage."""
        with self._reconciled() as (record, _):
            return read_usage(self._access.tools, record, since, until)

    def nodes(self) -> list[NodeState]:
        """All nodes of this Slurm."""
        return [node.state for node in read_nodes(self._access.tools).values()]


def _unknown(record: JobRecord, identifier: str) -> Problem:
    near = nearest(identifier, record.identifiers())
    return Problem(
        what=f"there is no job {identifier}",
        remedy=f"did you mean {near}?"
        if near
        else "gridwright jobs shows all; those of others and of sbatch are not in it",
    )
