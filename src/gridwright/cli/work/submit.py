"""`gridwright submit`: hands a job to the grid's scheduler."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from gridwright.cli.arguments import Reader
from gridwright.cli.flags import options_of, read_flags, verb
from gridwright.cli.grid_file import open_grid
from gridwright.cli.output import LazyResult, Output
from gridwright.cli.spec_file import make_libraries
from gridwright.cli.verbs import plain_app
from gridwright.cli.work.submit_flags import SubmitFlags, named_by_flag, read_environment
from gridwright.errors import ExitStatus, GridwrightError

if TYPE_CHECKING:
    from gridwright.schedulers.job import JobRequest
    from gridwright.spec import GridSpec


def run_submit(flags: SubmitFlags) -> ExitStatus:
    """Hand a job to the grid's scheduler, and print its number.

    Example: gridwright submit --cores 2 --memory 4GiB --array 1-100 -- python3 model.py
    """
    if flags.flow is not None or flags.resume:
        from gridwright.cli.work.submit_flow import submit_flow

        return submit_flow(flags)
    grid = open_grid(flags.grid)
    reader = Reader()
    request = reader.finish(read_request(flags, grid.spec, reader))
    # What cannot be made may be there when the job starts.
    with contextlib.suppress(GridwrightError):
        make_libraries(grid.spec)
    try:
        (identifier,) = grid.scheduler.submit([request])
    except GridwrightError as error:
        if error.status is not ExitStatus.INPUT:
            raise
        raise GridwrightError(*map(named_by_flag, error.problems)) from None
    Output("submit", json=flags.json).show(
        LazyResult(document=lambda: {"job": identifier}, text=lambda: str(identifier))
    )
    return ExitStatus.DONE


submit = plain_app()
submit.command(context_settings={"allow_interspersed_args": False})(verb(run_submit))


def read_request(flags: SubmitFlags, spec: GridSpec, reader: Reader) -> JobRequest:
    """The request that the flags describe; what cannot be read is noted, and left out."""
    from gridwright.schedulers.job import JobOptions, JobRequest

    directory = str(flags.directory.absolute()) if flags.directory is not None else os.getcwd()  # noqa: PTH109
    values = read_flags(flags, reader)
    streams = {name: _below(directory, values[name]) for name in ("stdin", "stdout", "stderr")}
    given = {name: value for name, value in (values | streams).items() if value is not None}
    if not flags.command:
        reader.problem("there is no command", "command", "write it after --, or name a flow with --flow")
    values |= {
        "command": flags.command or [],
        "directory": directory,
        "environment": read_environment(flags, reader),
        "libraries": {name: str(spec.library_directory(name)) for name in spec.libraries},
        "name": flags.name or "",
        "after": flags.after or [],
        "options": options_of(JobOptions, given),
    }
    return options_of(JobRequest, values)


def _below(directory: str, path: str | None) -> str | None:
    return None if path is None else os.path.join(directory, path)  # noqa: PTH118 - any bytes
