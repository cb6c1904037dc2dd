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

from gridwright.beneath import DIRECTORY, descriptor_path
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
            raise untrusted(_whole(path, directory), _no_directory(path, directory), remedy) from error
        if error.errno == errno.EACCES and (reason := _why_closed(path, directory)):
            raise untrusted(_whole(path, directory), reason, remedy) from error
        raise
    if reason := why_untrusted(os.fstat(descriptor), is_shared=is_shared):
        os.close(descriptor)
        raise untrusted(_whole(path, directory), reason, remedy)
    return descriptor


def _no_directory(path: str | Path, directory: int | None) -> str:
    """Why something that is no directory is not believed, with its owner."""
    with suppress(OSError):
        status = os.stat(path, dir_fd=directory, follow_symlinks=False)
        what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no directory"
        return f"it is {what}, and belongs to {user_name(status.st_uid)}"
    return "it is no directory, or a symbolic link"


def _why_closed(path: str | Path, directory: int | None) -> str | None:
    """Why a directory that may not be opened is not believed; None where it is root's or this user's."""
    with suppress(OSError):
        return why_untrusted(os.stat(path, dir_fd=directory, follow_symlinks=False), is_shared=True)
    return None


def _whole(path: str | Path, directory: int | None) -> str:
    """The whole path of a name in an open directory."""
    if directory is not None:
        with suppress(OSError):
            path = Path(descriptor_path(directory)).readlink() / path
    return os.fspath(path)


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
            raise untrusted(_whole(name, directory), "it is no regular file", remedy) from error
        raise
    status = os.fstat(descriptor)
    reason = "it is no regular file" if not stat.S_ISREG(status.st_mode) else why_untrusted(status)
    if reason is None and status.st_nlink > 1:
        reason = "it has another name elsewhere (a hard link)"
    if reason:
        os.close(descriptor)
        raise untrusted(_whole(name, directory), reason, remedy)
    return descriptor


def read_file(directory: int, name: str, most: int = 1 << 20) -> bytes:
    """The content of a file that is believed, in an open directory; at most so many bytes.

    Raises as `open_file`, and GridwrightError where it has more.
    """
    with os.fdopen(open_file(directory, name), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise untrusted(name, f"it has more than {most} bytes")
    return content


def untrusted(path: str | Path, reason: str, remedy: str | None = None) -> GridwrightError:
    """The error of a directory or a file that is not believed."""
    return environment_error(
        f"it cannot be trusted: {reason}",
        where=os.fspath(path),
        remedy=remedy
        or "see who made it; remove it, or give it to the user who runs this, writable for no other",
    )
