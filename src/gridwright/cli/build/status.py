"""`gridwright status`: shows the state of the nodes of a grid."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile

Drift = Annotated[
    bool,
    typer.Option(
        "--drift",
        help="Compare each resource with Terraform's state, and name those that somebody else has changed or "
        "removed. On OCI; it takes some minutes.",
    ),
]


def status(file: SpecFile = None, drift: Drift = False, json: Json = False) -> None:
    """Show the nodes of a grid, what serves on them, its file systems and its cost.

    Without FILE and without a ./grid.yaml, the only lab there is. Exit status 3 where it is up and
    something of it does not serve, and where it is stopped, as a lab is after a reboot of its machine.

    Example: gridwright status lab.yaml --json
    """
    from gridwright.cli.build.resolved_grid import resolve_grid, resolve_spec
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.output import Output
    from gridwright.cli.verbosity import say
    from gridwright.errors import ExitStatus
    from gridwright.providers import provider_of
    from gridwright.providers.provider import Caller, comparison_of

    spec = resolve_spec(file) if drift else None
    if spec is not None:
        with stop_on_signals() as stop:
            found = comparison_of(provider_of(spec)).drifted(spec, Caller(say, stop, str(file or "")))
    elif drift:
        raise typer.BadParameter("it needs the grid spec of a grid on OCI", param_hint="--drift")
    else:
        found = resolve_grid(file).status()
    Output("status", json).show(found)
    if found.state != "not-up" and not found.whole:
        raise typer.Exit(int(ExitStatus.ENVIRONMENT))
