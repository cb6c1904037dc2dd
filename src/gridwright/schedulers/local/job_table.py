"""The table `jobs` of the store: requests put in, rows for the runner, jobs as users see them.

All of a submission goes in by one transaction.
"""

from __future__ import annotations

import hmac
import math
import os
import socket
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gridwright.errors import ExitStatus, GridwrightError, Problem, nearest
from gridwright.schedulers.job import Job, JobOptions, JobRequest, JobState, options_text, read_options
from gridwright.schedulers.job_request import (
    MOST_ELEMENTS,
    Dependency,
    DependencyType,
    aftercorr_problems,
    filled,
    index_range,
    option_problems,
    parse_dependency,
    path_problems,
    what_is_too_long,
)
from gridwright.schedulers.local.policy import Allocation, Demand, MachineResources, PendingJob, Rank
from gridwright.schedulers.local.store import (
    HIGHEST_INDEX,
    NO_INDEX,
    TOKEN,
    JobKey,
    Store,
    has_nul,
    pack,
    pack_mapping,
    parse_identifier,
    token,
    unpack,
    unpack_mapping,
)
from gridwright.trusted import user_name
from gridwright.units import format_bytes

if TYPE_CHECKING:
    from gridwright.spec.scheduler import SchedulerSection


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job in the store: what all elements of an array have in common."""

    id: int = 0
    """0 until the store has given it a number."""
    name: bytes
    command: Sequence[bytes]
    directory: bytes
    environment: Mapping[bytes, bytes]
    libraries: Mapping[bytes, bytes]
    cores: int
    memory_bytes: int
    queue: str
    priority: float
    """That of its queue, less a part below 1 for its nice value."""
    time_limit_s: float | None
    is_array: bool
    is_restarted: bool
    is_kept: bool
    is_exclusive: bool
    is_null: bool
    user: str
    submitted: float
    """Seconds since 1970."""
    options: JobOptions = field(default_factory=JobOptions)

    @property
    def rank(self) -> Rank:
        """Its place among all jobs."""
        return (-self.priority, self.id)

    def demand(self, machine: MachineResources) -> Demand:
        """What it takes while it runs."""
        return _demand_of(machine, self.cores, self.memory_bytes, self.queue, self.is_exclusive)


_FIELDS = tuple(each.name for each in fields(JobRow))
_COLUMNS = tuple({"memory_bytes": "memory", "time_limit_s": "time_limit"}.get(each, each) for each in _FIELDS)
_FLAGS = tuple(each for each in _FIELDS if each.startswith("is_"))
_MAPPINGS = ("environment", "libraries")
_INSERT = f"INSERT INTO jobs ({', '.join(_COLUMNS[1:])}) VALUES ({', '.join('?' * len(_COLUMNS[1:]))})"  # noqa: S608
_SELECT = f"""
SELECT {", ".join(_COLUMNS)} FROM jobs
WHERE id>? AND id IN (SELECT t.job FROM tasks t WHERE t.state IN ('waiting', 'running') AND t.state=?)
ORDER BY id
"""  # noqa: S608 - names of columns only


def _insert_row(store: Store, row: JobRow) -> int:
    """Put a job into the store, within a transaction; its number."""
    values = {name: getattr(row, name) for name in _FIELDS[1:]}
    values["command"] = pack(row.command)
    values |= {name: pack_mapping(values[name]) for name in _MAPPINGS}
    values["options"] = options_text(row.options)
    return store.insert(_INSERT, list(values.values()))


def read_rows(store: Store, state: str, *, beyond: int = 0) -> list[JobRow]:
    """The jobs with tasks in a state, with numbers above `beyond`, in the order of their numbers."""
    return [_decoded(row) for row in store.all(_SELECT, (beyond, state))]


def _decoded(row: Sequence[Any]) -> JobRow:
    values = dict(zip(_FIELDS, row, strict=True))
    values["command"] = unpack(values["command"])
    values |= {name: unpack_mapping(values[name]) for name in _MAPPINGS}
    values["options"] = read_options(values["options"])
    values |= {name: bool(values[name]) for name in _FLAGS}
    return JobRow(**values)


PRIVATE = (b"work", b"util")
"""Libraries in which each job has a directory of its own."""
_OWN = tuple(
    f"GRIDWRIGHT_{name}".encode()
    for name in ("DATA", "WORK", "UTIL", "JOB_ID", "CORES", "MEMORY_BYTES", "ARRAY_INDEX", "JOB_TOKEN")
)
"""Variables that tell a job what it has; those of a job that submits another are not handed on."""

PRIVATE_PREFIX = ".gridwright-job-"


def private_directories(store: Store, row: JobRow, key: JobKey, attempt: int) -> list[bytes]:
    """The directories that are made for an attempt: below work and util, with names that tell the job.

    The store's identity keeps apart grids that share a library; each attempt has its own, since what the
    attempt before left may take time to be removed. Nobody else can know a name before it is there, and take
    it.
    """
    again = f"-{attempt + 1}" if attempt else ""
    name = os.fsencode(f"{PRIVATE_PREFIX}{key}{again}-{store.identity}")
    if store.secret:
        name += b"-" + hmac.digest(store.secret.encode(), name, "sha256").hex()[:16].encode()
    return [os.path.join(row.libraries[each], name) for each in PRIVATE if each in row.libraries]  # noqa: PTH118


def job_environment(store: Store, row: JobRow, key: JobKey, attempt: int) -> dict[bytes, bytes]:
    """All of the environment of an attempt."""
    environment = {**row.environment}
    for name in _OWN:
        environment.pop(name, None)
    ours = {
        "GRIDWRIGHT_JOB_ID": str(key),
        "GRIDWRIGHT_CORES": str(row.cores),
        "GRIDWRIGHT_MEMORY_BYTES": str(row.memory_bytes),
        TOKEN: token(store.identity, key, attempt),
    }
    if key.element != NO_INDEX:
        ours["GRIDWRIGHT_ARRAY_INDEX"] = str(key.element)
    environment.update({name.encode(): value.encode() for name, value in ours.items()})
    directories = dict(zip((each for each in PRIVATE if each in row.libraries),
                           private_directories(store, row, key, attempt), strict=True))  # fmt: skip
    for library, directory in {**row.libraries, **directories}.items():
        environment[b"GRIDWRIGHT_" + library.upper()] = directory
    return environment


LEAST_URGENT = 10_000
"""The highest nice value; a job stays ahead of those of a queue with a lower priority."""


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request with all defaults filled in."""

    request: JobRequest
    queue: str
    memory_bytes: int
    time_limit_s: float | None
    after: Sequence[Dependency]


