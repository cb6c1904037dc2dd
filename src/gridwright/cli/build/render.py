"""`gridwright render`: every file that `up` would use, readable and usable without Gridwright."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The directory to write them to.")]
Slurm = Annotated[
    str, typer.Option(metavar="RELEASE", help="The release of Slurm that they are for: 22.05 to 24.11.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write over files that were edited, too.")]


def render(
    out: Out, file: SpecFile = None, slurm: Slurm = "22.05", overwrite: Overwrite = False, json: Json = False
) -> None:
    """Write what `up` would use: playbook, configuration of Slurm, a README with next commands.

    On AWS also two CloudFormation templates, the bundle that machines set themselves up from, and the bill.

    The same spec gives the same files. A directory with anything that `render` did not write is refused.

    \b
    Examples:
      gridwright render grid.yaml --out rendered
      gridwright render grid.yaml --out rendered --slurm 23.11
    """  # noqa: D301 - \b keeps typer from filling the lines
    from gridwright.cli.build.render_run import RenderFlags, run_render

    flags = RenderFlags(file=file, out=out, slurm=slurm, overwrite=overwrite, json=json)
    raise typer.Exit(int(run_render(flags)))
