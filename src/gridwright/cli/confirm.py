"""Asks before something goes that cannot be brought back."""

from __future__ import annotations

import sys

import typer

from gridwright.errors import input_error


def confirm(question: str, *, yes: bool) -> None:
    """Show on stderr what would be done, and go on only where that is wanted. Raises GridwrightError."""
    typer.echo(question, err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise input_error(
            "this removes what cannot be brought back, and nobody is there to be asked",
            where="--yes",
            remedy="add --yes",
        )
    try:
        wanted = typer.confirm("Do it?", err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    if not wanted:
        raise input_error("nothing is removed", remedy="run it again when it is wanted")
