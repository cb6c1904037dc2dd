"""Looks whether the head node sees the directories and files that jobs name: nodes see the same.

Slurm starts a job whose directory is not there, and ends it at once with an error in a log that nobody looks
at first; one whose output cannot be opened ends without any log. So it is asked before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from gridwright.errors import GridwrightError, Problem
from gridwright.schedulers.head_node import HeadNode, HeadNodeUnreachable
from gridwright.schedulers.job import JobRequest

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
_AT_ONCE = 100_000
"""Bytes of paths in one command."""


def path_visibility_problems(requests: Sequence[JobRequest], head: HeadNode) -> Iterator[Problem]:
    """Every directory and file of requests that nodes do not see. One command for all; none where that fails.

    A path with a place for the job's identifier or index is looked at as far as its directory, where that
    has none. Raises HeadNodeUnreachable.
    """
    asked: dict[str, Problem] = {}
    for request in requests:
        for key, problem in _asked(request, head.name):
            asked.setdefault(key, problem)
    keys = list(asked)
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
        yield from (asked[key] for key in map(os.fsdecode, answer.stdout.split(b"\0")) if key in asked)


def _asked(request: JobRequest, head: str) -> Iterator[tuple[str, Problem]]:
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
