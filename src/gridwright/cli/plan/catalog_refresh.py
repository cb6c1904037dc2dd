"""What `gridwright catalog refresh` prints."""

from __future__ import annotations

import json as json_module
from pathlib import Path

import typer

from gridwright.catalog.refresh import refresh
from gridwright.catalog.refreshed import FILE


def show_refresh(out: Path, regions: list[str], *, json: bool) -> None:
    """Fetch, write and say what was written."""
    types, prices = refresh(out, list(dict.fromkeys(regions)))
    if json:
        document = {
            "schema": 1,
            "command": "catalog refresh",
            "file": str(out),
            "regions": regions,
            "types": types,
            "prices": prices,
        }
        typer.echo(json_module.dumps(document, indent=2))
        return
    typer.echo(f"{out}: {types} instance types, {prices} prices")
    if out.name != FILE:
        typer.echo(f"Gridwright reads it when it is called {FILE} and lies beside the grid spec")
