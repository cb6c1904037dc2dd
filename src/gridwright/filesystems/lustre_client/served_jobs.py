"""What jobs move on the targets of a server, out of `job_stats`: the hundred that move most, and the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gridwright import _native
from gridwright.errors import environment_error
from gridwright.filesystems.lustre_client.parameter_files import ParameterFiles
from gridwright.filesystems.reading import Reading

MOST_SERIES = 100
"""Of each level (jobs, jobs on a target) and kind of target; all others are one series, called OTHER."""
OTHER = "other"
_LAYERS = (("ost", "obdfilter"), ("mdt", "mdt"))


@dataclass(slots=True)
class ServedJobs:
    """Follows the jobs of all targets of this server.

    A job's row has the time of its last request, and no time of its own, so rates are over the time between
    readings. What moved before the first reading has no rate. A job's first interval, and any in which it is
    not among those that move most, is in the series of the others, so that rates add up to what was moved.
    """

    files: ParameterFiles
    clock: Callable[[], float] = time.time
    """Seconds since 1970, as Lustre on this node has them: a row that began later was not there before."""
    _tally: _native.JobTally = field(default_factory=lambda: _native.JobTally(MOST_SERIES))

    def read(self) -> list[Reading]:
        """All series. Raises GridwrightError (status ENVIRONMENT) where no target can be read."""
        places = [
            (component, name.split(".")[1].rpartition("-")[0], name.split(".")[1], path)
            for component, layer in _LAYERS
            for name, path in self.files.find(f"{layer}.*.job_stats")
        ]
        jobs, pairs, failed, unfollowed = self._tally.look(places, self.clock())
        at = time.monotonic()
        if failed and len(failed) == len(places):
            raise environment_error(f"job_stats of {failed[0][0]}: {failed[0][1]}")
        beyond = [Reading("gridwright_unfollowed_jobs", (), unfollowed, at)] if unfollowed else []
        return [*_of_jobs(jobs, at), *_of_targets(pairs, at), *beyond]


_Rows = Sequence[tuple[str, str, str | None, float, list[int]]]


def _of_jobs(rows: _Rows, at: float) -> Iterator[Reading]:
    names = ("read_bytes", "written_bytes", "reads", "writes", "operations")
    for component, filesystem, job, since, figures in rows:
        labels = (component, filesystem, OTHER if job is None else job)
        for name, value in zip(names, figures, strict=True):
            yield Reading(f"gridwright_served_job_{name}_total", labels, value, at, since)


def _of_targets(rows: _Rows, at: float) -> Iterator[Reading]:
    for component, target, job, since, figures in rows:
        name = OTHER if job is None else job
        read, written, reads, writes, operations = figures
        if component == "ost":
            for way, moved, samples in (("read", read, reads), ("write", written, writes)):
                of = (component, way, target, name)
                yield Reading(f"lustre_job_{way}_bytes_total", of, moved, at, since)
                yield Reading(f"lustre_job_{way}_samples_total", of, samples, at, since)
        labels = (component, target, name)
        yield Reading("gridwright_target_job_operations_total", labels, operations, at, since)
