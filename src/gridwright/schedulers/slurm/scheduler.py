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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.node_programs.batch_job.job_file import WHOLE
from gridwright.schedulers.batch.record import BY_TOKEN, JobEnd, Submission, by_tokens, look_up, unknown_job
from gridwright.schedulers.batch.recorded import (
    CANCELLED_BY_USER,
    ListedState,
    RecordedScheduler,
    listed_job,
    node_check,
    output_file,
    private_prefix,
    queue_check,
    sweep,
)
from gridwright.schedulers.batch.submission import NO_LIBRARY
from gridwright.schedulers.head_node import HeadNode, HeadNodeUnreachable
from gridwright.schedulers.job import (
    Job,
    JobExplanation,
    JobRequest,
    JobState,
    JobTag,
    NodeState,
    PlacementCheck,
    Requirement,
    new_token,
)
from gridwright.schedulers.job_request import Dependency, DependencyType, option_problems, parse_dependency
from gridwright.schedulers.slurm.accounting import (
    ResolvedDependencies,
    ended_otherwise,
    read_usage,
    resolve,
    write_ends,
)
from gridwright.schedulers.slurm.cluster import MIB, Cluster, Partition, SlurmNode, read_cluster, read_nodes
from gridwright.schedulers.slurm.job_script import JobDirectories, make_job_directories
from gridwright.schedulers.slurm.reconciliation import QueueView, reconcile
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.section import section_of
from gridwright.schedulers.slurm.submission import (
    LEASE_S,
    SbatchCall,
    SlurmAccess,
    log_file,
    memory_mib,
    request_problems,
    sbatch_options,
    scancel,
    submit_request,
    try_request,
)
from gridwright.schedulers.slurm.tools import QueueRow, ReasonMeaning, Tools, job_state, reason
from gridwright.schedulers.usage import JobUsage
from gridwright.spec.model import GridSpec
from gridwright.state_parts import KEPT_S


def _standing(
    submission: Submission, end: JobEnd | None, row: QueueRow | None, log: Path, *, cancelled: bool
) -> tuple[JobState, str]:
    """How a job stands, and why in words, empty where nothing is known of that."""
    if end is not None:
        return end.state, end.reason or ""
    if row is not None:
        word = job_state(row.words)
        state, sentence = word.state, word.sentence
        if state.final:
            state, sentence = JobState.RUNNING, "it has ended and its node is cleaning up"
        if state is JobState.WAITING and not sentence:
            sentence = reason(row.reason).sentence
        return state, "it is being cancelled" if cancelled else sentence
    if submission.orphaned_until is not None and log.exists():
        return JobState.RUNNING, "slurmctld has lost it, and its node goes on with it or has killed it"
    return JobState.WAITING, "it is being submitted to Slurm"


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
    """Why a job waits.

    `reason` is Slurm's for a job that waits; `memory_bytes` is what was asked of Slurm; `dependencies` are
    the jobs it waits for, with the state of each: None while not all elements have ended.
    """
    candidates = [_queue(request, partition, dependencies)]
    nodes = cluster.nodes_of(partition)
    if request.node is not None:
        nodes = [node for node in nodes if node.state.name == request.node]
    candidates += [_node(request, memory_bytes, node) for node in nodes]
    return JobExplanation(job=job, summary=_summary(reason, cluster, job), candidates=candidates)


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
        partition,
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


def _node(request: JobRequest, memory_bytes: int | None, node: SlurmNode) -> PlacementCheck:
    state = node.state
    asleep = f"{state.state} (powered on for a job that waits for it)"
    takes = Requirement(
        name="state",
        required="up",
        provided=asleep if state.asleep else state.standing,
        fits=state.up or state.asleep,
    )
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
    left = [
        (submission, (_prefix(submission, element, record), node), _prefix(submission, element, record))
        for token, element, node in leftovers
        if (submission := record.by_token(token)) is not None
    ]
    for library, jobs, status in sweep(access.tools.head, left):
        for prefix, node in jobs if status == NO_LIBRARY and "\n" not in library else ():
            if node is not None and "/" not in node:
                with (access.directories.leftovers / node).open("a") as file:
                    file.write(f"{library}/{prefix}\n")
    if leftovers:
        record.swept([(token, element) for token, element, _ in leftovers])


def _prefix(submission: Submission, element: int, record: JobRecord) -> str:
    ended = record.ended(submission.token).get(element)
    attempt = ended.attempt if ended is not None else submission.attempt
    return private_prefix(JobTag(submission.token, attempt), element)


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


