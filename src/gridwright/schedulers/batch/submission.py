"""Hands jobs in to a batch system, checked before, and never twice; the directories of one user's jobs.

These are below the state directory, at the same path on all nodes.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gridwright.beneath import remove_tree
from gridwright.errors import GridwrightError, Problem, environment_error, input_error, nearest
from gridwright.node_programs.batch_job.job_file import JobFile, Predecessor, RunEnd, read_end
from gridwright.node_programs.one_file import BATCH_JOB, BATCH_JOB_STARTER
from gridwright.schedulers.batch.record import BatchRecord, WaitedFor
from gridwright.schedulers.batch.system import (
    ANSWER_S,
    PATIENCE_S,
    AfterJob,
    BatchCall,
    BatchFacts,
    BatchSystem,
    NotReached,
    NotTaken,
    Unclear,
    tagged_name,
)
from gridwright.schedulers.job import JobRequest, JobTag
from gridwright.schedulers.job_request import (
    MOST_ELEMENTS,
    DependencyType,
    index_range,
    path_problems,
    what_is_too_long,
)
from gridwright.state_parts import KEPT_S, own_directory, unusable_state, write_program
from gridwright.units import format_bytes

_RUN_FILE = re.compile(r"(job|[0-9]+)\.([0-9]+)\.(begun|ended)")


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run of a job that has begun."""

    number: int
    """From 0."""
    ended: Path | None
    """The file that says how it ended; None while there is none."""

    @property
    def end(self) -> RunEnd | None:
        """How it ended, where it has."""
        return read_end(self.ended) if self.ended is not None else None


@dataclass(frozen=True, slots=True)
class OwnDirectories:
    """The directories of one user: a record of one's own keeps users of a shared file system apart."""

    base: Path

    @property
    def logs(self) -> Path:
        """A file for each job, with what it printed."""
        return self.base / "logs"

    def fence_file(self, tag: JobTag) -> Path:
        """The file that keeps an attempt from beginning."""
        return self.base / "fences" / str(tag)

    def fence(self, tag: JobTag) -> None:
        """Keep an attempt from beginning, should it be there after all. One that runs goes on."""
        with self.fence_file(tag).open("w") as file:
            file.flush()
            os.fsync(file.fileno())

    def forget(self, tag: JobTag) -> None:
        """Remove what nodes had to know of a submission that has ended: it has the job's environment."""
        (self.base / "jobs" / f"{tag}.json").unlink(missing_ok=True)

    def tidy(self, needed: Collection[str]) -> None:
        """Remove runs and fences of the day before, but for those of `needed` tokens.

        Not sooner: a batch system that was killed may bring back what ended shortly before, and the program
        on the node is to know that it ran.
        """
        now = time.time()
        for directory in (self.base / "runs", self.base / "fences"):
            for path in directory.iterdir():
                if path.name.partition(".")[0] in needed or now - path.stat().st_mtime <= KEPT_S:
                    continue
                if path.is_dir():
                    remove_tree(path)
                else:
                    path.unlink(missing_ok=True)


class BatchDirectories(OwnDirectories):
    """The directories of a batch system whose nodes run the program batch_job."""

    __slots__ = ()

    @property
    def record(self) -> Path:
        """The record of submissions."""
        return self.base / "jobs.sqlite"

    def log(self, request: JobRequest, tag: JobTag) -> Path:
        """Where the jobs of a submission print to, without `_INDEX` of an element and without `.log`."""
        return self.logs / tagged_name(request.label, tag)

    def runs(self, tag: JobTag) -> Path:
        """The files that say what became of the jobs of a submission."""
        return self.base / "runs" / str(tag)

    @property
    def program(self) -> Path:
        """The program that runs jobs, as nodes are to start it."""
        return self.base / f"batch_job-{_program()[0]}.sh"

    def write_job(self, tag: JobTag, job: JobFile) -> None:
        """Write down what nodes have to know of a submission, and the program. Raises GridwrightError."""
        path = self.base / "jobs" / f"{tag}.json"
        try:
            self.runs(tag).mkdir(mode=0o700, exist_ok=True)
            part = path.with_suffix(".part")
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(job.text())
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            self._write_program()
        except OSError as error:
            raise unusable_state(error, self.base, path) from error

    def _write_program(self) -> None:
        _, archive = _program()
        for path, content in (
            (self.program.with_suffix(".pyz"), archive),
            (self.program, BATCH_JOB_STARTER.encode()),
        ):
            write_program(path.parent, path.name, content)

    def last_runs(self, tag: JobTag) -> dict[str, LastRun]:
        """The last run of each job of a submission that has begun, by index, `job` where it is no array."""
        last_runs: dict[str, LastRun] = {}
        try:
            names = [entry.name for entry in self.runs(tag).iterdir()]
        except OSError:
            return last_runs
        for name in sorted(names):
            parts = _RUN_FILE.fullmatch(name)
            if parts is None:
                continue
            number = int(parts[2])
            if (known := last_runs.get(parts[1])) is not None and known.number > number:
                continue
            ended = self.runs(tag) / name if parts[3] == "ended" else None
            if ended is None and known is not None and known.number == number:
                continue
            last_runs[parts[1]] = LastRun(number, ended)
        return last_runs


