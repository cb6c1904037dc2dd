"""Sets the layouts of libraries' directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gridwright.cli.data.desired_layouts import desired_layouts
from gridwright.cli.data.libraries import opened
from gridwright.cli.output import LazyResult, Output


def set_layouts(
    file: Path | None, names: Sequence[str], told: str | None, *, dry_run: bool, json: bool
) -> None:
    """Set them, and print what was and is. Raises GridwrightError."""
    from gridwright.layouts.setting import set_library_layout

    spec, run_on = opened(file)
    choices = desired_layouts(spec, names, told)
    on = {str(name): spec.filesystem_of(name) for name in spec.libraries}
    changes = [
        set_library_layout(spec, name, choice, run_on(on[name]), dry_run=dry_run)
        for name, choice in choices.items()
    ]
    Output("layout set", json=json).show(
        LazyResult(
            document=lambda: {"dry_run": dry_run, "libraries": [change.document() for change in changes]},
            text=lambda: "\n".join(change.text() for change in changes),
        ),
        following="" if dry_run else "gridwright layout rebalance --dry-run (files that are there)",
    )
