"""What a failed call on a library means, and what to do about it."""

from __future__ import annotations

import errno
import os

from gridwright.errors import Problem
from gridwright.iotest.outcome import Failure

_TARGET_FULL = "a part of the file system is full"
_UNREACHED = "a part of the file system is not reached"
_SERVER = (
    "see whether its server is up, has it mounted, and can be reached; what was written and it had not taken "
    "is lost where the client is evicted"
)
_DIRECT_REFUSED = "the file system refuses direct I/O"

_ADVICE: dict[int, tuple[str, str]] = {
    errno.ENOSPC: (
        "no space is left on the file system",
        "free space, or give a smaller --size or fewer --streams",
    ),
    errno.EDQUOT: (
        "the quota is used up",
        "raise the quota of the user who runs the test (lfs quota, quota -s), or give a smaller --size",
    ),
    errno.EIO: (
        "the device or the file system's server reported an I/O error",
        "look at `dmesg` and at the file system's health before you measure again",
    ),
    errno.EROFS: (
        "the file system is mounted read-only",
        "remount it read-write; one that turned read-only by itself has found an error: see `dmesg`",
    ),
    errno.ENOENT: ("there is no such directory", "make it, or correct the path"),
    errno.ENOTDIR: ("it is not a directory", "give the directory that the library lives in"),
    errno.ELOOP: ("its symbolic links lead in a circle", "correct the link: ls -l shows where it leads"),
    errno.EACCES: (
        "permission is denied",
        "run as a user who may write there, as root where data is root's; or test a directory of your own: "
        "iotest --directory DIR",
    ),
    errno.EPERM: (
        "the operation is not permitted",
        "run as the owner of the files; a directory may also be immutable (lsattr)",
    ),
    errno.ESTALE: (
        "the file handle is stale: the server no longer knows the directory",
        "mount the file system again",
    ),
    errno.ETIMEDOUT: ("the file system's server does not answer", "check the server and the network to it"),
    errno.ENOTCONN: (
        "the file system's connection is lost",
        "mount the file system again; its client process may have died",
    ),
    errno.EMFILE: ("too many files are open", "raise `ulimit -n`, or give fewer --streams"),
    errno.ENOMEM: (
        "there is not enough memory",
        "give a smaller --block, --queue-depth or --streams, or raise `ulimit -l`",
    ),
    errno.EAGAIN: ("a limit of the system is reached", "give fewer --streams, or raise `ulimit -u`"),
    errno.EFBIG: (
        "the file is larger than the file system or a limit allows",
        "raise `ulimit -f`, or give --size",
    ),
}


def problem(
    number: int,
    *,
    library: str,
    path: str,
    doing: str,
    message: str = "",
    direct: bool = False,
    detail: str = "",
) -> Problem:
    """Say what error `number` (errno(3)) means for a library.

    `doing` is what was tried, such as `write at byte 4096`; `message` the system's own text, used
    where the number says nothing; `detail` what the client of the file system adds.
    """
    if number == errno.EINVAL and direct:
        what, remedy = (
            _DIRECT_REFUSED,
            "use --engine buffered, or a --block that is a multiple of its sectors",
        )
    elif number in _ADVICE:
        what, remedy = _ADVICE[number]
    else:
        what = message or os.strerror(number)
        remedy = "check the file system with its own tools, and `dmesg`"
    if detail and number == errno.ENOSPC:
        what = _TARGET_FULL
        remedy = "move files away from there, or stripe them over more targets; see `gridwright doctor`"
    elif detail:
        what, remedy = _UNREACHED, _SERVER
    name = errno.errorcode.get(number)
    return Problem(
        what=f"library {library}: {what} ({doing}{': ' + name if name else ''})"
        f"{': ' + detail if detail else ''}",
        where=path,
        remedy=remedy,
    )


def stalled(
    seconds: float, *, library: str, path: str, op: str, detail: str | None, left: str | None = None
) -> Problem:
    """Say that no byte moved for so long in phase `op`; `detail` is what the file system's client adds.

    `left` is the directory of the test, which cannot be removed while it hangs.
    """
    return Problem(
        what=f"library {library}: the file system does not answer: no byte moved for {seconds:.0f} s in "
        f"phase {op}{': ' + detail if detail else ''}",
        where=path,
        remedy=f"{_SERVER if detail else 'check the mount and its servers (`mount`, `dmesg`)'}; "
        f"{left or 'the files of the test'} may be left there, which the next iotest removes",
    )


def of_outcome(failure: Failure, *, library: str, direct: bool) -> Problem:
    """Say what a failed call of a stream means for a library; `failure` is that of an engine's outcome."""
    place = "" if failure.offset is None else f" at byte {failure.offset}"
    return problem(
        failure.errno,
        library=library,
        path=failure.path,
        doing=f"{failure.op}{place}",
        message=failure.message,
        direct=direct,
        detail=failure.detail,
    )


def of_os_error(error: OSError, *, library: str, path: str, doing: str) -> Problem:
    """Say what an OSError of Python means for a library."""
    return problem(
        error.errno or 0,
        library=library,
        path=str(error.filename or path),
        doing=doing,
        message=error.strerror or str(error),
    )
