"""What `gridwright workload clean` does."""

from __future__ import annotations

import json as json_module
from pathlib import Path

import typer

from gridwright.cli.spec_file import load_for_this_node
from gridwright.errors import ExitStatus, environment_error


def run_clean(file: Path | None, *, json: bool) -> ExitStatus:
    """Remove the data sets in the library data; returns the exit status. Raises GridwrightError."""
    from gridwright.workload.data_set import Locked, remove_data
    from gridwright.workload.options import library_directories

    directory = library_directories(load_for_this_node(file))["data"]
    try:
        removed = [str(path) for path in remove_data(directory)]
    except Locked:
        raise environment_error(
            "a run is making data there, or uses it, now",
            where=str(directory),
            remedy="wait until it has ended",
        ) from None
    except OSError as error:
        raise environment_error(
            f"cannot be removed: {error.strerror}", where=str(error.filename or directory)
        ) from error
    if json:
        typer.echo(json_module.dumps({"schema": 1, "command": "workload clean", "removed": removed}))
    else:
        typer.echo("\n".join(f"removed: {path}" for path in removed) or "nothing to remove")
    return ExitStatus.DONE
