"""What a run on several nodes has done by a job, since only its nodes see the libraries.

Its request names the `chore`: `prepare` clears what killed runs left and has the data set ready,
`tidy` removes what launches of this run left whose nodes were lost, `clean` removes all data sets.
Its result has the `exit` status; what it says meanwhile are the events of the agent of a single node.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gridwright.errors import ExitStatus, Finding, Problem
from gridwright.filesystems.mounts import describe_mount
from gridwright.runs.events import finding_event, problem_event
from gridwright.workload.control_group import remove_stale_groups
from gridwright.workload.data_preparation import DataPreparation
from gridwright.workload.node_job import NodeJob, serve
from gridwright.workload.private_directories import remove_run, remove_stale


def run_chore(job: NodeJob) -> dict[str, Any]:
    """Do the chore that is asked for."""
    chores = {"prepare": _prepare, "tidy": _tidy, "clean": _clean}
    try:
        return chores[job.request["chore"]](job)
    except OSError as error:
        job.say(
            problem_event(
                Problem(
                    what=f"node {job.node} cannot use a library: {error.strerror or error}",
                    where=str(error.filename or "") or None,
                    remedy="check that its directory exists there, and who may write to it",
                )
            )
        )
        return {"exit": ExitStatus.ENVIRONMENT}


def _libraries(job: NodeJob) -> dict[str, Path]:
    return {name: Path(path) for name, path in job.request["libraries"].items()}


def _prepare(job: NodeJob) -> dict[str, Any]:
    libraries = _libraries(job)
    remove_stale_groups()
    removed = [path for name in ("work", "util") for path in remove_stale(libraries[name])]
    if removed:
        text = f"{len(removed)} directories that a killed run had left were removed: "
        text += ", ".join(map(str, removed[:4]))
        job.say(finding_event(Finding("info", "workload-stale-removed", text, "nothing is to be done")))
    for name, path in libraries.items():
        # A library that is not there fails the run here, and not each launch.
        path.stat()
        job.say({"event": "device", "library": name, "device": describe_mount(path).to_record()})
    if all(launch["test"] is None for stream in job.request["streams"] for launch in stream):
        return {"exit": ExitStatus.DONE}
    preparation = DataPreparation(job.request, job.selector, job.say)
    while not preparation.ended:
        job.turn()
        if job.stopped:
            preparation.stop()
            return {"exit": ExitStatus.INTERRUPTED}
    return {"exit": preparation.status if preparation.status is not None else ExitStatus.DONE}


def _tidy(job: NodeJob) -> dict[str, Any]:
    libraries = _libraries(job)
    removed = [path for name in ("work", "util") for path in remove_run(libraries[name], job.exchange.path)]
    return {"exit": ExitStatus.DONE, "removed": [str(path) for path in removed]}


def _clean(job: NodeJob) -> dict[str, Any]:
    from gridwright.workload.data_set import Locked, remove_data

    try:
        removed = remove_data(_libraries(job)["data"])
    except Locked:
        return {"exit": ExitStatus.ENVIRONMENT, "locked": True}
    return {"exit": ExitStatus.DONE, "removed": [str(path) for path in removed]}


if __name__ == "__main__":
    serve(run_chore)
