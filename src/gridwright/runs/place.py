"""The directory that run directories are kept in, and the run there that a user names."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gridwright.atomic import open_place
from gridwright.beneath import owner_of
from gridwright.errors import GridwrightError, input_error
from gridwright.refusals import refusal
from gridwright.trusted import sudo_callers, untrusted, user_name, why_untrusted_path

RUN_FILE = "run.json"
"""In each run directory, from the moment it is there."""
NAME = re.compile(r"(?P<began>\d{8}T\d{6}Z)-[A-Za-z0-9._-]+")
"""What Gridwright calls a run; users call theirs what they like."""
BEGAN = "%Y%m%dT%H%M%SZ"
CLOCKS_DIFFER = timedelta(minutes=5)
"""By so much the clock of the machine that began a run may be ahead of this one."""
_REMEDY = "give another place with --runs DIR or GRIDWRIGHT_RUNS: one of your own that others cannot write"


def check_place(runs: Path) -> None:
    """Raise GridwrightError (INPUT) where `runs` is no directory, or in one that is closed to this user."""
    try:
        runs.exists()
    except PermissionError as error:
        raise _closed_place(runs, error) from error
    there = next((each for each in (runs, *runs.absolute().parents) if os.path.lexists(each)), runs)
    if os.path.lexists(there) and not there.is_dir():
        found = "a link that leads nowhere" if there.is_symlink() else "a file"
        raise input_error(
            f"{found}, and runs are kept in a directory",
            where=str(there),
            remedy="name a directory with --runs DIR or GRIDWRIGHT_RUNS; one that is not there is made",
        )


def _closed_place(runs: Path, error: OSError) -> GridwrightError:
    """The error of a directory of runs that permission is denied to."""
    why = refusal(runs, error, "name another place with --runs DIR or GRIDWRIGHT_RUNS")
    return input_error(f"the runs cannot be read: {why.reason}", where=str(runs), remedy=why.remedy)


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


def run_directories(runs: Path) -> list[Path]:
    """All run directories in `runs`, whoever they belong to, by name: the oldest first. Raises OSError."""
    return sorted(path.parent for path in runs.glob("[!.]*/" + RUN_FILE)) if runs.is_dir() else []


def run_owner(path: Path) -> int | None:
    """The number of the user whose a run directory, or a link to one, is; None where it is gone."""
    try:
        return owner_of(path.lstat())
    except OSError:
        return None


def own_runs(paths: Iterable[Path]) -> list[Path]:
    """Those that belong to who asks: where users share a place, anybody can lay out runs that look newer."""
    return [path for path in paths if run_owner(path) == os.geteuid()]


def of_whom(owner: int) -> str:
    """Whose a run is, where it is another user's, who may have written anything into it: ` of mallory`."""
    return "" if owner == os.geteuid() else f" of {user_name(owner)}"


def owners_in_words(paths: Iterable[Path]) -> str:
    """How many runs each user has, such as `2 of alice, 1 of bob`."""
    counts = Counter(user_name(owner) for path in paths if (owner := run_owner(path)) is not None)
    return ", ".join(f"{count} of {name}" for name, count in counts.most_common())


def is_to_come(path: Path, now: datetime) -> bool:
    """Whether a run began in the future by its name, so that nobody knows how old it is."""
    named = NAME.fullmatch(path.name)
    try:
        return (
            named is not None
            and datetime.strptime(named["began"], BEGAN).replace(tzinfo=UTC) - now > CLOCKS_DIFFER
        )
    except ValueError:
        return False


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
        return _closed_place(runs, error)
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
