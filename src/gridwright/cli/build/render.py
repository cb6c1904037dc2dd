"""`gridwright render`: every file that `up` would use, readable and usable without Gridwright."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gridwright.cli.arguments import Json, SpecFile, read_path
from gridwright.cli.output import LazyResult, Output

Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", parser=read_path, help="The directory to write them to.")
]
Slurm = Annotated[
    str, typer.Option(metavar="RELEASE", help="The release of Slurm that they are for: 22.05 to 24.11.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Write over files that were edited, too.")]


Image = Annotated[
    bool,
    typer.Option("--image", help="Write what builds an image for the grid's machines instead, by Packer."),
]


def render(
    out: Out,
    file: SpecFile = None,
    slurm: Slurm = "22.05",
    image: Image = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write what `up` would use: playbook, configuration of Slurm, a README with next commands.

    On AWS also two CloudFormation templates, the bundle that machines set themselves up from, and the bill.

    With --image, of a grid on AWS, what builds an image that has the packages of its machines: a template of
    Packer and the playbook that it runs. Machines that start from it are set up in a fraction of the time.

    The same spec gives the same files. A directory with anything that `render` did not write is refused.

    \b
    Examples:
      gridwright render grid.yaml --out rendered
      gridwright render grid.yaml --out rendered --slurm 23.11
      gridwright render grid.yaml --out image --image
    """  # noqa: D301 - \b keeps typer from filling the lines
    from gridwright.cli.build.rendered_directory import write_rendered
    from gridwright.cli.spec_file import load_placed
    from gridwright.cli.this_node import render_here, render_image_here
    from gridwright.spec.findings import unsilenced

    spec = load_placed(file)
    rendering = render_image_here(spec, slurm) if image else render_here(spec, slurm)
    findings = unsilenced(rendering.findings, spec.silence)
    done = write_rendered(out, rendering.files, overwrite=overwrite)
    document = {
        "file": str(spec.file),
        "directory": str(out),
        "files": [asdict(each) for each in done],
        "findings": [asdict(finding) for finding in findings],
    }
    lines = [f"{each.state:<9} {out / each.path}" for each in done]
    lines += [f"\n{finding}" for finding in findings]
    Output("render", json=json).show(
        LazyResult(document=lambda: document, text=lambda: "\n".join(lines)),
        following=f"see {out / 'README.md'}",
    )
