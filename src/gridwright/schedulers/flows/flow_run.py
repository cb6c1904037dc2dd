"""The run of a flow: which jobs it consists of, and what of it is to be done again."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.errors import GridwrightError, Problem
from gridwright.schedulers.dependency import Dependency, DependencyType
from gridwright.schedulers.flows.flow_file import JobFlow
from gridwright.schedulers.flows.flow_requests import dependencies, order
from gridwright.schedulers.job import Job, JobState


def new_run(flow: str) -> str:
    """A name for a run of a flow, as jobs keep it: NAME/TIME-RANDOM."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{flow}/{stamp}-{secrets.token_hex(2)}"


def flow_name(run: str) -> str:
    """The name of the flow that a run is of."""
    return run.partition("/")[0]


@dataclass(frozen=True, slots=True)
class FlowRun:
    """A run of a flow, as its scheduler remembers its jobs."""

    name: str
    """As jobs keep it."""
    jobs: Mapping[str, Sequence[Job]] = field(default_factory=dict)
    """The last job of each name; several where it is an array."""

    def unfinished(self) -> list[Job]:
        """Those that wait or run."""
        return [job for jobs in self.jobs.values() for job in jobs if not job.state.final]

    def completed(self) -> set[str]:
        """Names of which every element has completed."""
        return {
            name for name, jobs in self.jobs.items() if all(job.state is JobState.COMPLETED for job in jobs)
        }


def last_run(jobs: Iterable[Job], flow: str) -> FlowRun | None:
    """The run of a flow that was submitted last; None where none is remembered."""
    own = [job for job in jobs if job.flow is not None and flow_name(job.flow) == flow]
    if not own:
        return None
    run = max(own, key=lambda job: job.submitted or 0.0).flow
    latest: dict[str, dict[str, list[Job]]] = {}
    for job in own:
        if job.flow == run:
            latest.setdefault(job.name, {}).setdefault(job.id.partition("_")[0], []).append(job)
    return FlowRun(
        run or "",
        {
            name: max(by_number.values(), key=lambda found: found[0].submitted or 0.0)
            for name, by_number in latest.items()
        },
    )


def reusable_jobs(flow: JobFlow, run: FlowRun) -> set[str]:
    """Names of jobs whose results of an earlier run are reused: they and all before them completed.

    A job that was to start only after another one's failure, which completed, is not needed and counts as
    done. Raises GridwrightError (INPUT) where jobs of the run wait or run.
    """
    if unfinished := run.unfinished():
        names = sorted({f"{job.name} ({job.id.partition('_')[0]})" for job in unfinished})
        raise GridwrightError(
            Problem(
                what=f"jobs of the last run of flow {flow.flow} wait or run: {', '.join(names)}",
                remedy="wait for them with gridwright wait, or end them with gridwright cancel",
            )
        )
    completed = run.completed()
    done: set[str] = set()
    unneeded: set[str] = set()
    for name in order(flow):
        waits = dependencies(flow.jobs[name])
        if not all(wait.job in done or wait.job in unneeded for wait in waits):
            continue
        if name in completed:
            done.add(name)
        elif any(_never_comes(wait, done, unneeded) for wait in waits):
            unneeded.add(name)
    return done | unneeded


def _never_comes(dependency: Dependency, done: Collection[str], unneeded: Collection[str]) -> bool:
    if dependency.job in done:
        return dependency.type is DependencyType.NOT_OK
    return dependency.job in unneeded and dependency.type in (DependencyType.OK, DependencyType.EACH)
