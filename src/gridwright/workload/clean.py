"""Removes the data sets of the workload, on this machine or by a job on a node that sees the library."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.beneath import remove_tree
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error
from gridwright.own_directories import temporary_directory

if TYPE_CHECKING:
    from gridwright.workload.session import OnGrid


def clean(libraries: dict[str, Path], place: OnGrid | None, stop: threading.Event) -> list[str]:
    """Remove the data sets in the library data; returns their directories.

    `place` None means this machine. Raises GridwrightError (ENVIRONMENT) where a run uses the data, or where
    they cannot be removed, and KeyboardInterrupt where `stop` was set meanwhile.
    """
    if place is None:
        return _remove(libraries["data"])
    return _remove_on_node(place, libraries, stop)


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


def _remove_on_node(place: OnGrid, libraries: dict[str, Path], stop: threading.Event) -> list[str]:
    """The same by a job on a node: this machine may not see the library."""
    from gridwright.runs.workload_events import WORKLOAD_EVENTS, ChoreDone

    problems: list[Problem] = []
    done: ChoreDone | None = None
    scratch = temporary_directory("gridwright-clean-")
    try:
        with place.worker(place.request(libraries), scratch / "log") as agent:
            for event in map(WORKLOAD_EVENTS.read, agent.events(stop)):
                if isinstance(event, Problem):
                    problems.append(event)
                elif isinstance(event, ChoreDone):
                    done = event
    finally:
        remove_tree(scratch)
    if stop.is_set():
        raise KeyboardInterrupt
    if done is not None and done.locked:
        raise _in_use(libraries["data"])
    if problems:
        raise GridwrightError(*problems, status=ExitStatus.ENVIRONMENT)
    if done is None:
        raise environment_error(f"the data were not removed: {agent.end}")
    return done.removed


def _in_use(directory: Path) -> GridwrightError:
    return environment_error(
        "a run is making data there, or uses it, now",
        where=str(directory),
        remedy="wait until it has ended; a shared file system keeps the locks of a lost node for minutes",
    )
