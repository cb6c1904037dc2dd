"""Finds the run that a user names."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from gridwright.errors import GridwrightError, input_error
from gridwright.refusals import refusal
from gridwright.runs.place import (
    RUN_FILE,
    check_place,
    closed_place,
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
    if "/" in name and (wrong := _no_run_at(Path(name), known)):
        raise wrong
    if name == "last" and known:
        return _last(runs, known).absolute()
    matches = [path for path in known if path.name == name] or [p for p in known if name and name in p.name]
    if len(matches) > 1:
        matches = own_runs(matches) or matches
    if len(matches) == 1:
        return matches[0].absolute()
    names = [path.name for path in (matches or known)]
    if not names:
        raise _no_runs_in(runs)
    what = f"{len(matches)} runs match {name!r}" if matches else f"there is no run {name!r}"
    raise input_error(what, where=str(runs), remedy=f"name one of them, such as {_nearest(name, names)}")


def _no_runs_in(runs: Path) -> GridwrightError:
    try:
        os.listdir(runs)  # noqa: PTH208 - asked for its error
    except PermissionError as error:
        return closed_place(runs, error)
    except OSError:
        pass
    otherwise = "make one with `gridwright prove`, or name its place with --runs DIR"
    return input_error("there are no runs here", where=str(runs), remedy=otherwise)


def _no_run_at(path: Path, known: Sequence[Path]) -> GridwrightError | None:
    """The error of a path that names no run: it is not there, is closed, or holds something else."""
    otherwise = "name a run that `gridwright runs list` shows"
    if near := _nearest(path.name, [each.name for each in known]):
        otherwise += f", such as {near}"
    try:
        os.close(os.open(path / RUN_FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        what = "this is no run directory: its run.json is no file"
    except PermissionError as error:
        why = refusal(path / RUN_FILE, error, otherwise)
        return input_error(f"the run cannot be read: {why.reason}", where=str(path), remedy=why.remedy)
    except (FileNotFoundError, NotADirectoryError) as error:
        what = f"no run is here: {error.strerror}"
        if path.is_dir():
            what = "this is no run directory: it has no run.json"
    except OSError:
        # No path at all, such as one that is too long.
        return None
    return input_error(what, where=str(path), remedy=otherwise)


def _nearest(name: str, names: Sequence[str]) -> str:
    """Up to three of the names, the most alike first, or else the newest."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.3) or names[-3:]
    return ", ".join(shlex.quote(each) for each in near if each.isprintable())


def _last(runs: Path, known: Sequence[Path]) -> Path:
    now = datetime.now(UTC)
    mine = own_runs(known)
    if not mine:
        raise _of_others(runs, known)
    return max(mine, key=lambda path: (not is_to_come(path, now), path.name))


def _of_others(runs: Path, known: Sequence[Path]) -> GridwrightError:
    near = _nearest("", [path.name for path in known])
    return input_error(
        f"none of the runs here is yours ({owners_in_words(known)}), and `last` is the newest of your own",
        where=str(runs),
        remedy=f"name one of them, such as {near}",
    )


def _is_run(path: Path) -> bool:
    try:
        return (path / RUN_FILE).is_file()
    except OSError:
        # Too long for a path, or in a directory that may not be entered.
        return False
