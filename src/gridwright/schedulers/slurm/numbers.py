"""Slurm gives the number of a job a second time after it has lost jobs; such numbers are used up here.

A slurmctld that was killed comes back with the next number that it had saved. A slurmd refuses a number that
it has started before; slurmctld then drains the node ("Duplicate jobid") and cancels the job, of an array all
of it (seen with 22.05, also when the first job had ended). So numbers that were in use are used up: by jobs
that are held and cancelled at once.
"""

from __future__ import annotations

from gridwright.schedulers.slurm.access import SlurmAccess, scancel
from gridwright.schedulers.slurm.record import JobRecord
from gridwright.schedulers.slurm.submission import parse_answer
from gridwright.schedulers.slurm.tools import ToolRefused

NUMBER = "gridwright-number"
"""The name of jobs that only take a number out of use."""
RECENT_S = 3600.0
"""Numbers given longer ago are no sign of a loss: Slurm may have been set up anew, or have counted around."""
_MOST = 300
"""The most numbers that are used up at a time: a call takes about 10 ms."""


def goes_back(record: JobRecord, number: int) -> bool:
    """Whether a number that Slurm gave now was given before: slurmctld has lost jobs."""
    highest, _ = record.numbers(RECENT_S, at_least=number)
    return highest >= number


def use_up_numbers(access: SlurmAccess, record: JobRecord) -> None:
    """Have Slurm go past the numbers that it gave to jobs of ours.

    An element of an array gets its number when it begins: one of those that follow the highest that is known.
    """
    command = ["sbatch", "--parsable", "--hold", f"--job-name={NUMBER}", "--output=/dev/null", "--wrap=true"]
    taken: list[int] = []
    try:
        while len(taken) < _MOST:
            taken.append(parse_answer(access.tools.once(command).stdout))
            highest, elements = record.numbers(RECENT_S, at_least=taken[0])
            if taken[-1] >= highest + elements:
                break
    except (ToolRefused, ValueError):
        # A precaution: without it a node may refuse jobs, and Slurm tells of that.
        pass
    scancel(access, [str(number) for number in taken])
