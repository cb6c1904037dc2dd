"""The directory that run directories are kept in."""

from __future__ import annotations

import os
from pathlib import Path

from gridwright.errors import input_error


def check_place(runs: Path) -> None:
    """Raise GridwrightError (INPUT) where run directories cannot be kept in `runs`, as it is no directory."""
    if os.path.lexists(runs) and not runs.is_dir():
        found = "a link that leads nowhere" if runs.is_symlink() else "a file"
        raise input_error(
            f"{found}, and runs are kept in a directory",
            where=str(runs),
            remedy="name a directory with --runs DIR or GRIDWRIGHT_RUNS; one that is not there is made",
        )