@cache
def _program() -> tuple[str, bytes]:
    archive = BATCH_JOB.archive()
    return hashlib.sha256(archive + BATCH_JOB_STARTER.encode()).hexdigest()[:12], archive


def make_batch_directories(state: Path, kind: str) -> BatchDirectories:
    """The directories of this user, made where they are not there. Raises GridwrightError (ENVIRONMENT)."""
    return BatchDirectories(own_directory(state, kind, ("jobs", "logs", "runs", "fences")))


SWEEP_AT_ONCE = 200
"""Prefixes in one command, so that its arguments stay short."""
SWEEP_TIMEOUT_S = 120.0
NO_LIBRARY = 3
"""Its exit status where the library is not seen there."""
HOLDS = r"""holds() {
    [ -k "$1" ] || [ -n "$(command -p find "$1/." -prune ! -perm -020 ! -perm -002 -print)" ]
}"""
"""A function of the shell: whether nobody but its owner can give a directory in $1 another name.

Elsewhere another user gives the name of a job that was killed to any directory of the job's user.
"""
_SWEEP = f"""library=$1
shift
[ -d "$library" ] || exit {NO_LIBRARY}
{HOLDS}
holds "$library" || exit 0
for prefix do
    for each in "$library/$prefix"*; do
        [ -d "$each" ] && [ -O "$each" ] && [ ! -L "$each" ] || continue
        # What a job made unwritable goes, too.
        rm -rf -- "$each" 2>/dev/null || {{ chmod -R u+rwx -- "$each" && rm -rf -- "$each"; }}
    done
done
exit 0
"""
"""Removes directories of this user's in its first argument whose names begin with one of the others."""


def sweep_command(library: str, prefixes: Sequence[str]) -> list[str]:
    """Program and arguments: removes directories of a library whose names begin with one of `prefixes`.

    Those of other users stay, as whoever lists jobs knows the names; so does all in a library that is not
    sticky, and that others may write: what has such a name there need not be what the job made.
    """
    return ["/bin/sh", "-c", _SWEEP, "sweep", library, *prefixes]


LEASE_S = 2 * PATIENCE_S + 3 * ANSWER_S
"""How long a submission is left to the process that submits it: longer than that takes at worst."""
_GIVEN = frozenset(
    f"GRIDWRIGHT_{name}"
    for name in ("DATA", "WORK", "UTIL", "JOB_ID", "CORES", "MEMORY_BYTES", "ARRAY_INDEX")
)
"""Variables that say what a job has; those of a job that submits another are not the other's."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way to the batch system."""

    request: JobRequest
    tag: JobTag
    waits: WaitedFor
    memory_bytes: int | None


