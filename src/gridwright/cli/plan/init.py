"""`gridwright init`: writes a commented grid spec."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import read_path

if TYPE_CHECKING:
    from gridwright.errors import GridwrightError


def init(
    file: Annotated[
        Path, typer.Argument(parser=read_path, help="The file to write.", show_default=True)
    ] = Path("grid.yaml"),
    provider: Annotated[str, typer.Option("--provider", help="Who provides the nodes.")] = "local",
    force: Annotated[bool, typer.Option("--force", help="Replace the file when it exists.")] = False,
) -> None:
    """Write a commented grid spec, to be edited.

    Example: gridwright init && gridwright check
    """
    from gridwright.cli.output import Output
    from gridwright.spec.provider import init_text

    text = init_text(provider)
    _write(file, text, force)
    Output("init").write(f"{file} written. Edit it, then run: gridwright check{_named(file)}")


def _named(file: Path) -> str:
    """How the next command names the spec: not at all where it is taken without."""
    from gridwright.cli.arguments import DEFAULT_SPEC
    from gridwright.cli.spec_file import has_default_spec
    from gridwright.errors import GridwrightError

    if file != DEFAULT_SPEC:
        return f" {file}"
    try:
        has_default_spec()
    except GridwrightError:
        return f" ./{file}"
    return ""


def _write(file: Path, text: str, force: bool) -> None:
    """Write whole or not at all; raise GridwrightError when the file exists or cannot be written."""
    from gridwright.atomic import write_atomically
    from gridwright.errors import environment_error, input_error

    if file.is_dir():
        raise input_error(
            "a directory, and a file is needed", where=str(file), remedy=f"Write {file / 'grid.yaml'}"
        )
    if file.exists() and not force:
        raise _exists(file)
    if not file.parent.is_dir():
        raise input_error("no such directory", where=str(file.parent), remedy=f"Run mkdir -p {file.parent}")
    try:
        write_atomically(file, text, replaces=force)
    except FileExistsError:
        raise _exists(file) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "Name a file in a directory that you can write to"
        raise environment_error(f"cannot be written: {reason}", where=str(file), remedy=remedy) from None


def _exists(file: Path) -> GridwrightError:
    from gridwright.cli.output_file import next_name, what_is_there
    from gridwright.errors import input_error

    return input_error(
        f"the file exists: {what_is_there(file)}",
        where=str(file),
        remedy=f"Write {next_name(file)}, or replace it with --force",
    )
