"""What users write of a job, read and checked alike for every scheduler.

When it begins, what it waits for, the indices of an array, its environment and its output files; options
that a scheduler cannot do are refused, with what to use instead.
"""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from gridwright.errors import Problem
from gridwright.node_programs.batch_job.job_file import part_of_a_name
from gridwright.schedulers.job import JobOptions, JobRequest, non_default_values
from gridwright.units import UnitError, parse_duration

if TYPE_CHECKING:
    from gridwright.schedulers.job import JobRequest
    from gridwright.spec.scheduler import SchedulerSection


_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)
_REMEDY = "write a time such as 22:00, a date such as 2027-01-31T22:00, or a distance such as +2h"


def parse_begin(text: str, now: float | None = None, where: str = "--begin") -> float | Problem:
    """Seconds since 1970, in the time zone of this machine; or what is wrong with the text.

    A time of the day is the next one that is to come. `now` is in seconds since 1970, by default this moment.
    """
    now = time.time() if now is None else now
    text = text.strip()
    if text.startswith("+"):
        try:
            return now + parse_duration(text[1:])
        except UnitError as error:
            return Problem(what=error.text, where=where, remedy=error.remedy)
    here = datetime.fromtimestamp(now).astimezone()
    if match := _CLOCK.fullmatch(text):
        clock = {"hour": int(match[1]), "minute": int(match[2]), "second": int(match[3] or 0)}
        requested = here.replace(tzinfo=None, microsecond=0, **clock)
        if requested.timestamp() <= now:
            requested += timedelta(days=1)
        return requested.timestamp()
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return Problem(what=f"{text!r} is no time to begin at", where=where, remedy=_REMEDY)


class DependencyType(StrEnum):
    """How a job has to end before the next one starts; the words are those of `gridwright submit --after`."""

    OK = "ok"
    """Completed; of an array every element."""
    ANY = "any"
    """Ended, however."""
    NOT_OK = "not-ok"
    """Ended otherwise than completed; of an array at least one element, once all have ended."""
    EACH = "each"
    """For arrays: each element waits until the element of the other array with its index has completed."""

    @property
    def required(self) -> str:
        """How the other job has to end, in words."""
        return {"any": "ended", "not-ok": "ended, not completed"}.get(self.value, "completed")


@dataclass(frozen=True, slots=True)
class Dependency:
    """One of the jobs that a job waits for."""

    job: str
    """Its identifier; `#N` is request N of the same call of `submit`, from 0, and stands before this one."""
    type: DependencyType = DependencyType.OK

    @property
    def earlier(self) -> int | None:
        """Which request of the same call of `submit` it is; None for a job that was submitted before."""
        return int(self.job[1:]) if self.job.startswith("#") else None

    @property
    def not_earlier(self) -> Problem:
        """That it stands behind the request that waits for it, or is none of the call."""
        return Problem(
            what=f"{self.job} is no earlier request of the same call",
            where="after",
            remedy="name one that stands before it, or the number of a job",
        )

    def __str__(self) -> str:
        return self.job if self.type is DependencyType.OK else f"{self.type}:{self.job}"


def aftercorr_problems(
    array: Sequence[int] | None, other: Sequence[int] | None, job: str
) -> Iterator[Problem]:
    """Problems of an array that waits for another one, `job`, element by element; None stands for no array.

    Slurm calls this dependency aftercorr.
    """
    if array is None or other is None:
        what = f"job {job} is no array" if other is None else "this job is no array"
        what = f"each goes from element to element, and {what}"
        yield Problem(what=what, where="after", remedy=f"write ok:{job}")
    elif missing := sorted(set(array) - set(other)):
        yield Problem(
            what=f"job {job} has no element {missing[0]}, which an element of this array would wait for",
            where="after",
            remedy="give both arrays the same indices",
        )


_FORM = re.compile(r"(?:([a-z-]+):)?(#[0-9]{1,6}|[^:#\s]+)")


def parse_dependency(text: str) -> Dependency | Problem:
    """A dependency as it is written in `JobRequest.after`: JOB, ok:JOB, any:JOB, not-ok:JOB or each:JOB."""
    match = _FORM.fullmatch(text.strip())
    types = ", ".join(DependencyType)
    if match is None:
        return Problem(
            what=f"{text!r} is no job to wait for",
            where="after",
            remedy=f"write JOB or TYPE:JOB, with {types}",
        )
    try:
        return Dependency(match[2], DependencyType(match[1] or "ok"))
    except ValueError:
        return Problem(
            what=f"{match[1]!r} in {text!r} is no way for a job to end",
            where="after",
            remedy=f"write one of {types}, or the job alone for ok",
        )


def index_ranges(indices: Iterable[int]) -> list[str]:
    """Each range of indices that follow each other: 1-4, 7."""
    parts: list[list[int]] = []
    for index in sorted(set(indices)):
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return [str(low) if low == high else f"{low}-{high}" for low, high in parts]


