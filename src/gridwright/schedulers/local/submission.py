"""Submission checks requests, fills in defaults, and puts all into the store in one transaction."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.errors import GridwrightError, Problem, nearest
from gridwright.schedulers.dependency import Dependency, DependencyType, aftercorr_problems, parse_dependency
from gridwright.schedulers.job import JobRequest
from gridwright.schedulers.local.identifiers import HIGHEST_INDEX, NO_INDEX, JobKey, parse_identifier
from gridwright.schedulers.local.job_row import JobRow, insert_row
from gridwright.schedulers.local.machine_resources import MachineResources
from gridwright.schedulers.local.queries import UnmetDependency, insert_dependencies
from gridwright.schedulers.local.store import Store, has_nul
from gridwright.schedulers.output_paths import path_problems
from gridwright.schedulers.start_limits import MOST_ELEMENTS, index_range, what_is_too_long
from gridwright.schedulers.supported_options import option_problems
from gridwright.trusted import user_name
from gridwright.units import format_bytes

if TYPE_CHECKING:
    from gridwright.spec.scheduler import SchedulerSection

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
    job = insert_row(store, row)
    insert_dependencies(store, job, (_key(each, earlier) for each in checked.after))
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
