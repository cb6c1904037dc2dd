"""Work that a run on several nodes does by a job, since only the nodes see the libraries.

Of the chores, `prepare` clears what killed runs left and has the data set ready, `tidy` removes what launches
of this run left whose nodes were lost, `clean` removes all data sets. What it says meanwhile are the events
of the agent of a single node.
"""

from __future__ import annotations

from pathlib import Path

from gridwright.errors import ExitStatus, Finding, Problem
from gridwright.filesystems.mounts import describe_mount
from gridwright.runs.workload_events import ChoreDone, LibraryDevice
from gridwright.workload.data_set import DataPreparation
from gridwright.workload.exchange import NodeJob, serve
from gridwright.workload.launches.control_group import remove_stale_groups
from gridwright.workload.messages import ChoreRequest
from gridwright.workload.private_directories import remove_run, remove_stale


def run_chore(job: NodeJob[ChoreRequest]) -> ChoreDone:
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
        return ChoreDone(exit=ExitStatus.ENVIRONMENT)


def _libraries(job: NodeJob[ChoreRequest]) -> dict[str, Path]:
    return {name: Path(path) for name, path in job.request.libraries.items()}


def _prepare(job: NodeJob[ChoreRequest]) -> ChoreDone:
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
        return ChoreDone(exit=ExitStatus.DONE)
    preparation = DataPreparation(run, job.selector, job.say)
    while not preparation.ended:
        job.turn()
        if job.stopped:
            preparation.stop()
            return ChoreDone(exit=ExitStatus.INTERRUPTED)
    return ChoreDone(exit=preparation.status if preparation.status is not None else ExitStatus.DONE)


def _tidy(job: NodeJob[ChoreRequest]) -> ChoreDone:
    libraries = _libraries(job)
    removed = [path for name in ("work", "util") for path in remove_run(libraries[name], job.exchange.path)]
    return ChoreDone(exit=ExitStatus.DONE, removed=[str(path) for path in removed])


def _clean(job: NodeJob[ChoreRequest]) -> ChoreDone:
    from gridwright.workload.data_set import Locked, remove_data

    try:
        removed = remove_data(_libraries(job)["data"])
    except Locked:
        return ChoreDone(exit=ExitStatus.ENVIRONMENT, locked=True)
    return ChoreDone(exit=ExitStatus.DONE, removed=[str(path) for path in removed])


if __name__ == "__main__":
    serve(ChoreRequest, run_chore)