def check_requests(
    requests: Sequence[JobRequest],
    machine: MachineResources,
    store: Store,
    section: SchedulerSection | None = None,
) -> list[CheckedRequest]:
    """Hold requests against what there is. Raises GridwrightError (status INPUT) with all problems.

    `section` says which options this scheduler can do; None: all.
    """
    problems: list[Problem] = []
    checked = []
    for number, request in enumerate(requests):
        found: list[Problem] = []
        if section is not None:
            found += option_problems(request, section)
        found += path_problems(request)
        found += _wrong_nice(request)
        found += _dependency_problems(request, requests[:number], store)
        checked.append(_check(request, machine, found))
        if request.name and (len(requests) > 1 or request.options.flow is not None):
            found = [replace(problem, what=f"{request.name}: {problem.what}") for problem in found]
        problems += found
    if problems:
        # Requests that are alike have the same problems.
        raise GridwrightError(*dict.fromkeys(problems))
    return checked


def _check(request: JobRequest, machine: MachineResources, problems: list[Problem]) -> CheckedRequest:
    queue = request.queue if request.queue is not None else machine.default_queue
    problems += _wrong_words(request)
    problems += _wrong_array(request)
    limits = machine.queues.get(queue)
    if limits is None:
        near = nearest(queue, machine.queues)
        remedy = f"{f'did you mean {near}? ' if near else ''}queues: {', '.join(machine.queues)}"
        problems.append(Problem(what=f"the grid has no queue {queue!r}", where="queue", remedy=remedy))
    most = machine.cores
    place = "this machine gives jobs"
    if limits is not None and limits.cores is not None and limits.cores < most:
        most, place = limits.cores, f"queue {queue} gives its jobs"
    if not 1 <= request.cores <= most:
        what = f"{request.cores} cores are asked for, and {place} {most}"
        problems.append(Problem(what=what, where="cores", remedy=f"ask for 1 to {most}"))
    memory = request.memory_bytes
    if memory is None:
        memory = machine.share_of_memory(max(1, request.cores))
    elif not 1 <= memory <= machine.memory_bytes:
        there = format_bytes(machine.memory_bytes)
        what = f"{format_bytes(memory)} of memory are asked for, and this machine gives jobs {there}"
        problems.append(Problem(what=what, where="memory", remedy=f"ask for {there} at most"))
    if request.node is not None and request.node != socket.gethostname():
        what = f"the grid has no node {request.node!r}"
        problems.append(Problem(what=what, where="node", remedy=f"its only node is {socket.gethostname()}"))
    longest = limits.time_s if limits else None
    time_s = request.time_limit_s if request.time_limit_s is not None else longest
    if time_s is not None and time_s <= 0:
        what = f"a time of {time_s:g} s is asked for"
        problems.append(Problem(what=what, where="time", remedy="ask for a time above 0"))
    if time_s is not None and longest is not None and time_s > longest:
        what = f"a time of {time_s:g} s is asked for, and queue {queue} gives a job {longest:g} s"
        problems.append(Problem(what=what, where="time", remedy=f"ask for {longest:g}s at most"))
    after = dict.fromkeys(
        each for each in map(parse_dependency, request.after) if isinstance(each, Dependency)
    )
    return CheckedRequest(request, queue, memory, time_s, list(after))


