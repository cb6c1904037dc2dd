"""Translates the options of a job into those of sbatch."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping

from gridwright.errors import Problem
from gridwright.schedulers.job import JobRequest
from gridwright.schedulers.job_options import JobOptions
from gridwright.schedulers.output_paths import filled

_LONGEST_PATH = 1024
"""slurmctld refuses longer ones (MAXPATHLEN less room, `_valid_pn_path` and the like in job_mgr.c)."""


def option_words(options: JobOptions) -> Iterator[str]:
    """The options of sbatch for what a job asks beyond size, time, queue and files."""
    lists = {"licenses": options.licences, "gres": options.gres}
    single = {
        "qos": options.qos,
        "reservation": options.reservation,
        "constraint": options.constraint,
        **{name: ",".join(values) or None for name, values in lists.items()},
    }
    yield from (f"--{name}={value}" for name, value in single.items() if value is not None)
    if options.begin is not None and (wait_s := math.ceil(options.begin - time.time())) > 0:
        # As a distance: the head node may have another time zone.
        yield f"--begin=now+{wait_s}seconds"
    if options.nice:
        yield f"--nice={options.nice}"
    if options.mail is not None:
        yield f"--mail-user={options.mail}"
        yield f"--mail-type={','.join(each.upper() for each in options.mail_on)}"


def file_words(request: JobRequest, label: str, log: str) -> Iterator[str]:
    """The options of sbatch for standard input and output; `log` is Slurm's pattern of the job's log."""
    options, array = request.options, request.array is not None
    # Slurm's own places: filename pattern of sbatch(1).
    values = {"job": "%A_%a" if array else "%j", "index": "%a", "name": label.replace("%", "%%")}

    def pattern(path: str) -> str:
        return filled(path.replace("%", "%%"), values)

    yield f"--input={pattern(options.stdin) if options.stdin else '/dev/null'}"
    yield f"--output={pattern(options.stdout) if options.stdout else log}"
    if options.stderr is not None:
        yield f"--error={pattern(options.stderr)}"


def output_file(request: JobRequest, label: str, number: int, element: int | None) -> str | None:
    """The file that a job's standard output goes to, by Slurm's number; None where that is its log."""
    if request.options.stdout is None:
        return None
    job = f"{number}" if element is None else f"{number}_{element}"
    return filled(request.options.stdout, {"job": job, "index": f"{element}", "name": label})


def word_problems(request: JobRequest, label: str) -> Iterator[Problem]:
    """What of the options Slurm would take for something else."""
    options = request.options
    texts: Mapping[str, str | None] = {
        **{name: getattr(options, name) for name in ("account", "qos", "reservation", "constraint", "mail")},
        "licences": ",".join(options.licences) or None,
        "gres": ",".join(options.gres) or None,
    }
    for name, text in texts.items():
        if text is not None and (not text.isprintable() or not text.strip() or text != text.strip()):
            yield Problem(what=f"{label}: {name} {text!r} is no name", where=name, remedy="write its name")
    for name in ("stdin", "stdout", "stderr"):
        path = getattr(options, name)
        if path is None:
            continue
        if "\\" in path or not path.isprintable():
            yield Problem(
                what=f"{label}: {name} {path!r} has a character that Slurm takes for its own",
                where=name,
                remedy="name a file without backslash, line end or the like",
            )
        elif len(os.fsencode(path)) > _LONGEST_PATH:
            yield Problem(what=f"{label}: {name} is too long a path", where=name, remedy="name a shorter one")
