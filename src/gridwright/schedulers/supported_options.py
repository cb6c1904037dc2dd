"""Refuses what a job asks for and its scheduler cannot do, and says what to use instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from gridwright.errors import Problem
from gridwright.schedulers.dependency import DependencyType, parse_dependency
from gridwright.schedulers.job_options import JobOptions, non_default_values

if TYPE_CHECKING:
    from gridwright.schedulers.job import JobRequest
    from gridwright.spec.scheduler import SchedulerSection

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
