"""The scheduler of a grid with Slurm: runs Slurm's tools on the head node, and keeps a record of jobs.

Reads the processor time of jobs that their own script wrote down, for a Slurm that keeps no database.

jobcomp/filetxt has no processor time, and sacct has it only out of slurmdbd.

The requests of one call of `submit`, which may wait for each other.

Removes the private directories of jobs that were killed before their script could remove them.

Looks whether the head node sees the directories and files that jobs name: nodes see the same.

Slurm starts a job whose directory is not there, and ends it at once with an error in a log that nobody looks
at first; one whose output cannot be opened ends without any log. So it is asked before.

Explains why a job waits: compares what it needs with its queue and with every node.

Lists jobs as users see them, from our record and Slurm's queue.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.schedulers.dependency import Dependency, DependencyType, parse_dependency
from gridwright.schedulers.head_node import HeadNode, HeadNodeUnreachable
from gridwright.schedulers.job import (
    Job,
    JobExplanation,
    JobRequest,
    JobState,
    NodeState,
    PlacementCheck,
    Requirement,
)
from gridwright.schedulers.job_tag import JobTag, new_token
from gridwright.schedulers.placement import node_check, queue_check
from gridwright.schedulers.private_sweep import NO_LIBRARY, SWEEP_AT_ONCE, SWEEP_TIMEOUT_S, sweep_command
from gridwright.schedulers.slurm.access import SlurmAccess, scancel
from gridwright.schedulers.slurm.cluster import MIB, Cluster, Partition, SlurmNode, read_cluster, read_nodes
from gridwright.schedulers.slurm.dependencies import (
    BY_TOKEN,
    ResolvedDependencies,
    by_tokens,
    look_up,
    name_of,
    resolve,
)
from gridwright.schedulers.slurm.ends import ended_otherwise, write_ends
from gridwright.schedulers.slurm.job_directories import JobDirectories, make_job_directories
from gridwright.schedulers.slurm.job_name import split_identifier
from gridwright.schedulers.slurm.job_script import private_prefix
from gridwright.schedulers.slurm.options import sbatch_options
from gridwright.schedulers.slurm.queue_row import QueueRow
from gridwright.schedulers.slurm.reconciliation import QueueView, reconcile
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.record_rows import WHOLE, JobEnd, Submission
from gridwright.schedulers.slurm.section import section_of
from gridwright.schedulers.slurm.submission import (
    SbatchCall,
    job_label,
    log_file,
    memory_mib,
    request_problems,
)
from gridwright.schedulers.slurm.submitting import LEASE_S, submit_request, try_request
from gridwright.schedulers.slurm.tools import Tools
from gridwright.schedulers.slurm.translations import ReasonMeaning, job_state, reason
from gridwright.schedulers.slurm.usage import read_usage
from gridwright.schedulers.supported_options import option_problems
from gridwright.schedulers.usage import JobUsage
from gridwright.spec.model import GridSpec
from gridwright.state_parts import KEPT_S, this_user


@dataclass(frozen=True, slots=True)
class JobElement:
    """One job of a submission."""

    submission: Submission
    number: int
    """Its index, or WHOLE."""

    def __hash__(self) -> int:
        return hash((self.submission.token, self.number))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobElement) and (self.submission.token, self.number) == (
            other.submission.token,
            other.number,
        )


def job_of(
    submission: Submission,
    record: JobRecord,
    standing: QueueView,
    directories: JobDirectories,
    memory_bytes: int | None,
) -> dict[int, Job]:
    """All jobs of a submission, by element; `memory_bytes` is what was asked of Slurm, 0 all of a node's."""
    ended, cancelled = record.ended(submission.token), record.cancelled(submission.token)
    rows: dict[int, QueueRow] = {}
    for row in standing.rows.get(submission.tag, ()):
        for number in (WHOLE,) if row.indices is None else row.indices:
            rows[number] = row
    return {
        number: _job(
            submission,
            number,
            end=ended.get(number),
            row=rows.get(number),
            cancelled=number in cancelled,
            directories=directories,
            memory_bytes=memory_bytes,
        )
        for number in submission.elements
    }


