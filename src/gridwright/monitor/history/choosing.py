"""Which histories there are of a grid, or of this machine: what nodes keep, else what is seen from now on."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.grid.grid import Grid
from gridwright.monitor.gathering import commands_of, directories_of
from gridwright.monitor.history.grid_histories import histories_of, sessions_of
from gridwright.monitor.history.live_histories import LiveHistories
from gridwright.monitor.history.places import DIRECTORY, history_file
from gridwright.monitor.history.questions import Histories
from gridwright.monitor.history.stored import StoredHistories


def find_histories(grid: Grid | None, directory: Path = DIRECTORY) -> Histories | None:
    """The histories that the nodes of a grid keep, or this machine where there is none; None if none is kept.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
    """
    if grid is None or grid.is_this_machine:
        file = history_file(directory)
        return StoredHistories({socket.gethostname(): file}) if file.exists() else None
    return histories_of(grid, directory) if grid.spec.monitoring.history else None


def open_histories(grid: Grid | None, directory: Path = DIRECTORY) -> Histories:
    """The histories that are kept. Raises GridwrightError (status ENVIRONMENT) where none is."""
    histories = find_histories(grid, directory)
    if histories is None:
        where = "this machine" if grid is None else f"grid {grid.spec.name}"
        raise environment_error(
            "no history is kept, so that nothing is known of an earlier time",
            where=where,
            remedy="write monitoring: {history: true} into the grid spec and run gridwright setup, or run "
            "gridwright node history on the machine; or record what is to be seen later by gridwright top "
            "--record",
        )
    return histories


@contextlib.contextmanager
def watched_histories(grid: Grid | None, directory: Path = DIRECTORY) -> Iterator[Histories]:
    """The histories that are kept; else nodes are sampled from here for as long as these are open.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
    """
    histories = find_histories(grid, directory)
    if histories is None:
        with LiveHistories(commands_of(grid), () if grid is None else directories_of(grid)) as live:
            yield live
    elif grid is None or grid.is_this_machine:
        yield histories
    else:
        with sessions_of(grid) as sessions:
            yield histories_of(grid, directory, sessions)
