"""Runs one job: `batch_job.pyz STATE TAG`, as the batch system starts it on a node.

Two processes watch over a job. The first is the one that the batch system knows: it takes its signals, and
ends with the job's status. The second has a session of its own, and every process of the job stays below
it. Should the batch system kill the first alone, the second ends all others and removes what they leave.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gridwright.node_programs.batch_job.job_file import (
    DOOMED,
    WHOLE,
    JobFile,
    RunEnd,
    part_of_a_name,
    read_end,
    read_job_file,
    run_name,
)
from gridwright.node_programs.batch_job.job_wrapper import adopt_orphans, end_all, run_job

REPEATED = 75
"""Exit status where the same run goes on elsewhere: EX_TEMPFAIL of sysexits.h."""
_FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Run the job that the arguments name; the exit status for the batch system."""
    state, tag = arguments
    try:
        job = read_job_file(str(Path(state, "jobs", f"{tag}.json")))
    except (OSError, ValueError, TypeError) as error:
        sys.stderr.write(f"gridwright: the file of job {tag} cannot be read: {error}\n")
        return 1
    position = os.environ.get(job.position_variable, "")
    index = job.index(int(position)) if job.elements is not None else WHOLE
    _print_to_log(job, index)
    name = _begin(job, index)
    if isinstance(name, int):
        return name
    if (doomed := _doomed(job, index)) is not None:
        identifier, unneeded = doomed
        end = RunEnd(doomed=identifier, unneeded=unneeded, node=os.uname().nodename, ended=time.time())
        write_end(job, name, end)
        return DOOMED
    return _watch(job, index, name)


def _print_to_log(job: JobFile, index: int) -> None:
    """Open its output and its input. Raises OSError."""
    log = f"{job.log}.log" if index == WHOLE else f"{job.log}_{index}.log"
    output = _output(_placed(job.output, job, index) or log)
    error = _output(_placed(job.error, job, index)) if job.error else output
    given = os.open(_placed(job.input, job, index) or os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for source, target in ((given, 0), (output, 1), (error, 2)):
        os.dup2(source, target)


def _placed(path: str, job: JobFile, index: int) -> str:
    number = os.environ.get(job.number_variable, "")
    values = {"job": number if index == WHOLE else f"{number}_{index}", "index": str(index), "name": job.name}
    return re.sub(r"\{(job|index|name)\}", lambda found: part_of_a_name(values[found[1]]), path)


def _output(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _begin(job: JobFile, index: int) -> str | int:
    """Take the next run; the begin of its files' names, or the exit status where there is nothing to run."""
    for run in itertools.count():
        name = run_name(index, run)
        begun = Path(job.runs, f"{name}.begun")
        try:
            os.close(os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            ended = read_end(Path(job.runs, f"{name}.ended"))
            if ended is not None:
                return _exit_status(ended)
            if not job.restart:
                return REPEATED
            continue
        # The head node sets up the fence first and looks for runs then: one of us sees the other.
        if Path(job.fence).exists():
            begun.unlink()
            return 0
        return name
    raise AssertionError("itertools.count ends never")


def _doomed(job: JobFile, index: int) -> tuple[str, bool] | None:
    """The first job that this one waited for in vain, and whether that should have failed; None: no one."""
    for each in job.after:
        elements = [index] if each.type == "each" and index in each.elements else each.elements
        if each.type != "any" and all(_completed(each.runs, one) for one in elements) == (
            each.type == "not-ok"
        ):
            name = f"{each.identifier}_{index}" if each.type == "each" else each.identifier
            return name, each.type == "not-ok"
    return None


def _completed(runs: str, index: int) -> bool:
    last = None
    for run in itertools.count():
        if not Path(runs, f"{run_name(index, run)}.begun").exists():
            break
        last = read_end(Path(runs, f"{run_name(index, run)}.ended"))
    return last is not None and last.completed


def _watch(job: JobFile, index: int, name: str) -> int:
    """Start the keeper, hand signals on to it, and wait for it."""
    adopt_orphans()
    orders, hand_on = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        status = 1
        try:
            os.close(hand_on)
            end = run_job(job, index, name, orders)
            write_end(job, name, end)
            status = 0
        finally:
            os._exit(status)
    os.close(orders)
    for each in _FORWARDED:
        signal.signal(each, lambda number, _: _forward(hand_on, number))
    os.waitpid(keeper, 0)
    end_all()
    ended = read_end(Path(job.runs, f"{name}.ended"))
    return _exit_status(ended) if ended is not None else 128 + signal.SIGKILL


def _forward(pipe: int, number: int) -> None:
    try:
        os.write(pipe, bytes([number]))
    except OSError:
        # The keeper has ended.
        return


def _exit_status(end: RunEnd) -> int:
    if end.status is not None:
        return end.status
    return 128 + (end.signal or 0) if end.signal else 0


def write_end(job: JobFile, name: str, end: RunEnd) -> None:
    """Write down how a run ended, whole or not at all."""
    path = Path(job.runs, f"{name}.ended")
    part = Path(f"{path}.part")
    with part.open("w", encoding="ascii") as file:
        file.write(end.text())
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