def fold_indices(indices: Iterable[int]) -> str:
    """All of them in one text, as the options of sbatch and bsub have it."""
    return ",".join(index_ranges(indices))


def expand_indices(text: str) -> tuple[int, ...]:
    """The indices that a scheduler folded: [4-1000%10], 5-6,9-30:3. Raises ValueError for other text."""
    found: list[int] = []
    for part in filter(None, text.strip("[]").partition("%")[0].split(",")):
        span, _, step = part.partition(":")
        low, _, high = span.partition("-")
        found += range(int(low), int(high or low) + 1, int(step or 1))
    return tuple(found)


_PART = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18})(?::([0-9]{1,18}))?)?", re.ASCII)
_INDICES_REMEDY = "write the first and the last index, such as 1-100, with a step 1-100:2, or each: 1,5,9"


def parse_array(text: str, where: str = "--array") -> Sequence[int] | Problem:
    """The indices, ascending; or what is wrong with the text.

    One range is kept as it is, however long: its scheduler says how many elements it takes.
    """
    spans: list[range] = []
    for part in text.split(","):
        span = _span(part.strip(), where)
        if isinstance(span, Problem):
            return span
        spans.append(span)
    if len(spans) == 1:
        return spans[0]
    if (count := sum(map(len, spans))) > MOST_ELEMENTS:
        what = f"the array has {count} elements, and one array has at most {MOST_ELEMENTS}"
        return Problem(what=what, where=where, remedy="split it")
    indices: set[int] = set()
    for span in spans:
        if twice := indices.intersection(span):
            what = f"index {min(twice)} is there twice"
            return Problem(what=what, where=where, remedy="write each index once")
        indices.update(span)
    return sorted(indices)


def _span(part: str, where: str) -> range | Problem:
    match = _PART.fullmatch(part)
    if match is None:
        return Problem(what=f"{part!r} is no range of indices", where=where, remedy=_INDICES_REMEDY)
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    step = 1 if match[3] is None else int(match[3])
    if last < first:
        remedy = f"write {last}-{first}"
        return Problem(what=f"{part} ends before it begins", where=where, remedy=remedy)
    if step == 0:
        return Problem(what=f"{part} has a step of 0", where=where, remedy=f"write {first}-{last}")
    return range(first, last + 1, step)


ALL, NONE = "all", "none"
_LOGIN = ("HOME", "LOGNAME", "USER", "SHELL", "LANG", "LC_ALL", "TZ")
_PATH = "/usr/local/bin:/usr/bin:/bin"


def chosen_environment(
    words: Sequence[str], environment: Mapping[str, str]
) -> tuple[dict[str, str], list[Problem]]:
    """The environment of a job, and what is wrong with the words that choose it.

    `all` takes all of `environment`, `none` what a fresh login has, NAME one variable of it, and NAME=VALUE
    sets one. Without all or none, names alone mean that there are no others.
    """
    problems: list[Problem] = []
    names = [word for word in words if word not in (ALL, NONE) and "=" not in word]
    if ALL in words and NONE in words:
        problems.append(
            Problem(what="all and none exclude each other", where="environment", remedy="write one of them")
        )
    chosen = dict(environment) if ALL in words or (not names and NONE not in words) else _fresh(environment)
    for name in names:
        if name in environment:
            chosen[name] = environment[name]
        else:
            problems.append(
                Problem(
                    what=f"there is no variable {name}",
                    where="environment",
                    remedy=f"set it here, or write {name}=VALUE",
                )
            )
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name:
            chosen[name] = value
        elif equals:
            problems.append(
                Problem(what=f"{word!r} has no name", where="environment", remedy="write NAME=VALUE")
            )
    return chosen, problems


def _fresh(environment: Mapping[str, str]) -> dict[str, str]:
    """What login gives a user: who it is, where home is, and a plain search path."""
    found = {name: environment[name] for name in _LOGIN if name in environment}
    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:
        return {"PATH": _PATH} | found
    plain = {
        "HOME": user.pw_dir,
        "LOGNAME": user.pw_name,
        "USER": user.pw_name,
        "SHELL": user.pw_shell or "/bin/sh",
    }
    return {"PATH": _PATH} | plain | found


MOST_ELEMENTS = 1_000_000
"""Elements of one array that are kept track of, each singly."""
_LONGEST_STRING = 131_071
"""Linux takes no longer argument and no longer variable (MAX_ARG_STRLEN, execve(2)); bytes, less the NUL."""
_LONGEST_TOGETHER = 1_900_000
"""Bytes of arguments and environment together: a quarter of the usual stack limit, 8 MiB, less some room."""


def index_range(array: Sequence[int]) -> tuple[int, int]:
    """The lowest and the highest index of an array that has elements, in no time where it is a range."""
    if isinstance(array, range):
        return (array[0], array[-1]) if array.step > 0 else (array[-1], array[0])
    return min(array), max(array)