class SlurmScheduler(RecordedScheduler[JobRecord, QueueView]):
    """Implements the protocol Scheduler on Slurm; see RecordedScheduler."""

    others = "those of others and of sbatch"

    def __init__(self, spec: GridSpec, head: HeadNode, state: Path) -> None:
        """`state` is the state directory of the grid: the same path here, on the head node and on all nodes.

        Raises GridwrightError: INPUT for wrong scheduler.options, ENVIRONMENT where `state` cannot be used.
        """
        place = str(spec.file) if spec.file is not None else None
        options = sbatch_options(section_of(spec).options, place)
        self._directories = make_job_directories(state)
        self._access = SlurmAccess(spec, Tools(head), self._directories, options)

    @contextmanager
    def _reconciled(self) -> Iterator[tuple[JobRecord, QueueView]]:
        with JobRecord(self._access.directories.record) as record:
            standing = reconcile(self._access, record)
            note_cpu_times(self._access.directories, record)
            clean_up(self._access, record)
            if record.fact("tidied", KEPT_S) is None:
                self._directories.tidy([each.token for each in standing.live])
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
                known, wrong = by_tokens(request, tokens[:number])
                problems += wrong
                named.append(known)
            batch = Batch(tokens, named)
            dependencies = [resolve(record, each, batch.unnumbered, batch.arrays) for each in named]
            cluster = self._checked(record, named, dependencies, problems)
            doomed = [{"doomed": dependency.doomed} for dependency in dependencies]
            intents = zip(tokens, named, doomed, strict=True)
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
        problems += [unknown_job(record, name, self.others) for name in unknown]
        problems += [problem for dependency in dependencies for problem in dependency.problems]
        problems += others
        problems += path_visibility_problems(requests, self._access.tools.head, record)
        if problems:
            raise GridwrightError(*dict.fromkeys(problems), status=ExitStatus.INPUT)
        return cluster

    def _submit_all(self, record: JobRecord, cluster: Cluster, batch: Batch) -> dict[str, str]:
        answers: list[tuple[JobTag, int]] = []
        doomed: list[str] = []
        with self._all_or_none(record, batch.tokens, answers):
            if batch.depends_on_itself:
                # One that is refused later would leave the earlier ones begun.
                for call in batch.calls(record):
                    try_request(self._access, record, cluster, call)
            for call in batch.calls(record):
                answers.append(submit_request(self._access, record, cluster, call))
                batch.numbers[call.tag.token] = answers[-1][1]
                doomed += call.doomed_jobs(answers[-1][1])
        identifiers = record.accepted(answers)
        scancel(self._access, doomed)
        return identifiers

    def _cancel_numbers(self, numbers: Sequence[int]) -> None:
        scancel(self._access, [str(number) for number in numbers])

    def _listed(self, submission: Submission, record: JobRecord, view: QueueView) -> dict[int, Job]:
        memory = None
        if view.live and submission.live:
            memory = self._memory(submission.request, read_cluster(self._access.tools, record))
        ended, cancelled = record.ended(submission.token), record.cancelled(submission.token)
        rows = {element: row for row in view.rows.get(submission.tag, ()) for element in row.elements}
        jobs = {}
        for element in submission.elements:
            end, row = ended.get(element), rows.get(element)
            tag = submission.tag if end is None else JobTag(submission.token, end.attempt)
            own = output_file(submission, element)
            log = Path(own) if own else log_file(self._directories.logs, submission.request, tag, element)
            state, sentence = _standing(submission, end, row, log, cancelled=element in cancelled)
            listed = ListedState(
                state=state,
                sentence=sentence,
                restarts=submission.interruptions + (row.restarts if row is not None else 0),
                log=str(log),
                memory_bytes=submission.request.memory_bytes or memory or None,
            )
            jobs[element] = listed_job(submission, element, end, row, listed)
        return jobs

    def _memory(self, request: JobRequest, cluster: Cluster) -> int | None:
        partition = cluster.partition(request.queue or self._access.section.partition)
        asked = memory_mib(request, cluster, partition)
        if asked is None:
            share = cluster.default_memory_per_core
            return None if share is None else share * request.cores
        return asked * MIB

    def _end_unsubmitted(self, record: JobRecord, submission: Submission, elements: Sequence[int]) -> None:
        ends = [ended_otherwise(submission, each, JobState.CANCELLED, CANCELLED_BY_USER) for each in elements]
        write_ends(record, [submission], ends)

    def _cancel_submitted(
        self, view: QueueView, targets: Sequence[tuple[Submission, list[int], list[int]]]
    ) -> None:
        words: list[str] = []
        for submission, elements, left in targets:
            if not view.has(submission):
                # Its number may be another's by now; the next command cancels it should it be back.
                continue
            if WHOLE in elements or set(elements) == set(submission.elements):
                words.append(str(submission.number))
            else:
                words += [f"{submission.number}_{each}" for each in left]
        scancel(self._access, words)

    def _waiting(
        self, record: JobRecord, view: QueueView, job: Job, submission: Submission, element: int
    ) -> JobExplanation:
        cluster = read_cluster(self._access.tools, record, fresh=True)
        row, request = view.row(submission, element), submission.request
        name = row.queue if row is not None else request.queue or self._access.section.partition
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
                name = found.job if submission is None else submission.name_of(element)
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
