"""Directories and files whose content is believed: owner and mode are looked at first, on what is open.

What is believed is run, or says what is to be removed, overwritten or run. It has to belong to root or to the
user who runs this, and nobody else may write it. POSIX ACLs that let others write are seen, too: the group's
permissions are their mask then (acl(5)).
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from gridwright.beneath import DIRECTORY
from gridwright.errors import GridwrightError, environment_error

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def user_name(uid: int) -> str:
    """The name of a user; the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def why_untrusted(status: os.stat_result, *, is_shared: bool = False) -> str | None:
    """Why the content of a file or a directory is not believed; None where it is.

    With `is_shared`, others may add to a directory where its sticky bit keeps them from what is not theirs,
    as in /tmp.
    """
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to {user_name(status.st_uid)}"
    if status.st_mode & _OTHERS_WRITE and not (is_shared and status.st_mode & stat.S_ISVTX):
        return f"other users can write it (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def open_directory(
    path: str | Path,
    *,
    directory: int | None = None,
    make: int | None = None,
    is_shared: bool = False,
    remedy: str | None = None,
) -> int:
    """A descriptor of a directory that is believed; `make` is the mode with which it is made where it is not.

    `path` may be one name in the open `directory`. The directory itself is no symbolic link; `is_shared` is
    that of `why_untrusted`. Raises GridwrightError (ENVIRONMENT), which names whose it is, and OSError.
    """
    if make is not None:
        with suppress(FileExistsError):
            os.mkdir(path, make & 0o777, dir_fd=directory)
            _complete(path, directory, make)
    try:
        descriptor = os.open(path, DIRECTORY, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise untrusted(path, "it is no directory, or a symbolic link", remedy) from error
        raise
    if reason := why_untrusted(os.fstat(descriptor), is_shared=is_shared):
        os.close(descriptor)
        raise untrusted(path, reason, remedy)
    return descriptor


def _complete(path: str | Path, directory: int | None, mode: int) -> None:
    """Give a directory that was just made its mode, whatever the umask and with its sticky bit."""
    descriptor = os.open(path, DIRECTORY, dir_fd=directory)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def open_file(
    directory: int, name: str, flags: int = os.O_RDONLY, mode: int = 0o600, *, remedy: str | None = None
) -> int:
    """A descriptor of a regular file that is believed, in an open directory; made by O_CREAT with `mode`.

    Raises GridwrightError (ENVIRONMENT), which names whose it is, and OSError.
    """
    # A pipe in its place must not hold who opens it.
    try:
        descriptor = os.open(
            name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, mode, dir_fd=directory
        )
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise untrusted(name, "it is no regular file", remedy) from error
        raise
    status = os.fstat(descriptor)
    reason = "it is no regular file" if not stat.S_ISREG(status.st_mode) else why_untrusted(status)
    if reason is None and status.st_nlink > 1:
        reason = "it has another name elsewhere (a hard link)"
    if reason:
        os.close(descriptor)
        raise untrusted(name, reason, remedy)
    return descriptor


def untrusted(path: str | Path, reason: str, remedy: str | None = None) -> GridwrightError:
    """The error of a directory or a file that is not believed."""
    return environment_error(
        f"it cannot be trusted: {reason}",
        where=os.fspath(path),
        remedy=remedy
        or "see who made it; remove it, or give it to the user who runs this, writable for no other",
    )