def _wrong_words(request: JobRequest) -> Iterator[Problem]:
    if not request.command:
        yield Problem(what="there is no command", where="command", remedy="write it after --")
    elif not request.command[0]:
        yield Problem(what="the program has an empty name", where="command", remedy="write the program")
    named = {
        "command": request.command,
        "directory": [request.directory],
        "environment": [*request.environment, *request.environment.values()],
        "name": [request.name],
        "libraries": list(request.libraries.values()),
    }
    for where, words in named.items():
        if has_nul(words):
            yield Problem(what="a NUL character cannot be handed on", where=where, remedy="leave it out")
    if request.command and (too_long := what_is_too_long(request)):
        yield Problem(what=too_long, where="command", remedy="put long text into a file")
    if wrong := next((name for name in request.environment if not name or "=" in name), None):
        yield Problem(what=f"{wrong!r} is no name of a variable", where="environment", remedy="leave it out")


def _wrong_array(request: JobRequest) -> Iterator[Problem]:
    if request.array is None:
        return
    if not request.array:
        yield Problem(what="the array has no element", where="array", remedy="write one such as 1-100")
        return
    low, high = index_range(request.array)
    if low < 0 or high > HIGHEST_INDEX:
        yield Problem(
            what=f"{low if low < 0 else high} is no index of an array",
            where="array",
            remedy=f"indices go from 0 to {HIGHEST_INDEX}",
        )
    elif len(request.array) > MOST_ELEMENTS:
        yield Problem(
            what=f"the array has {len(request.array)} elements, and one array has at most {MOST_ELEMENTS}",
            where="array",
            remedy="split it",
        )
    elif not isinstance(request.array, range) and len(set(request.array)) < len(request.array):
        counts = Counter(request.array)
        twice = next(index for index in request.array if counts[index] > 1)
        yield Problem(what=f"index {twice} is there twice", where="array", remedy="write each index once")


def _wrong_nice(request: JobRequest) -> Iterator[Problem]:
    if not 0 <= request.options.nice <= LEAST_URGENT:
        yield Problem(
            what=f"{request.options.nice} is no nice value here",
            where="nice",
            remedy=f"write 0 to {LEAST_URGENT}; a queue with a higher priority starts its jobs sooner",
        )


