"""What to do where the system refuses a file: a remedy for each error, and who keeps a user from a path."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from pathlib import Path
from typing import NamedTuple

from gridwright.trusted import user_name

REMEDIES = {
    **dict.fromkeys(
        (errno.ENOTCONN, errno.ESTALE, errno.EIO, errno.EHOSTDOWN, errno.ETIMEDOUT, errno.EREMOTEIO),
        "see whether its file system is still there (`mount`, `dmesg`), and mount it again",
    ),
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "free space there, or have the quota of the user who runs this raised (`quota -s`)",
    errno.EROFS: "remount it read-write; one that turned read-only by itself has found an error: see `dmesg`",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "run as a user who may, or change its owner or mode"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise `ulimit -n`"),
    **dict.fromkeys((errno.ENOMEM, errno.EAGAIN), "end other processes, or raise the limits (`ulimit -a`)"),
}
"""By errors that no code of ours makes, see errno(3)."""


def reason_of(error: BaseException, *, named: bool = False) -> str:
    """What an error says, for people; `named`: after the path that the system refuses, where there is one.

    `strerror` of an OSError that was made of a text alone is None, and `str` shows a path as bytes.
    """
    reason = getattr(error, "strerror", None) or str(error)
    name = getattr(error, "filename", None)
    if not named or not isinstance(name, (str, bytes)):
        return reason
    return f"{os.fsencode(name).decode('utf-8', 'backslashreplace')}: {reason}"


class Hindrance(NamedTuple):
    """Why the system refuses a path, in words, and what to do."""

    reason: str
    remedy: str


def refusal(
    path: str | os.PathLike[str], error: OSError, otherwise: str, *, writes: bool = False
) -> Hindrance:
    """Why a file cannot be read, or written; `otherwise` is what helps whatever the reason is.

    Where permission is denied it says whose is what is closed, and the command by which its owner opens it.
    """
    reason = reason_of(error)
    if error.errno in (errno.EACCES, errno.EPERM):
        return _denied(Path(path).absolute(), reason, otherwise, os.W_OK if writes else os.R_OK)
    remedy = REMEDIES.get(error.errno or 0)
    return Hindrance(reason, f"{remedy}; or {otherwise}" if remedy else otherwise)


def whose_refusal(root: int, path: bytes, what: str, error: OSError) -> Hindrance | None:
    """Whose a path below an open directory is, or the nearest directory that it lies in.

    `what` is the participle of what this user may not do. None where that is not why, where nothing there
    belongs to another user, and for root, whom no owner keeps from anything.
    """
    me = os.geteuid()
    while me and error.errno in (errno.EACCES, errno.EPERM):
        with contextlib.suppress(OSError):
            owner = os.stat(path or b".", dir_fd=root, follow_symlinks=False).st_uid
            if owner != me:
                whose = "root" if owner == 0 else f"user {user_name(owner)}"
                run = "root" if owner == 0 else f"{whose} or root"
                return Hindrance(
                    f"of {whose}, cannot be {what} by user {user_name(me)}", f"run the command as {run}"
                )
        if not path:
            break
        path = path.rpartition(b"/")[0]
    return None


def _denied(path: Path, reason: str, otherwise: str, wanted: int) -> Hindrance:
    place, needed = path, wanted
    for above in reversed(path.parents):
        if above.is_dir() and not os.access(above, os.X_OK, effective_ids=True):
            place, needed = above, os.X_OK
            break
    else:
        if needed == os.W_OK:
            # A new file, and one that is replaced whole, need their directory.
            place = next(parent for parent in path.parents if os.path.lexists(parent))
            needed |= os.X_OK
    try:
        status = place.stat()
    except OSError:
        return Hindrance(reason, otherwise)
    if os.access(place, needed, effective_ids=True):
        return Hindrance(reason, otherwise)
    called = "it" if place == path else f"directory {place}"
    mine = status.st_uid == os.geteuid()
    owner = "you" if mine else user_name(status.st_uid)
    reason = f"{reason}: {called} belongs to {owner} (mode {stat.S_IMODE(status.st_mode):04o})"
    opens = _opening(place, status, needed)
    return Hindrance(
        reason, f"{opens}; or {otherwise}" if mine else f"have {owner} run {opens}; or {otherwise}"
    )


def _opening(place: Path, status: os.stat_result, needed: int) -> str:
    """The command by which the owner of a path opens it to this user, and to no more users than it takes."""
    bits = "".join(bit for bit, flag in (("r", os.R_OK), ("w", os.W_OK), ("x", os.X_OK)) if needed & flag)
    quoted = shlex.quote(str(place))
    if status.st_uid == os.geteuid():
        return f"chmod u+{bits} {quoted}"
    if status.st_gid in {os.getegid(), *os.getgroups()}:
        return f"chmod g+{bits} {quoted}"
    return f"setfacl -m u:{user_name(os.geteuid())}:{bits} {quoted}"
