"""Finds the run that a user names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from gridwright.errors import GridwrightError, input_error
from gridwright.runs.place import (
    RUN_FILE,
    check_place,
    is_to_come,
    own_runs,
    owners_in_words,
    run_directories,
)


def find_run(runs: Path, name: str) -> Path:
    """Find a run by its directory, its name in `runs`, a unique part of that, or `last`.

    The last one is the newest that belongs to who asks and has begun by the clock of this machine.
    Raises GridwrightError with the nearest names if there is none, or more than one.
    """
    if name != "last" and name and _is_run(Path(name)):
        return Path(name).absolute()
    check_place(runs)
    known = run_directories(runs)
    if name == "last" and known:
        return _last(runs, known).absolute()
    matches = [path for path in known if path.name == name] or [p for p in known if name and name in p.name]
    if len(matches) > 1:
        matches = own_runs(matches) or matches
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


def _last(runs: Path, known: Sequence[Path]) -> Path:
    now = datetime.now(UTC)
    mine = own_runs(known)
    if not mine:
        raise _of_others(runs, known)
    return max(mine, key=lambda path: (not is_to_come(path, now), path.name))


def _of_others(runs: Path, known: Sequence[Path]) -> GridwrightError:
    return input_error(
        f"none of the runs here is yours ({owners_in_words(known)}), and `last` is the newest of your own",
        where=str(runs),
        remedy=f"name one of them, such as {known[-1].name}",
    )


def _is_run(path: Path) -> bool:
    try:
        return (path / RUN_FILE).is_file()
    except OSError:
        # Too long for a path, or in a directory that may not be entered.
        return False