def _dependency_problems(
    request: JobRequest, before: Sequence[JobRequest], store: Store
) -> Iterator[Problem]:
    """What of a request's dependencies is not there, or cannot be waited for so."""
    seen: dict[str, DependencyType] = {}
    for each in map(parse_dependency, request.after):
        if isinstance(each, Problem):
            continue
        if seen.setdefault(each.job, each.type) is not each.type:
            what = f"{seen[each.job]} and {each.type} are both asked of job {each.job}"
            yield Problem(what=what, where="after", remedy="write one of them")
        array: Sequence[int] | None = None
        if each.earlier is not None:
            if each.earlier >= len(before):
                yield each.not_earlier
                continue
            array = before[each.earlier].array
        else:
            key = parse_identifier(each.job)
            if isinstance(key, Problem):
                yield Problem(what=key.what, where="after", remedy=key.remedy)
                continue
            if not exists(store, key):
                remedy = "gridwright jobs --all lists those that are remembered"
                yield Problem(what=f"there is no job {key}", where="after", remedy=remedy)
                continue
            if each.type is DependencyType.EACH and key.element == NO_INDEX:
                indices = [row[0] for row in store.all("SELECT idx FROM tasks WHERE job=?", (key.job,))]
                array = None if indices == [NO_INDEX] else indices
        if each.type is DependencyType.EACH:
            yield from aftercorr_problems(request.array, array, each.job)


def exists(store: Store, key: JobKey) -> bool:
    """Whether a job is remembered. An array is, by its own number or that of an element."""
    if key.element == NO_INDEX:
        return store.one("SELECT 1 FROM jobs WHERE id=?", (key.job,)) is not None
    return store.one("SELECT 1 FROM tasks WHERE job=? AND idx=?", key) is not None


def insert(store: Store, checked: Sequence[CheckedRequest], machine: MachineResources) -> list[str]:
    """Put requests into the store, within a transaction; their identifiers."""
    numbers: list[int] = []
    for request in checked:
        numbers.append(_insert(store, request, machine, numbers))
    return [str(number) for number in numbers]


def _insert(store: Store, checked: CheckedRequest, machine: MachineResources, earlier: Sequence[int]) -> int:
    request = checked.request
    row = JobRow(
        name=os.fsencode(request.name or Path(request.command[0]).name),
        command=[os.fsencode(word) for word in request.command],
        directory=os.fsencode(request.directory),
        environment=_encoded(request.environment),
        libraries=_encoded(request.libraries),
        cores=request.cores,
        memory_bytes=checked.memory_bytes,
        queue=checked.queue,
        priority=machine.queues[checked.queue].priority - request.options.nice / (LEAST_URGENT + 1),
        time_limit_s=checked.time_limit_s,
        is_array=request.array is not None,
        is_restarted=request.restart,
        is_kept=request.keep,
        is_exclusive=request.exclusive,
        is_null=request.null,
        user=user_name(os.getuid()),
        submitted=time.time(),
        options=request.options,
    )
    job = _insert_row(store, row)
    _insert_dependencies(store, job, (_key(each, earlier) for each in checked.after))
    indices = [NO_INDEX] if request.array is None else request.array
    store.change_many("INSERT INTO tasks (job, idx) VALUES (?, ?)", ((job, index) for index in indices))
    return job


def _key(dependency: Dependency, earlier: Sequence[int]) -> UnmetDependency:
    key = (
        JobKey(earlier[dependency.earlier])
        if dependency.earlier is not None
        else parse_identifier(dependency.job)
    )
    if isinstance(key, Problem):
        raise TypeError(key.what)
    return UnmetDependency(key, dependency.type)


def _encoded(values: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in values.items()}


class UnmetDependency(NamedTuple):
    """A job that another one waits for, and how it has to end."""

    key: JobKey
    type: DependencyType

    def __str__(self) -> str:
        return str(Dependency(str(self.key), self.type))


@dataclass(frozen=True, slots=True)
class DependencyProgress:
    """How far a job has come that others wait for."""

    met: bool
    why_never: str | None = None
    """Why it will never be as it has to be; None where it may."""
    provided: str = ""
    """How it stands, in words."""


def _insert_dependencies(store: Store, job: int, dependencies: Iterable[UnmetDependency]) -> None:
    """Write down what a job waits for, within a transaction."""
    store.change_many(
        "INSERT INTO dependencies (job, on_job, on_idx, type) VALUES (?, ?, ?, ?)",
        (
            (job, dependency.key.job, dependency.key.element, dependency.type.value)
            for dependency in dependencies
        ),
    )


def dependencies_of(store: Store, job: int) -> list[UnmetDependency]:
    """All that a job waits for or has waited for."""
    rows = store.all("SELECT on_job, on_idx, type FROM dependencies WHERE job=?", (job,))
    return [_read(row) for row in rows]


