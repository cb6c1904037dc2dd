"""`gridwright stop`: stops the machines of a grid in a cloud for a while."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile
from gridwright.cli.verbosity import say


def stop(
    file: SpecFile = None,
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="Do not ask the scheduler whether jobs run: they end with their nodes, as when a node dies.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Stop all machines of a grid in a cloud, for a night or a week-end, and say what that saves.

    File systems stay, and so do addresses, jobs that wait, and the disks of head and login node. What lies on
    disks of nodes is gone. It is refused while jobs run, unless --now is given. A stop that was interrupted
    is continued by the next one; gridwright start brings all back.

    Example: gridwright stop grid.yaml
    """
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.output import Output
    from gridwright.cli.spec_file import load_placed
    from gridwright.grid.grid import refuse_busy
    from gridwright.providers.provider import Caller, pausing_of

    spec = load_placed(file)
    pausing = pausing_of(spec, "stop")
    if not now and not pausing.is_stopped(spec):
        refuse_busy(spec)
    with stop_on_signals() as stopping:
        result = pausing.stop(spec, Caller(say, stopping, str(file or "")))
    Output("stop", json).show(result)
