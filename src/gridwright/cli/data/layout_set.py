"""Sets the layouts of libraries' directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gridwright.cli.data.libraries import opened
from gridwright.cli.data.wanted_layouts import wanted_layouts
from gridwright.cli.output import LazyResult, Output


def set_layouts(
    file: Path | None, names: Sequence[str], told: str | None, *, dry_run: bool, json: bool
) -> None:
    """Set them, and print what was and is. Raises GridwrightError."""
    from gridwright.layouts.setting import set_library_layout

    spec, run_on = opened(file)
    choices = wanted_layouts(spec, names, told)
    on = {str(name): spec.filesystem_of(name) for name in spec.libraries}
    changes = [
        set_library_layout(spec, name, choice, run_on(on[name]), dry_run=dry_run)
        for name, choice in choices.items()
    ]
    Output("layout set", json=json).show(
        LazyResult(
            document=lambda: {"dry_run": dry_run, "libraries": [each.document() for each in changes]},
            text=lambda: "\n".join(each.text() for each in changes),
        ),
        following="" if dry_run else "gridwright layout rebalance --dry-run (files that are there)",
    )
