"""`gridwright plan` with jobs and a deadline: which grids end a night in time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.cli.plan.predict import PAPER, workload_matrix
from gridwright.errors import GridwrightError, input_error
from gridwright.spec.load import problem_at

if TYPE_CHECKING:
    from gridwright.model.batch_window import BatchWindow
    from gridwright.model.workload import WorkloadMatrix
    from gridwright.plan.deadline import DeadlinePlan
    from gridwright.spec.model import GridSpec


def deadline_plan(spec: GridSpec) -> DeadlinePlan | None:
    """The plan for the deadline of a spec; None where it has none. Raises GridwrightError."""
    requirements = spec.requirements
    if requirements is None or (requirements.jobs is None and requirements.finish_within is None):
        return None
    if requirements.jobs is None or requirements.finish_within is None:
        there, absent = ("jobs", "finish_within") if requirements.jobs else ("finish_within", "jobs")
        raise input_error(
            f"requirements.{there} is there without requirements.{absent}",
            where=str(spec.file or "grid.yaml"),
            remedy="Write both, such as jobs: mixed-30 and finish_within: 4h",
        )
    from gridwright.plan.deadline import plan_deadline

    return plan_deadline(spec, _night(requirements.jobs, spec))


def _night(jobs: str, spec: GridSpec) -> BatchWindow:
    """The jobs by their name: a matrix at the papers' size, profiles or a table of jobs as recorded."""
    from gridwright.model.batch_window import BatchWindow
    from gridwright.model.workload import Replay, WorkloadMatrix, default_profiles
    from gridwright.runs.profiles import load_profiles, streams_of

    if jobs.endswith((".parquet", ".csv")):
        return _table_night((spec.file.parent if spec.file else Path.cwd()) / jobs)
    if not jobs.endswith(".json"):
        replay = Replay(scale=PAPER, page_cache="none")
        where = "the profiles that come with gridwright"
        return BatchWindow(_matrix(jobs, spec), default_profiles(), replay, where)
    path = (spec.file.parent if spec.file else Path.cwd()) / jobs
    profiles = load_profiles(path)
    streams = streams_of(profiles, None, where=str(path))
    return BatchWindow(WorkloadMatrix(path.stem, streams), profiles, where=str(path))


def _table_night(path: Path) -> BatchWindow:
    """The jobs of a table, as recorded, in the streams in which they ran."""
    from gridwright.cli.verbosity import say
    from gridwright.model.batch_window import BatchWindow
    from gridwright.model.workload import WorkloadMatrix
    from gridwright.workload.imports.job_table import read_jobs

    table = read_jobs(path)
    if table.failed:
        say(f"{path}: {table.failed} jobs that failed are left out")
    return BatchWindow(WorkloadMatrix(path.stem, table.streams), table.profiles, where=str(path))


def _matrix(name: str, spec: GridSpec) -> WorkloadMatrix:
    """The matrix of that name. Raises GridwrightError at its place in the spec."""
    try:
        return workload_matrix(name)
    except GridwrightError as error:
        (problem,) = error.problems
        remedy = f"{problem.remedy}, or name a file of profiles (NAME.json) or a table of jobs (NAME.parquet)"
        raise GridwrightError(problem_at(spec, ("requirements", "jobs"), problem.what, remedy)) from None
