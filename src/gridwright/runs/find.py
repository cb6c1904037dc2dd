"""Finds the run that a user names."""

from __future__ import annotations

import difflib
from pathlib import Path

from gridwright.errors import input_error
from gridwright.runs.directory import RUN_FILE
from gridwright.runs.place import check_place


def find_run(runs: Path, name: str) -> Path:
    """Find a run by its directory, its name in `runs`, a unique part of that, or `last`.

    Raises GridwrightError with the nearest names if there is none, or more than one.
    """
    if name != "last" and name and _is_run(Path(name)):
        return Path(name).absolute()
    check_place(runs)
    known = sorted(path.parent for path in runs.glob("[!.]*/" + RUN_FILE)) if runs.is_dir() else []
    if name == "last" and known:
        return known[-1].absolute()
    matches = [path for path in known if path.name == name] or [p for p in known if name and name in p.name]
    if len(matches) == 1:
        return matches[0].absolute()
    names = [path.name for path in (matches or known)]
    if not names:
        raise input_error(
            "there are no runs here",
            where=str(runs),
            remedy="make one with `gridwright prove`, or name its place with --runs DIR",
        )
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.3) or names[-3:]
    what = f"{len(matches)} runs match {name!r}" if matches else f"there is no run {name!r}"
    raise input_error(what, where=str(runs), remedy=f"name one of them, such as {', '.join(near)}")


def _is_run(path: Path) -> bool:
    try:
        return (path / RUN_FILE).is_file()
    except OSError:
        # Too long for a path, or in a directory that may not be entered.
        return False
