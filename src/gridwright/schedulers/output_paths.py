"""Names of files for the input and output of a job, with places for its identifier, index and name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gridwright.errors import Problem
from gridwright.node_programs.batch_job.job_file import part_of_a_name
from gridwright.schedulers.job import JobRequest

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
