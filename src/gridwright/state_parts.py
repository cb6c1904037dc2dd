"""The state directory of a grid and the parts of it that users share.

Set-up makes them as root: the state directory for root alone to write, and each part sticky, as /tmp is.
Where a grid was never set up, the first user makes the state directory, and it is that user's alone.

Whoever owns a directory can put a program where another's was. So each use opens the state directory, the
part and its own directory without following links. It stops where one belongs to neither root nor this user,
or where others may write what is this user's.
"""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gridwright.beneath import DIRECTORY
from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error
from gridwright.refusals import refusal
from gridwright.trusted import open_directory, open_file, untrusted, user_name, why_untrusted_path

PARTS = ("ask", "grid_engine", "iotest", "lsf", "parts", "slurm", "workload")
"""Every part that users share, by its name in the state directory; set-up and labs make them all."""
STATE_MODE, PART_MODE, OWN_MODE = 0o755, 0o1777, 0o700
"""Modes of the state directory and of its parts where they are root's, and of what is one user's."""

# No command line for root: chmod, chown and install follow links that users may have put there.
_REMEDY = (
    "root makes it for all users: gridwright setup FILE, of a lab gridwright up FILE; or name one of your "
    "own, which no other user writes, with state: in the spec"
)
_ABOVE = (
    "name one with state: in the spec that nobody but root can exchange, or let root own what is above it"
)
_MOVE = "see what it is, and move it away"
KEPT_S = 86_400.0
"""How long traces of runs stay."""


def this_user() -> str:
    """The name of the user that runs this; the number where it has none."""
    return user_name(os.geteuid())


def make_state(state: Path) -> None:
    """Make the state directory with all of its parts, as root; what a user made there before becomes root's.

    As set-up does (make_state.sh). All is looked at before anything is made. Raises GridwrightError
    (ENVIRONMENT) with all that cannot be taken, and OSError.
    """
    if reason := why_untrusted_path(state if state.is_symlink() else state.parent, is_shared=True):
        raise untrusted(state, reason, _ABOVE)
    state = state.resolve()
    places = [state, *(state / name for name in PARTS)]
    if wrong := [place for place in places if os.path.lexists(place) and not _is_directory(place)]:
        problems = [
            Problem("it is no directory, and one of Gridwright's belongs there", str(place), remedy=_MOVE)
            for place in wrong
        ]
        raise GridwrightError(*problems, status=ExitStatus.ENVIRONMENT)
    state.parent.mkdir(parents=True, exist_ok=True)
    above = os.open(state.parent, DIRECTORY)
    try:
        _make_roots(above, state.name, STATE_MODE)
        inside = os.open(state.name, DIRECTORY, dir_fd=above)
    finally:
        os.close(above)
    try:
        for name in PARTS:
            _make_roots(inside, name, PART_MODE)
    finally:
        os.close(inside)


def _is_directory(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _make_roots(above: int, name: str, mode: int) -> None:
    """Make a directory in an open one, or take what is there; by descriptor, as its name may mean another."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    opened = os.open(name, DIRECTORY, dir_fd=above)
    try:
        status = os.fstat(opened)
        if (status.st_uid, status.st_mode & 0o7777) != (os.geteuid(), mode):
            os.fchown(opened, os.geteuid(), os.getegid())
            os.fchmod(opened, mode)
    finally:
        os.close(opened)


def shared_part(state: Path, name: str) -> Path:
    """A part of the state directory that users share, made where this user may make it.

    Raises GridwrightError (ENVIRONMENT), which names the owner where that is another user.
    """
    part = state / name
    try:
        above = _opened_state(state)
        try:
            make = OWN_MODE if os.fstat(above).st_uid else PART_MODE
            # In a directory of root's, a part that a user made would be that user's, and keep all others out.
            may_make = os.geteuid() == 0 or make == OWN_MODE
            mode = make if may_make else None
            os.close(open_directory(name, directory=above, make=mode, is_shared=True, remedy=_REMEDY))
        finally:
            os.close(above)
    except OSError as error:
        raise unusable_state(error, state, part) from error
    return part


def own_directory(state: Path, part: str, names: Iterable[str] = ()) -> Path:
    """The directory of this user in a part, with those in it, made where they are not there.

    Raises GridwrightError (ENVIRONMENT) as `shared_part` does.
    """
    base = shared_part(state, part) / this_user()
    place = shlex.quote(str(base))
    remedy = f"see what is in it, and have root move it away: mv -T -- {place} {place}.moved"
    own = "see who made it; it is in a directory of yours, so that you can move it away"
    try:
        opened = open_directory(base, make=OWN_MODE, remedy=remedy)
        try:
            for name in names:
                os.close(open_directory(name, directory=opened, make=OWN_MODE, remedy=own))
        finally:
            os.close(opened)
    except OSError as error:
        raise unusable_state(error, state, base) from error
    return base


def fresh_directory(state: Path, part: str) -> Path:
    """A directory of this user alone in a part, with a name that nobody can know beforehand.

    Raises GridwrightError (ENVIRONMENT) as `shared_part` does.
    """
    place = shared_part(state, part) / secrets.token_hex(8)
    try:
        place.mkdir(mode=OWN_MODE)
    except OSError as error:
        raise unusable_state(error, state, place) from error
    return place


def write_program(directory: Path, name: str, content: bytes) -> Path:
    """A file of a directory that is this user's own, to be run, with this content and no other.

    One that is there is read, whatever its name says of it. Raises GridwrightError and OSError.
    """
    opened = open_directory(directory)
    try:
        if not _holds(opened, name, content):
            part = f".{name}.{secrets.token_hex(8)}"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(open_file(opened, part, flags, OWN_MODE), "wb") as file:
                    file.write(content)
                    file.flush()
                    # Whatever the umask: a batch system may read it as a user of its own.
                    os.fchmod(file.fileno(), 0o755)
                os.replace(part, name, src_dir_fd=opened, dst_dir_fd=opened)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=opened)
                raise
    finally:
        os.close(opened)
    return directory / name


def _holds(directory: int, name: str, content: bytes) -> bool:
    """Whether a file has this content, is a program, and can be written by nobody else."""
    try:
        with os.fdopen(open_file(directory, name), "rb") as file:
            status = os.fstat(file.fileno())
            return status.st_mode & 0o555 == 0o555 and file.read(len(content) + 1) == content
    except (OSError, GridwrightError):
        return False


def unusable_state(
    error: OSError, state: Path, path: Path | None = None, *, remedy: str = _REMEDY
) -> GridwrightError:
    """The error of a state directory that cannot be used; `path` where the system names no file.

    A name that the system gives is one in `state`. `remedy` is what helps whatever the reason is.
    """
    where = path or state / os.fsdecode(error.filename or "")
    why = refusal(where, error, remedy, writes=True)
    return environment_error(
        f"the state directory cannot be used: {why.reason}", where=str(where), remedy=why.remedy
    )


def _opened_state(state: Path) -> int:
    if not state.exists() and not state.is_symlink():
        return open_directory(state, make=OWN_MODE if os.geteuid() else STATE_MODE, remedy=_REMEDY)
    return open_directory(state, is_shared=True, remedy=_REMEDY)