def _job(
    submission: Submission,
    number: int,
    *,
    end: JobEnd | None,
    row: QueueRow | None,
    cancelled: bool,
    directories: JobDirectories,
    memory_bytes: int | None,
) -> Job:
    request = submission.request
    state, sentence = JobState.WAITING, "it is being submitted to Slurm"
    attempt = end.attempt if end is not None else submission.attempt
    index = None if number == WHOLE else number
    log = log_file(directories.logs, request, JobTag(submission.token, attempt), index, submission.slurm_id)
    if end is not None:
        state, sentence = end.state, end.reason or ""
    elif row is not None:
        word = job_state(row.words)
        state, sentence = word.state, word.sentence
        if state.final:
            state, sentence = JobState.RUNNING, "it has ended and its node is cleaning up"
        if state is JobState.WAITING and not sentence:
            sentence = reason(row.reason).sentence
        if cancelled:
            sentence = "it is being cancelled"
    elif submission.orphaned_until is not None and log.exists():
        state, sentence = (
            JobState.RUNNING,
            "slurmctld has lost it, and its node goes on with it or has killed it",
        )
    return Job(
        id=f"{submission.identifier}" if index is None else f"{submission.identifier}_{index}",
        name=job_label(request),
        state=state,
        queue=end.queue if end is not None else row.partition if row is not None else request.queue,
        user=this_user(),
        cores=request.cores,
        memory_bytes=request.memory_bytes or memory_bytes or None,
        exit_status=end.exit_status if end is not None else None,
        signal=end.signal if end is not None else None,
        reason=sentence or None,
        node=_listing_node(end, row),
        submitted=submission.submitted,
        started=end.started if end is not None else row.started if row is not None else None,
        ended=end.ended if end is not None else None,
        restarts=end.restarts if end is not None else submission.interruptions + (row.restarts if row else 0),
        log=str(log),
        flow=request.options.flow,
    )


def _listing_node(end: JobEnd | None, row: QueueRow | None) -> str | None:
    if end is not None:
        return end.node
    return row.node if row is not None else None


def explain_job(
    job: Job,
    request: JobRequest,
    cluster: Cluster,
    *,
    reason: ReasonMeaning | None,
    memory_bytes: int | None,
    partition: Partition | None,
    dependencies: Sequence[tuple[Dependency, JobState | None]],
) -> JobExplanation:
    """An explanation.

    `reason` is Slurm's for a job that waits; `memory_bytes` is what was asked of Slurm; `dependencies` are
    the jobs it waits for, with the state of each: None while not all elements have ended.
    """
    if job.state.final:
        return JobExplanation(job=job, summary=f"It has ended: {job.state}{_because(job.reason)}.")
    if job.state is JobState.RUNNING:
        return JobExplanation(job=job, summary=f"It runs on {job.node or 'a node'}{_because(job.reason)}.")
    candidates = [_queue(request, partition, dependencies)]
    nodes = cluster.nodes_of(partition)
    if request.node is not None:
        nodes = [node for node in nodes if node.state.name == request.node]
    candidates += [_node(request, memory_bytes, node) for node in nodes]
    return JobExplanation(job=job, summary=_summary(reason, cluster, job), candidates=candidates)


def _because(text: str | None) -> str:
    return f" ({text})" if text else ""


def _summary(reason: ReasonMeaning | None, cluster: Cluster, job: Job) -> str:
    if reason is None:
        return "Slurm does not have it yet."
    sentence = f"It waits: {reason.sentence} (Slurm: {reason.word})."
    if reason.word == "BeginTime" and job.restarts:
        # It waits until the credential of the lost run cannot be used any more (slurm.conf(5), AuthInfo).
        wait = 1 + _cred_expire_s(cluster)
        sentence = (
            f"It waits: its node failed, and Slurm starts it again {wait} s after that at the earliest"
            f" (cred_expire in AuthInfo of slurm.conf, and 1 s)."
        )
    if reason.remedy:
        sentence += f" What to do: {reason.remedy}."
    return sentence


