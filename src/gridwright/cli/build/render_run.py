"""What `gridwright render` does with its flags."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from gridwright.cli.build.rendered_directory import write_rendered
from gridwright.cli.spec_file import load_placed
from gridwright.errors import ExitStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderFlags:
    """The flags as they were typed."""

    file: Path | None
    out: Path
    slurm: str
    overwrite: bool
    json: bool


def run_render(flags: RenderFlags) -> ExitStatus:
    """Write the files and say so; returns the exit status. Raises GridwrightError."""
    from gridwright.cli.this_node import render_here
    from gridwright.spec.findings import unsilenced

    spec = load_placed(flags.file)
    rendering = render_here(spec, flags.slurm)
    findings = unsilenced(rendering.findings, spec.silence)
    done = write_rendered(flags.out, rendering.files, overwrite=flags.overwrite)
    if flags.json:
        document = {
            "schema": 1,
            "command": "render",
            "file": str(spec.file),
            "directory": str(flags.out),
            "files": [asdict(each) for each in done],
            "findings": [asdict(each) for each in findings],
        }
        typer.echo(json.dumps(document, indent=2))
        return ExitStatus.DONE
    for each in done:
        typer.echo(f"{each.state:<9} {flags.out / each.path}")
    for finding in findings:
        typer.echo(f"\n{finding.level} {finding.name}: {finding.text}\n  {finding.remedy}")
    typer.echo(f"\nnext: see {flags.out / 'README.md'}")
    return ExitStatus.DONE