def what_is_too_long(request: JobRequest) -> str | None:
    """What of a request no process could be started with, in words; None where all is well."""
    together = 0
    strings: Sequence[tuple[str, str]] = [
        *((f"argument {number}", each) for number, each in enumerate(request.command)),
        *((f"variable {name}", f"{name}={value}") for name, value in request.environment.items()),
    ]
    for what, text in strings:
        length = len(os.fsencode(text))
        together += length + 9
        if length > _LONGEST_STRING:
            return f"{what} has {length} bytes, and Linux takes no more than {_LONGEST_STRING}"
    if together > _LONGEST_TOGETHER:
        return f"arguments and environment have {together} bytes, and Linux takes no more than about 2 MiB"
    return None


NAMES = tuple(field.name for field in fields(JobOptions) if field.name not in ("mail_on", "flow"))
"""The options that a scheduler can declare; `mail_on` goes with `mail`."""
INSTEAD = {
    "account": "leave it out: this grid charges nobody",
    "qos": "name a queue that has the priority and the limits, with --queue",
    "reservation": "let it start when the nodes are free, with --begin",
    "licences": "make a queue in the spec whose cores are as many as there are licences, with --queue",
    "gres": "name the queue whose nodes have it, with --queue",
    "constraint": "name the queue whose nodes have it, with --queue",
    "begin": "submit it at that time, from cron or at",
    "nice": "name a queue with another priority, with --queue",
    "mail": "send it yourself: gridwright wait JOB; mail -s ended ADDRESS",
    "stdin": "open it in the command: sh -c 'program <FILE'",
    "stdout": "open it in the command: sh -c 'program >FILE'",
    "stderr": "open it in the command: sh -c 'program 2>FILE'",
}
"""What to do where a scheduler cannot do an option and does not say better (`job_options_instead`)."""
_INSTEAD_OF_DEPENDENCY = {
    DependencyType.ANY: "have the command of the earlier job end with 0, and wait for it with ok",
    DependencyType.NOT_OK: "call it from the command of the earlier job, where that fails",
    DependencyType.EACH: "do both steps in the command of one array, or wait for the whole array",
}


def requested_options(options: JobOptions) -> list[str]:
    """Names of the options that a request sets."""
    return [name for name in non_default_values(options) if name in NAMES]


def option_problems(request: JobRequest, section: SchedulerSection) -> Iterator[Problem]:
    """Every option and type of dependency of a request that its scheduler cannot do, and what to use instead.

    `where` of each is the field of the request. Every scheduler calls it in `submit`, before anything else
    of its own is asked, and refuses with these and all other problems at once.
    """
    for name in requested_options(request.options):
        if name not in section.job_options:
            remedy = section.job_options_instead.get(name, INSTEAD[name])
            yield Problem(what=f"scheduler {section.type} has no {name} for a job", where=name, remedy=remedy)
    seen: set[DependencyType] = set()
    for text in request.after:
        found = parse_dependency(text)
        if isinstance(found, Problem):
            yield found
            continue
        if found.type in seen or found.type.value in section.dependency_types:
            continue
        seen.add(found.type)
        can = ", ".join(each.value for each in DependencyType if each.value in section.dependency_types)
        yield Problem(
            what=f"scheduler {section.type} starts no job after {found.type}: only after {can or 'nothing'}",
            where="after",
            remedy=section.job_options_instead.get(
                f"after {found.type}", _INSTEAD_OF_DEPENDENCY.get(found.type, "wait with gridwright wait")
            ),
        )


PLACES = ("job", "index", "name")
_PLACE = re.compile(r"\{([a-z]+)\}")


def filled(path: str, values: Mapping[str, str]) -> str:
    """A path with a value for each place that it has; a brace that begins no place stays.

    A job's name leads to no other directory: see `part_of_a_name`.
    """
    return _PLACE.sub(
        lambda found: part_of_a_name(values[found[1]]) if found[1] in values else found[0], path
    )


def path_problems(request: JobRequest) -> Iterator[Problem]:
    """What is wrong with the files that a request names for its input and output."""
    options = request.options
    for name, path in (("stdin", options.stdin), ("stdout", options.stdout), ("stderr", options.stderr)):
        if path is None:
            continue
        if not path.startswith("/"):
            yield Problem(what=f"{name} {path} is no absolute path", where=name, remedy="write all of it")
        if "{index}" in path and request.array is None:
            yield Problem(
                what=f"{name} has {{index}}, and the job is no array",
                where=name,
                remedy="leave {index} out, or submit an array with --array",
            )
        if unknown := [each for each in _PLACE.findall(path) if each not in PLACES]:
            yield Problem(
                what=f"{name} has {{{unknown[0]}}}, which stands for nothing",
                where=name,
                remedy="write {job}, {index} or {name}",
            )