def _cred_expire_s(cluster: Cluster) -> int:
    for part in cluster.config.get("AuthInfo", "").split(","):
        key, _, value = part.partition("=")
        if key.strip() == "cred_expire" and value.isdigit():
            return int(value)
    return 120


def _queue(
    request: JobRequest,
    partition: Partition | None,
    dependencies: Sequence[tuple[Dependency, JobState | None]],
) -> PlacementCheck:
    return queue_check(
        request,
        partition.name if partition is not None else None,
        is_up=partition is not None and partition.up,
        longest_s=partition.longest_s if partition is not None else None,
        dependencies=[
            Requirement(
                name=f"after {dependency}",
                required=dependency.type.required,
                provided="not ended" if state is None else str(state),
                fits=_as_required(dependency, state),
            )
            for dependency, state in dependencies
        ],
    )


def _as_required(dependency: Dependency, state: JobState | None) -> bool:
    if state is None:
        return False
    if dependency.type is DependencyType.NOT_OK:
        return state is not JobState.COMPLETED
    return dependency.type is DependencyType.ANY or state is JobState.COMPLETED


def _standing(node: SlurmNode) -> str:
    state = node.state
    if state.asleep:
        return f"{state.state} (powered on for a job that waits for it)"
    return state.state + (f" ({state.reason})" if state.reason else "")


def _node(request: JobRequest, memory_bytes: int | None, node: SlurmNode) -> PlacementCheck:
    state = node.state
    takes = Requirement(name="state", required="up", provided=_standing(node), fits=state.up or state.asleep)
    # 0 stands for all memory of a node (sbatch(1), --mem).
    needed = None if memory_bytes is None else memory_bytes or state.memory_bytes
    return node_check(request, needed, state, takes)


_LOOK = """
for each do
    path=${each#?}
    case $each in
        d*) test -d "$path" && test -x "$path" ;;
        w*) test -d "$path" && test -w "$path" ;;
        f*) test -r "$path" ;;
    esac || printf '%s\\0' "$each"
done
"""
"""A constant text; what users wrote are its arguments. The first letter says what each has to be."""
_FACT, _SEEN_S = "seen paths", 20.0
_AT_ONCE = 100_000
"""Bytes of paths in one command."""


def path_visibility_problems(
    requests: Sequence[JobRequest], head: HeadNode, record: JobRecord
) -> Iterator[Problem]:
    """Every directory and file of requests that nodes do not see. One command for all; none where that fails.

    A path with a place for the job's identifier or index is looked at as far as its directory, where that
    has none. What was seen is taken to be there for a while: many jobs are submitted from one directory.
    Raises HeadNodeUnreachable.
    """
    seen = set(json.loads(record.fact(_FACT, _SEEN_S) or "[]"))
    problems: dict[str, Problem] = {}
    for request in requests:
        for key, problem in _path_checks(request, head.name):
            if key not in seen and key != "d/":
                problems.setdefault(key, problem)
    missing = set()
    for key in _not_there(list(problems), head):
        missing.add(key)
        yield problems[key]
    if problems.keys() - missing:
        record.keep_fact(_FACT, json.dumps(sorted(problems.keys() - missing)))


def _not_there(keys: list[str], head: HeadNode) -> Iterator[str]:
    known = set(keys)
    while keys:
        part = [keys.pop()]
        size = len(os.fsencode(part[0]))
        while keys and size < _AT_ONCE:
            part.append(keys.pop())
            size += len(os.fsencode(part[-1]))
        try:
            answer = head.run(["/bin/sh", "-c", _LOOK, "sh", *part], timeout_s=20.0)
        except HeadNodeUnreachable:
            raise
        except GridwrightError:
            # A file system that hangs there: the job says so better than this look.
            continue
        yield from (key for key in map(os.fsdecode, answer.stdout.split(b"\0")) if key in known)


