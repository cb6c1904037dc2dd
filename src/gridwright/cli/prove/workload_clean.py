"""What `gridwright workload clean` does."""

from __future__ import annotations

import json as json_module
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gridwright.cli.interrupt import stop_on_signals
from gridwright.cli.prove.workload_run import load_with_place
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error

if TYPE_CHECKING:
    from gridwright.workload.session import OnGrid


def run_clean(file: Path | None, *, json: bool) -> ExitStatus:
    """Remove the data sets in the library data; returns the exit status. Raises GridwrightError."""
    from gridwright.workload.options import library_directories

    spec, place = load_with_place(file)
    libraries = library_directories(spec)
    removed = _remove(libraries["data"]) if place is None else _remove_on_node(place, libraries)
    if json:
        typer.echo(json_module.dumps({"schema": 1, "command": "workload clean", "removed": removed}))
    else:
        typer.echo("\n".join(f"removed: {path}" for path in removed) or "nothing to remove")
    return ExitStatus.DONE


def _remove(directory: Path) -> list[str]:
    from gridwright.workload.data_set import Locked, remove_data

    try:
        return [str(path) for path in remove_data(directory)]
    except Locked:
        raise _in_use(directory) from None
    except OSError as error:
        raise environment_error(
            f"cannot be removed: {error.strerror}", where=str(error.filename or directory)
        ) from error


def _remove_on_node(place: OnGrid, libraries: dict[str, Path]) -> list[str]:
    """The same by a job on a node: this machine may not see the library."""
    from gridwright.runs.worker_process import WorkerProcess

    request = {"only": "clean", "libraries": {name: str(path) for name, path in libraries.items()}}
    problems: list[Problem] = []
    done: dict[str, list[str]] | None = None
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log"
        with (
            stop_on_signals() as stop,
            WorkerProcess(place.agent, {**request, **place.facts}, log) as agent,
        ):
            for event in agent.events(stop):
                if event["event"] == "problem":
                    problems.append(Problem(**{key: event[key] for key in ("what", "where", "remedy")}))
                elif event["event"] == "chore":
                    done = event
    if stop.is_set():
        raise KeyboardInterrupt
    if done is not None and done.get("locked"):
        raise _in_use(libraries["data"])
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.ENVIRONMENT)
    if done is None:
        raise environment_error(f"the data were not removed: {agent.end}")
    return done["removed"]


def _in_use(directory: Path) -> GridwrightError:
    return environment_error(
        "a run is making data there, or uses it, now",
        where=str(directory),
        remedy="wait until it has ended; a shared file system keeps the locks of a lost node for minutes",
    )