def unmet_dependencies(store: Store) -> dict[int, list[UnmetDependency]]:
    """What waiting jobs wait for, as far as that has not come."""
    dependencies: dict[int, list[UnmetDependency]] = {}
    known: dict[UnmetDependency, bool] = {}
    for job, *row in store.all(
        "SELECT d.job, d.on_job, d.on_idx, d.type FROM dependencies d WHERE d.job IN (SELECT t.job "
        "FROM tasks t WHERE t.state IN ('waiting', 'running') AND t.state='waiting')"
    ):
        each = _read(row)
        if each not in known:
            known[each] = dependency_progress(store, each).met
        if not known[each]:
            dependencies.setdefault(job, []).append(each)
    return dependencies


def dependency_progress(store: Store, dependency: UnmetDependency) -> DependencyProgress:
    """Whether a job that others wait for, or each of its elements, has ended as it has to."""
    left, unfinished, failed = store.one(
        "SELECT COUNT(*), TOTAL(state IN ('waiting', 'running')), "
        "MAX(CASE WHEN state NOT IN ('waiting', 'running') THEN state END) "
        "FROM tasks WHERE state<>'completed' AND job=? AND idx BETWEEN ? AND ?",
        dependency.key.tasks,
    )
    if unfinished:
        standing = "waits or runs" if left == 1 else f"{left:.0f} not yet"
    else:
        standing = failed or "completed"
    if dependency.type is DependencyType.ANY:
        return DependencyProgress(not unfinished, None, standing)
    if dependency.type is DependencyType.NOT_OK:
        never = f"job {dependency.key}, after whose failure it was to start, completed"
        return DependencyProgress(not unfinished and bool(failed), None if left else never, standing)
    if dependency.type is DependencyType.EACH:
        return DependencyProgress(not left, None, standing)
    never = f"job {dependency.key}, which it waited for, did not complete: {failed}"
    return DependencyProgress(not left, never if failed else None, failed or standing)


def ended_elements(store: Store, job: int, dependency: UnmetDependency) -> dict[int, str]:
    """The final states of those elements that waiting elements of an array wait for, by their index."""
    return dict(
        store.all(
            "SELECT o.idx, o.state FROM tasks m JOIN tasks o ON o.job=? AND o.idx=m.idx "
            "WHERE m.job=? AND m.state='waiting' AND o.state NOT IN ('waiting', 'running')",
            (dependency.key.job, job),
        )
    )


def _read(row: Iterable[object]) -> UnmetDependency:
    job, index, kind = row
    return UnmetDependency(JobKey(int(str(job)), int(str(index))), DependencyType(str(kind)))


_AT_ONCE = 500
"""Identifiers in one query: SQLite takes 999 values in old releases (SQLITE_MAX_VARIABLE_NUMBER)."""
# The indexed condition stands beside the one that is meant: else SQLite would not use the index.
_JOB = """
SELECT t.job, t.idx, j.name, t.state, j.queue, j.user, j.cores, j.memory, t.exit_status, t.signal, t.reason,
    j.submitted, t.started, t.ended, t.attempt, j.is_null, j.options
FROM tasks t JOIN jobs j ON j.id = t.job
"""


def find_keys(store: Store, identifiers: Collection[str]) -> list[JobKey]:
    """Read identifiers of jobs that are there. Raises GridwrightError (INPUT) with all that are not."""
    keys = {text: parse_identifier(text) for text in identifiers}
    problems = [key for key in keys.values() if isinstance(key, Problem)]
    found = [key for key in keys.values() if isinstance(key, JobKey)]
    known: set[int] = set()
    for part in _parts(sorted({key.job for key in found})):
        query = f"SELECT id FROM jobs WHERE id IN ({_marks(part)})"  # noqa: S608 - question marks only
        known.update(row[0] for row in store.all(query, part))
    elements = {
        key
        for key in found
        if key.element != NO_INDEX
        and key.job in known
        and store.one("SELECT 1 FROM tasks WHERE job=? AND idx=?", key) is None
    }
    for key in found:
        if key.job not in known:
            remedy = "gridwright jobs --all lists those that are remembered"
            problems.append(Problem(what=f"there is no job {key}", remedy=remedy))
        elif key in elements:
            what = f"job {key.job} has no element {key.element}"
            problems.append(Problem(what=what, remedy=f"see gridwright jobs {key.job}"))
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.INPUT)
    return found