def _path_checks(request: JobRequest, head: str) -> Iterator[tuple[str, Problem]]:
    remedy = "name a directory on a file system of the grid, such as one below a library"
    yield (
        f"d{request.directory}",
        Problem(
            what=f"nodes do not see the directory {request.directory}: {head} has none there",
            where="directory",
            remedy=f"{remedy}, with --directory",
        ),
    )
    options = request.options
    if options.stdin is not None and "{" not in options.stdin:
        yield (
            f"f{options.stdin}",
            Problem(
                what=f"nodes cannot read {options.stdin}: {head} has no such file",
                where="stdin",
                remedy="put it on a file system of the grid",
            ),
        )
    for name, path in (("stdout", options.stdout), ("stderr", options.stderr)):
        directory = os.path.dirname(path) if path is not None else ""  # noqa: PTH120 - bytes that are no UTF-8
        if directory and "{" not in directory:
            yield (
                f"w{directory}",
                Problem(
                    what=f"nodes cannot write into {directory}: {head} has no such directory, or it is not "
                    "yours",
                    where=name,
                    remedy=remedy,
                ),
            )


def clean_up(access: SlurmAccess, record: JobRecord) -> None:
    """Remove what is left of jobs that have ended and were not to be kept; nothing without our own naming.

    A library that the head node does not see is on a disk of the job's node: what is to be removed is written
    down for the next job there.
    """
    leftovers = record.leftovers()
    if not leftovers:
        return
    by_library: dict[str, list[tuple[Submission, int, str | None]]] = {}
    for token, element, node in leftovers:
        submission = record.by_token(token)
        if submission is not None:
            for library in ("work", "util"):
                if directory := submission.request.libraries.get(library):
                    by_library.setdefault(directory, []).append((submission, element, node))
    for directory, jobs in by_library.items():
        _clean_library(access, record, directory, jobs)
    record.swept([(token, element) for token, element, _ in leftovers])


def _clean_library(
    access: SlurmAccess,
    record: JobRecord,
    directory: str,
    jobs: list[tuple[Submission, int, str | None]],
) -> None:
    for first in range(0, len(jobs), SWEEP_AT_ONCE):
        chosen = jobs[first : first + SWEEP_AT_ONCE]
        prefixes = [_prefix(submission, element, record) for submission, element, _ in chosen]
        command = sweep_command(directory, prefixes)
        try:
            status = access.tools.head.run(command, timeout_s=SWEEP_TIMEOUT_S).status
        except GridwrightError:
            # A file system that hangs must not keep jobs from being shown; the directories stay.
            return
        if status == NO_LIBRARY:
            _leave_to_nodes(access, record, directory, chosen)


def _prefix(submission: Submission, element: int, record: JobRecord) -> str:
    ended = record.ended(submission.token).get(element)
    attempt = ended.attempt if ended is not None else submission.attempt
    return private_prefix(JobTag(submission.token, attempt), None if element == WHOLE else element)


def _leave_to_nodes(
    access: SlurmAccess,
    record: JobRecord,
    directory: str,
    jobs: list[tuple[Submission, int, str | None]],
) -> None:
    for submission, element, node in jobs:
        if node is None or "/" in node or "\n" in directory:
            continue
        with (access.directories.leftovers / node).open("a") as file:
            file.write(f"{directory}/{_prefix(submission, element, record)}\n")


