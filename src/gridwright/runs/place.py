"""The directory that run directories are kept in."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gridwright.atomic import open_place
from gridwright.errors import input_error
from gridwright.trusted import sudo_callers, untrusted, why_untrusted_path

_REMEDY = "give another place with --runs DIR or GRIDWRIGHT_RUNS: one of your own that others cannot write"


def check_place(runs: Path) -> None:
    """Raise GridwrightError (INPUT) where run directories cannot be kept in `runs`, as it is no directory."""
    there = next((each for each in (runs, *runs.absolute().parents) if os.path.lexists(each)), runs)
    if os.path.lexists(there) and not there.is_dir():
        found = "a link that leads nowhere" if there.is_symlink() else "a file"
        raise input_error(
            f"{found}, and runs are kept in a directory",
            where=str(there),
            remedy="name a directory with --runs DIR or GRIDWRIGHT_RUNS; one that is not there is made",
        )


def open_for_runs(runs: Path) -> int:
    """A descriptor of the directory for new runs, made where it is not there.

    Nobody else can exchange a run in it while it goes on. As in /tmp, others may have runs there where its
    sticky bit keeps them from what is not theirs; a group may write where a user other than root runs this.
    To root, the user who called sudo is nobody else.
    Raises GridwrightError, which names whose it is, and OSError.
    """
    check_place(runs)
    writers = stat.S_IWGRP | stat.S_IWOTH if os.geteuid() == 0 else stat.S_IWOTH
    # Before it is made where somebody else leads to, and after.
    for _ in range(2):
        reason = why_untrusted_path(runs.absolute(), is_shared=True, owners=sudo_callers(), writers=writers)
        if reason:
            raise untrusted(runs, reason, _REMEDY)
        runs.mkdir(parents=True, exist_ok=True)
    return open_place(runs)
