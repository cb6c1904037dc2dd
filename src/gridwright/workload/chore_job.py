"""Work that a run on several nodes does by a job, since only the nodes see the libraries.

Of the chores, `prepare` clears what killed runs left and has the data set ready, `tidy` removes what launches
of this run left whose nodes were lost, `clean` removes all data sets. What it says meanwhile are the events
of the agent of a single node.
"""

from __future__ import annotations

from pathlib import Path

from gridwright.errors import ExitStatus, Finding, Problem
from gridwright.filesystems.mounts import describe_mount
from gridwright.runs.workload_events import LibraryDevice
from gridwright.workload.control_group import remove_stale_groups
from gridwright.workload.data_preparation import DataPreparation
from gridwright.workload.messages import ChoreRequest, ChoreResult
from gridwright.workload.node_job import NodeJob, serve
from gridwright.workload.private_directories import remove_run, remove_stale


def run_chore(job: NodeJob[ChoreRequest]) -> ChoreResult:
    """Do the chore that is asked for."""
    chores = {"prepare": _prepare, "tidy": _tidy, "clean": _clean}
    try:
        return chores[job.request.chore](job)
    except OSError as error:
        job.say(
            Problem(
                what=f"node {job.node} cannot use a library: {error.strerror or error}",
                where=str(error.filename or "") or None,
                remedy="check that its directory exists there, and who may write to it",
            )
        )
        return ChoreResult(ExitStatus.ENVIRONMENT)


def _libraries(job: NodeJob[ChoreRequest]) -> dict[str, Path]:
    return {name: Path(path) for name, path in job.request.libraries.items()}


def _prepare(job: NodeJob[ChoreRequest]) -> ChoreResult:
    libraries = _libraries(job)
    remove_stale_groups()
    removed = [path for name in ("work", "util") for path in remove_stale(libraries[name])]
    if removed:
        text = f"{len(removed)} directories that a killed run had left were removed: "
        text += ", ".join(map(str, removed[:4]))
        job.say(Finding("info", "workload-stale-removed", text, "nothing is to be done"))
    for name, path in libraries.items():
        # A library that is not there fails the run here, and not each launch.
        path.stat()
        job.say(LibraryDevice(library=name, device=describe_mount(path).to_record()))
    run = job.request.run
    if run is None or not run.needs_data:
        return ChoreResult(ExitStatus.DONE)
    preparation = DataPreparation(run, job.selector, job.say)
    while not preparation.ended:
        job.turn()
        if job.stopped:
            preparation.stop()
            return ChoreResult(ExitStatus.INTERRUPTED)
    return ChoreResult(preparation.status if preparation.status is not None else ExitStatus.DONE)


def _tidy(job: NodeJob[ChoreRequest]) -> ChoreResult:
    libraries = _libraries(job)
    removed = [path for name in ("work", "util") for path in remove_run(libraries[name], job.exchange.path)]
    return ChoreResult(ExitStatus.DONE, [str(path) for path in removed])


def _clean(job: NodeJob[ChoreRequest]) -> ChoreResult:
    from gridwright.workload.data_set import Locked, remove_data

    try:
        removed = remove_data(_libraries(job)["data"])
    except Locked:
        return ChoreResult(ExitStatus.ENVIRONMENT, locked=True)
    return ChoreResult(ExitStatus.DONE, [str(path) for path in removed])


if __name__ == "__main__":
    serve(ChoreRequest, run_chore)
