"""`gridwright start`: starts the machines of a grid that was stopped."""

from __future__ import annotations

from gridwright.cli.arguments import Json, SpecFile
from gridwright.cli.verbosity import say


def start(file: SpecFile = None, json: Json = False) -> None:
    """Start the machines of a grid that gridwright stop stopped, and wait until all are set up.

    They come back as they were deployed, whatever the file says by now: gridwright up brings changes, and
    starts a grid that is stopped, too.

    Example: gridwright start grid.yaml
    """
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.output import Output
    from gridwright.cli.spec_file import load_placed
    from gridwright.providers.provider import Caller, pausing_of

    spec = load_placed(file)
    with stop_on_signals() as stopping:
        result = pausing_of(spec, "start").start(spec, Caller(say, stopping, str(file or "")))
    Output("start", json).show(result)
