"""`gridwright up | status | stop | start | down`: makes nodes of a grid, shows them, takes them away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile
from gridwright.cli.spec_file import has_default_spec, load
from gridwright.cli.verbosity import say
from gridwright.errors import input_error

if TYPE_CHECKING:
    from gridwright.providers.provider import GridHere
    from gridwright.spec.model import GridSpec


Replace = Annotated[
    list[str] | None,
    typer.Option(
        "--replace",
        metavar="NAME",
        help="A file system that may be made anew, empty, where the spec asks for what cannot be changed "
        "in place. On AWS what it was is kept, and billed; on OCI it is destroyed with its data. "
        "On AWS also controller, login1 or other "
        "machines, which may go with their disks. May be given several times.",
    ),
]
NewImages = Annotated[
    bool,
    typer.Option(
        "--new-images",
        help="Replace machines by those that start from what names of images stand for today. Without it a "
        "grid on AWS keeps the images that it was made with, until the spec names others.",
    ),
]


def up(
    file: SpecFile = None,
    replace: Replace = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Look at what up would fail of, and make nothing: tools and room for a lab; on AWS the "
            "account, its rights and quotas, the zone, images and the key; on OCI the compartment, limits, "
            "free capacity, images and subnets.",
        ),
    ] = False,
    new_images: NewImages = False,
    json: Json = False,
) -> None:
    """Make the nodes of a grid, and wait until all their services serve.

    Of a lab that is up, mend what is missing: nodes that are powered off or cut off, services that died.
    Nothing is left of a lab that cannot be made, or when the command is interrupted. A lab that is stopped,
    as after a reboot of this machine, is booted again with its data; down alone deletes any of it.

    On AWS, make the grid's two stacks, or change them to what the spec says: what would change is shown
    first, and what holds data is not replaced unless --replace names it. Nodes that are launched with other
    data are replaced when their jobs have ended. A command that was interrupted is continued by the next
    one; what is left of a stack that could not be made, down removes.
    On Oracle Cloud, carry out two Terraform roots by OCI Resource Manager, or by a tofu or terraform here
    where the spec says so: each plan is shown first, and what would destroy data is refused unless --replace
    names it. gridwright help oci has more.
    Machines start from the images that were found when the grid was made; --new-images takes today's.
    gridwright help aws has more.

    An up that makes a grid looks first at what it would fail of, and makes nothing where it would; --check
    does that alone. Exit status 3 where something is found.

    \b
    Examples:
      gridwright up lab.yaml
      gridwright up grid.yaml --check
    """  # noqa: D301 - \b keeps typer from filling the lines
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.output import Output
    from gridwright.cli.spec_file import load_placed
    from gridwright.errors import ExitStatus
    from gridwright.providers import provider_of
    from gridwright.providers.provider import Caller, images_of

    spec = load_placed(file)
    if check:
        for flag, given in (("--replace", replace), ("--new-images", new_images)):
            if given:
                raise typer.BadParameter("--check makes nothing, and replaces nothing", param_hint=flag)
        preflight = provider_of(spec).preflight(spec)
        Output("up", json).show(preflight)
        raise typer.Exit(int(ExitStatus.DONE if preflight.is_fit else ExitStatus.ENVIRONMENT))
    with stop_on_signals() as stop:
        caller = Caller(say, stop, str(file or ""))
        provider = provider_of(spec)
        bring = images_of(provider, "--new-images", "leave it out").renew if new_images else provider.up
        result = bring(spec, caller, replace=frozenset(replace or ()))
    Output("up", json).show(result)


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
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.output import Output
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


def down(
    file: SpecFile = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Do not ask. For a lab whose spec is named nothing is asked anyway."),
    ] = False,
    delete_data: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-data",
            metavar="NAME",
            help="A file system of a cloud that goes with all its data; without it, it stays, and is billed. "
            "May be given several times.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Take a grid down: all its nodes with their processes, jobs and logs.

    A lab goes with its file systems, whether it is up or stopped; without FILE and without a ./grid.yaml,
    the only lab there is, and it is asked first. The node image is kept. In a cloud, file systems that hold
    data stay unless --delete-data names them, and it is asked first. What is left is looked for and named;
    exit status 3 then.

    Example: gridwright down lab.yaml
    """
    from gridwright.cli.arguments import confirm
    from gridwright.cli.interrupt import stop_on_signals
    from gridwright.cli.output import Output
    from gridwright.providers.provider import Caller

    removal = resolve_grid(file).removal(frozenset(delete_data or ()))
    if removal.question is not None:
        confirm(removal.question, yes=yes)
    if removal.is_long:
        with stop_on_signals() as stop:
            result = removal.carry_out(Caller(say, stop))
    else:
        result = removal.carry_out(Caller())
    Output("down", json).show(result)


def resolve_grid(file: Path | None) -> GridHere:
    """The grid of a spec, of ./grid.yaml where its nodes are made, or the only one found here.

    Raises GridwrightError.
    """
    from gridwright.providers import local_grids, provider_of
    from gridwright.providers.provider import GridHere

    if (spec := resolve_spec(file)) is not None:
        provider = provider_of(spec)
        return GridHere(
            spec.name,
            lambda: provider.status(spec),
            lambda names: provider.removal(spec, delete_data=names),
            lambda: spec,
        )
    found = local_grids()
    return found[only([here.name for here in found])]


def resolve_spec(file: Path | None) -> GridSpec | None:
    """The spec that is named; else ./grid.yaml where its nodes are made; else none.

    Raises GridwrightError.
    """
    if file is None and not has_default_spec():
        return None
    spec = load(file)
    return None if file is None and not spec.provider_kind.makes_grids else spec


def only(names: Sequence[str], what: str = "grid") -> int:
    """The index of the only grid, or lab, found here. Raises GridwrightError (INPUT) for none, or several."""
    if len(names) == 1:
        return 0
    if not names:
        raise input_error(
            f"there is no {what} here", remedy="run gridwright up FILE with the grid spec of one"
        )
    raise input_error(
        f"there are {len(names)} {what}s here, {', '.join(names)}, and none is named",
        remedy="name the grid spec of the one that is meant",
    )