class Batch:
    """Requests in order, each with its token; what one waits for stands before it."""

    def __init__(self, tokens: Sequence[str], requests: Sequence[JobRequest]) -> None:
        self.tokens = list(tokens)
        self.requests = list(requests)
        self.numbers: dict[str, int] = {}
        """Slurm's numbers of those that it has taken, by token."""

    @property
    def unnumbered(self) -> Mapping[str, int]:
        """Every token with no number yet: to look dependencies up before anything is submitted."""
        return dict.fromkeys(self.tokens, 0)

    @property
    def arrays(self) -> Mapping[str, Sequence[int] | None]:
        """Indices by token."""
        return {token: each.array for token, each in zip(self.tokens, self.requests, strict=True)}

    @property
    def depends_on_itself(self) -> bool:
        """Whether one of them waits for another one of them."""
        return any(f"{BY_TOKEN}" in text for request in self.requests for text in request.after)

    def calls(self, record: JobRecord) -> Iterator[SbatchCall]:
        """The call of sbatch for each, made when it is its turn: earlier ones have their numbers then."""
        for token, request in zip(self.tokens, self.requests, strict=True):
            waits_for = resolve(record, request, self.numbers, self.arrays)
            yield SbatchCall(
                request=request,
                tag=JobTag(token, 0),
                elements=request.array,
                after=waits_for.after,
                doomed=waits_for.doomed is not None,
                doomed_elements=sorted(waits_for.doomed_elements),
            )


_TIME = re.compile(r"([0-9]+)m([0-9]+(?:[.,][0-9]+)?)s")
UNKNOWN = -1.0
"""Kept of a job whose script wrote nothing, since it was killed: it is not looked for again."""


def note_cpu_times(directories: JobDirectories, record: JobRecord) -> None:
    """Read the times of jobs that have ended since, each once."""
    found = []
    for submission, end in record.without_cpu_time():
        tag = JobTag(end.token, end.attempt)
        job = f"{tag}" if end.element == WHOLE else f"{tag}_{end.element}"
        run = f"{job}.{end.restarts - submission.interruptions}"
        try:
            text = (directories.runs / f"{run}.times").read_text(errors="replace")
        except OSError:
            text = ""
        seconds = parse_times(text)
        found.append((UNKNOWN if seconds is None else seconds, end.token, end.element))
    if found:
        record.keep_cpu_times(found)


def parse_times(text: str) -> float | None:
    """User and system time of the children of a shell, in seconds: the second line of `times` (POSIX)."""
    lines = text.splitlines()
    found = _TIME.findall(lines[1]) if len(lines) > 1 else []
    if len(found) != 2:
        return None
    return sum(int(minutes) * 60 + float(seconds.replace(",", ".")) for minutes, seconds in found)


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
            intents = zip(tokens, named, (dependency.doomed for dependency in dependencies), strict=True)
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
        unknown = [name for dependency in dependencies for name in dependency.unknown]
        default = self._access.section.partition
        for fresh in (False, True):
            cluster = read_cluster(self._access.tools, record, fresh=fresh)
            problems = [
                request_problem
                for request in requests
                for request_problem in request_problems(request, cluster, default)
            ]
            if not problems:
                break
        problems += [_unknown(record, name) for name in unknown]
        problems += [problem for dependency in dependencies for problem in dependency.problems]
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
        elements: list[JobElement] = []
        problems: list[Problem] = []
        for identifier in identifiers:
            parts = split_identifier(identifier)
            submission = record.by_identifier(parts[0]) if parts else None
            if parts is None or submission is None:
                problems.append(_unknown(record, identifier))
            elif parts[1] is None:
                elements += [JobElement(submission, number) for number in submission.elements]
            elif parts[1] in submission.elements:
                elements.append(JobElement(submission, parts[1]))
            else:
                problems.append(
                    Problem(
                        what=f"job {parts[0]} has no element {parts[1]}",
                        remedy=f"see gridwright jobs {parts[0]}",
                    )
                )
        if problems:
            raise GridwrightError(*problems, status=ExitStatus.INPUT)
        return list(dict.fromkeys(elements))

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
                open_numbers = [number for number in numbers if number not in record.ended(token)]
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
        requested = submission.elements if element is None else (element,)
        states = [ended[each].state for each in requested if each in ended]
        bad = [state for state in states if state is not JobState.COMPLETED]
        if bad:
            return bad[0]
        return JobState.COMPLETED if len(states) == len(requested) else None

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
