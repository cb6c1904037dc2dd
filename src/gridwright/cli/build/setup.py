"""`gridwright setup`: sets the nodes of a grid up, or shows what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile
from gridwright.cli.build.render import Slurm

Check = Annotated[bool, typer.Option("--check", help="Show what differs, and change nothing.")]
Diff = Annotated[bool, typer.Option("--diff", help="Show the lines of files that differ, too.")]
Local = Annotated[bool, typer.Option("--local", help="This machine alone, as a node that runs jobs.")]
Limit = Annotated[
    str | None, typer.Option(metavar="NODES", help="Only these, such as compute[1-3] or compute1,storage2.")
]
User = Annotated[str | None, typer.Option(metavar="NAME", help="The account on the nodes, which may sudo.")]
PrivateKey = Annotated[Path | None, typer.Option(metavar="FILE", help="The key that ssh logs in with.")]
Inventory = Annotated[
    Path | None, typer.Option(metavar="FILE", help="An inventory of Ansible, instead of the grid's own.")
]
Variables = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What the site chooses: variables of the roles, in YAML.")
]


def setup(  # noqa: PLR0913, PLR0917 - one for each flag
    file: SpecFile = None,
    check: Check = False,
    diff: Diff = False,
    local: Local = False,
    limit: Limit = None,
    user: User = None,
    private_key: PrivateKey = None,
    inventory: Inventory = None,
    variables: Variables = None,
    slurm: Slurm = "22.05",
    json: Json = False,
) -> None:
    """Set kernel, limits, disks, file systems and Slurm of the nodes; once is enough.

    Runs, over ssh, the playbook that `gridwright render` writes. Exit status: 0 all nodes are as they should
    be, 1 with --check when something differs, 3 when a node failed or could not be reached.

    \b
    Examples:
      gridwright setup grid.yaml --check --diff
      gridwright setup grid.yaml --limit compute[1-4] --user admin
      sudo gridwright setup --local
    """  # noqa: D301 - \b keeps typer from filling the lines
    from gridwright.cli.build.setup_run import SetupFlags, run_setup

    flags = SetupFlags(
        file=file, check=check, diff=diff, local=local, limit=limit, user=user, private_key=private_key,
        inventory=inventory, variables=variables, slurm=slurm, json=json,
    )  # fmt: skip
    raise typer.Exit(int(run_setup(flags)))