class Submitter:
    """Hands jobs in, one after the other."""

    def __init__(self, system: BatchSystem, directories: BatchDirectories, record: BatchRecord) -> None:
        self._system = system
        self._directories = directories
        self._record = record

    def submit(self, outgoing: Outgoing) -> tuple[JobTag, int]:
        """Submit one job; its attempt and number. Bounded by LEASE_S.

        Where it is not clear whether the batch system has taken it, its queue is asked. A job that is not in
        there gets a fence, so that it does not begin should it arrive late, and goes in as the next attempt.
        Raises GridwrightError: INPUT where it is refused, ENVIRONMENT where nobody answers.
        """
        give_up, wait_s = time.monotonic() + PATIENCE_S, 0.2
        while True:
            self._directories.write_job(outgoing.tag, self._job_file(outgoing))
            try:
                return outgoing.tag, self._system.submit(self._call(outgoing))
            except NotTaken as refused:
                what = f"{outgoing.request.label}: {self._system.name} refuses it: {refused}"
                raise input_error(what, remedy="change what it says, and submit again") from None
            except NotReached as silent:
                said = str(silent)
            except Unclear as silent:
                said = str(silent)
                found = [row.number for row in self._system.queue() if row.tag == outgoing.tag]
                if found:
                    return outgoing.tag, found[0]
                self._directories.fence(outgoing.tag)
                if self._directories.last_runs(outgoing.tag):
                    # It runs, and has perhaps ended: the next command finds out how.
                    raise self._deferred(said) from None
                tag = self._record.claim(outgoing.tag, time.time() + LEASE_S)
                if tag is None:
                    raise self._deferred(said) from None
                outgoing = replace(outgoing, tag=tag)
            if time.monotonic() + wait_s > give_up:
                raise self._deferred(said)
            time.sleep(wait_s)
            wait_s = min(2.0, wait_s * 2)

    def _deferred(self, said: str) -> GridwrightError:
        return environment_error(
            f"{self._system.name} does not answer: {said}; the job is kept, and the next command of "
            "Gridwright hands it in",
            remedy=f"see whether the service of {self._system.name} runs",
        )

    def _call(self, outgoing: Outgoing) -> BatchCall:
        request = outgoing.request
        return BatchCall(
            request=request,
            tag=outgoing.tag,
            program=[str(self._directories.program), str(self._directories.base), str(outgoing.tag)],
            elements=None if request.array is None else len(request.array),
            after=_after(outgoing),
            memory_bytes=outgoing.memory_bytes,
        )

    def _job_file(self, outgoing: Outgoing) -> JobFile:
        request, tag, system = outgoing.request, outgoing.tag, self._system
        memory = outgoing.memory_bytes
        environment = given_environment(request)
        if memory is not None:
            environment["GRIDWRIGHT_MEMORY_BYTES"] = str(memory)
        return JobFile(
            command=list(request.command),
            directory=request.directory,
            environment=environment,
            log=str(self._directories.log(request, tag)),
            runs=str(self._directories.runs(tag)),
            fence=str(self._directories.fence_file(tag)),
            private=f"gridwright-{tag}",
            work=request.libraries.get("work", ""),
            util=request.libraries.get("util", ""),
            keep=request.keep,
            restart=request.restart,
            elements=None if request.array is None else list(request.array),
            limit_bytes=None if system.limits_memory else memory,
            number_variable=system.number_variable,
            position_variable=system.position_variable,
            kept_prefixes=list(system.kept_prefixes),
            after=[
                Predecessor(
                    each.identifier,
                    str(self._directories.runs(each.submission.tag)),
                    list(each.elements),
                    each.type.value,
                )
                for each in outgoing.waits.on
            ],
            name=request.label,
            input=request.options.stdin or "",
            output=request.options.stdout or "",
            error=request.options.stderr or "",
        )


def _after(outgoing: Outgoing) -> list[AfterJob]:
    """The jobs that it waits for and that have not ended, as the batch system knows them.

    It knows elements by where they stand, so arrays that wait element by element must have the same indices.
    """
    own = tuple(outgoing.request.array or ())
    found = []
    for one in outgoing.waits.on:
        submission = one.submission
        if submission.number is None or not submission.live:
            continue
        single = submission.request.array is not None and len(one.elements) == 1
        found.append(
            AfterJob(
                number=submission.number,
                type=one.type,
                position=submission.elements.index(one.elements[0]) + 1 if single else None,
                each=one.type is DependencyType.EACH and submission.elements == own,
            )
        )
    return found


def given_environment(request: JobRequest) -> dict[str, str]:
    """All variables of the job but those that are only known once it is submitted, or on its node."""
    environment = {name: value for name, value in request.environment.items() if name not in _GIVEN}
    environment["GRIDWRIGHT_CORES"] = str(request.cores)
    if data := request.libraries.get("data"):
        environment["GRIDWRIGHT_DATA"] = data
    return environment


