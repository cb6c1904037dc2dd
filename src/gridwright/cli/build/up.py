"""`gridwright up`: makes the nodes of a grid."""

from __future__ import annotations

from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile
from gridwright.cli.verbosity import say

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