def read_jobs(store: Store, keys: Collection[JobKey] | None) -> list[Job]:
    """Jobs, elements of arrays singly, in the order of their numbers. None: all."""
    if keys is None:
        return [_job(store, row) for row in store.all(f"{_JOB} ORDER BY t.job, t.idx")]
    requested = sorted({key.job for key in keys})
    whole = {key.job for key in keys if key.element == NO_INDEX}
    rows: list[Any] = []
    for part in _parts([job for job in requested if job in whole]):
        rows += store.all(f"{_JOB} WHERE t.job IN ({_marks(part)})", part)
    for key in keys:
        if key.job not in whole:
            rows += store.all(f"{_JOB} WHERE t.job=? AND t.idx=?", key)
    return [_job(store, row) for row in sorted(rows, key=lambda row: (row[0], row[1]))]


def _parts(values: Sequence[int]) -> Iterable[Sequence[int]]:
    return (values[at : at + _AT_ONCE] for at in range(0, len(values), _AT_ONCE))


def _marks(values: Sequence[int]) -> str:
    return ",".join("?" * len(values))


def _job(store: Store, row: Any) -> Job:  # noqa: ANN401 - a row of SQLite
    key = JobKey(row[0], row[1])
    started = row[12] is not None
    options = read_options(row[16])
    log = None if row[15] else store.log_of(key)
    if options.stdout is not None and log is not None:
        index = "" if key.element == NO_INDEX else str(key.element)
        log = filled(options.stdout, {"job": str(key), "index": index, "name": os.fsdecode(row[2])})
    return Job(
        id=str(key),
        name=os.fsdecode(row[2]),
        state=JobState(row[3]),
        queue=row[4],
        user=row[5],
        cores=row[6],
        memory_bytes=row[7],
        exit_status=row[8],
        signal=row[9],
        reason=row[10],
        node=socket.gethostname() if started else None,
        submitted=row[11],
        started=row[12],
        ended=row[13],
        restarts=row[14],
        log=log,
        flow=options.flow,
    )


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """All that a scheduling decision depends on: jobs that run, that wait, and that wait for others."""

    machine: MachineResources
    running: Sequence[Allocation]
    pending: Sequence[PendingJob]
    """In the order of rank."""
    waits_for: dict[int, list[UnmetDependency]]
    """Jobs that wait for others: not among `pending`."""
    begins: dict[int, float]
    """Jobs whose begin time is to come, with that: not among `pending` either."""


def _demand_of(machine: MachineResources, cores: int, memory: int, queue: str, exclusive: bool) -> Demand:
    """What a job takes; one that wants no other beside it takes all of the machine."""
    if exclusive:
        return Demand(machine.cores, machine.memory_bytes, queue, cores)
    return Demand(cores, memory, queue, cores)


def queue_snapshot(store: Store, machine: MachineResources, now: float) -> QueueSnapshot:
    """Read what a decision at `now` (seconds since 1970) depends on."""
    running = [
        Allocation(
            (-priority, job),
            _demand_of(machine, *demand),
            math.inf if limit is None else (started or now) + limit,
        )
        for job, priority, limit, started, *demand in store.all(
            "SELECT j.id, j.priority, j.time_limit, t.started, j.cores, j.memory, j.queue, j.is_exclusive "
            "FROM tasks t JOIN jobs j ON j.id=t.job "
            "WHERE t.state IN ('waiting', 'running') AND t.state='running'"
        )
    ]
    begins: dict[int, float] = {}
    pending = []
    for job, priority, limit, count, options, *demand in store.all(
        "SELECT j.id, j.priority, j.time_limit, COUNT(*), j.options, j.cores, j.memory, j.queue, "
        "j.is_exclusive "
        "FROM tasks t JOIN jobs j ON j.id=t.job "
        "WHERE t.state IN ('waiting', 'running') AND t.state='waiting' "
        "GROUP BY j.id ORDER BY -j.priority, j.id"
    ):
        time_s = math.inf if limit is None else limit
        pending.append(PendingJob((-priority, job), _demand_of(machine, *demand), time_s, count))
        begin = read_options(options).begin
        if begin is not None and begin > now:
            begins[job] = begin
    waits = unmet_dependencies(store)
    able = [each for each in pending if each.job not in waits and each.job not in begins]
    return QueueSnapshot(machine, running, able, waits, begins)