def memory_of(request: JobRequest, facts: BatchFacts) -> int | None:
    """Bytes to ask for: without a wish, the share of a node's memory that its cores are of the node's."""
    if request.memory_bytes is not None:
        return request.memory_bytes
    nodes = [node for node in facts.nodes_of(request.queue or facts.default_queue) if node.up and node.cores]
    nodes = [node for node in nodes if request.node in (None, node.name)]
    fitting = [node for node in nodes if node.cores >= request.cores] or nodes
    if not fitting:
        return None
    if request.exclusive:
        return min(each.memory_bytes for each in fitting)
    return min(each.memory_bytes // each.cores for each in fitting) * request.cores or None


def own_problems(request: JobRequest, system: str) -> list[Problem]:
    """What is wrong with a request by itself, whatever the batch system has. Empty where nothing is."""
    if not request.command:
        return [Problem(what="a job needs a command", remedy="write it after --")]
    label = request.label
    problems = [*path_problems(request), *plain_problems(request, system, what_is_too_long(request))]
    if request.array is not None and not request.array:
        what = f"{label}: its array has no index"
        problems.append(Problem(what=what, where="array", remedy="write one, such as 1-100"))
    elif request.array is not None and index_range(request.array)[0] < 0:
        what = f"{label}: its array has an index below 0"
        problems.append(Problem(what=what, where="array", remedy="begin at 0 or above"))
    elif request.array is not None and len(request.array) > MOST_ELEMENTS:
        what = f"{label}: its array has {len(request.array)} elements, more than {MOST_ELEMENTS}"
        problems.append(Problem(what=what, where="array", remedy="split it"))
    return problems


def plain_problems(request: JobRequest, system: str, too_long: str | None) -> Iterator[Problem]:
    """What no batch system takes; `too_long` is what of the request is, in words."""
    label = request.label
    if request.null:
        remedy = "use a spec with scheduler: {type: local}"
        yield Problem(what=f"{label}: {system} has no null jobs", remedy=remedy)
    if request.cores < 1:
        yield Problem(what=f"{label}: {request.cores} cores", remedy="ask for 1 core or more")
    if too_long is not None:
        yield Problem(what=f"{label}: {too_long}", remedy="put long text into a file")


def request_problems(request: JobRequest, facts: BatchFacts, system: BatchSystem) -> list[Problem]:
    """What this batch system, its queues and its nodes cannot give. Empty where it may be submitted."""
    own = system.request_problems(request)
    found = [replace(each, what=f"{request.label}: {each.what}") for each in own]
    return found + place_problems(request, facts, system.name)


def place_problems(
    request: JobRequest, facts: BatchFacts, system: str, listed: Callable[[Iterable[str]], str] = ", ".join
) -> list[Problem]:
    """What no node and no queue can give; `listed` writes the names of nodes."""
    label, name = request.label, request.queue or facts.default_queue
    if name is not None and name not in facts.queues:
        near = nearest(name, facts.queues)
        remedy = f"did you mean {near}?" if near else f"queues: {', '.join(facts.queues)}"
        return [Problem(what=f"{label}: {system} has no queue {name}", remedy=remedy)]
    nodes = facts.nodes_of(name)
    names = [node.name for node in nodes]
    if request.node is not None and request.node not in names:
        near = nearest(request.node, names)
        place = f"queue {name}" if name else "this grid"
        remedy = f"did you mean {near}?" if near else f"its nodes: {listed(names)}"
        return [Problem(what=f"{label}: {place} has no node {request.node}", remedy=remedy)]
    return _size_problems(request, label, name, facts)


def _size_problems(request: JobRequest, label: str, queue: str | None, facts: BatchFacts) -> list[Problem]:
    nodes = [node for node in facts.nodes_of(queue) if request.node in (None, node.name)]
    if not nodes:
        return []
    place = request.node or (f"queue {queue}" if queue else "this grid")
    found = []
    cores = max(node.cores for node in nodes)
    if queue is not None and (most := facts.queues[queue].cores_per_node) is not None:
        cores = min(cores, most)
    if request.cores > cores:
        what = f"{label}: {request.cores} cores, and no node of {place} has more than {cores}"
        found.append(Problem(what=what, remedy=f"ask for {cores} cores or fewer"))
    memory = max(node.memory_bytes for node in nodes)
    if request.memory_bytes is not None and memory and request.memory_bytes > memory:
        what = (
            f"{label}: {format_bytes(request.memory_bytes)} of memory, and no node of {place} has more than "
            f"{format_bytes(memory)}"
        )
        found.append(Problem(what=what, remedy=f"ask for {format_bytes(memory)} or less"))
    longest = facts.queues[queue].longest_s if queue is not None else None
    if longest is not None and request.time_limit_s is not None and request.time_limit_s > longest:
        what = f"{label}: {request.time_limit_s:.0f} s, and {place} lets jobs run for {longest:.0f} s"
        found.append(Problem(what=what, remedy=f"ask for {longest:.0f} s or less, or name another queue"))
    return found
