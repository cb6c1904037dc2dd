"""Directories and files whose content is believed: owner and mode are looked at first, on what is open.

What is believed is run, or says what is to be removed, overwritten or run. It has to belong to root or to the
user who runs this, and nobody else may write it. A group that is its owner's alone, as useradd(8) makes them,
is nobody else; whoever a POSIX ACL lets write is somebody (acl(5)). Whoever can write a directory above puts
another one in its place, so the whole way from `/` is looked at, too. What a FUSE file system says of owners
and modes is the word of the user who mounted it, so that user counts as the owner of all there.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import shlex
import stat
import struct
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gridwright.beneath import DIRECTORY, descriptor_path, fuse_user
from gridwright.errors import GridwrightError, environment_error

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ACL = "system.posix_acl_access"
_ACL_HEADER, _ACL_ENTRY = struct.Struct("<I"), struct.Struct("<HHI")
"""The version, and then tag, permissions and identifier (include/uapi/linux/posix_acl_xattr.h)."""
_ACL_VERSION = 2
_ACL_USER, _ACL_GROUP, _ACL_WRITE = 0x02, 0x08, 0x02
_MOST_LINKS = 40
"""As in path_resolution(7)."""


def user_name(uid: int) -> str:
    """The name of a user; the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def others_write(status: os.stat_result, place: str | Path | int | None) -> bool:
    """Whether others than its owner can write a directory or a file, by its mode or by a POSIX ACL.

    `place` is the path that is looked at, which is not followed, or its descriptor. A group counts as the
    owner's alone where it is as useradd(8) makes it, and no ACL lets a named user or group write. Where ACLs
    are not seen, as without a place and on NFS 4, a group that may write is others.
    """
    if status.st_mode & stat.S_IWOTH:
        return True
    # Where there is an ACL, these bits are its mask: without them no entry of it lets anybody write.
    if not status.st_mode & stat.S_IWGRP:
        return False
    if place is None or not _is_private_group(status):
        return True
    return _acl_lets_write(place, {0, os.geteuid(), status.st_uid})


def _is_private_group(status: os.stat_result) -> bool:
    """Whether the group is its owner's alone: of that name and number, with no other members.

    Members are also the users whose primary group it is. Where a directory service does not list its users,
    it has to give each user the group of the user's own number, as SSSD does (auto_private_groups of
    sssd.conf(5)). Root's group is not: accounts of the system, such as operator, have it too.
    """
    try:
        owner, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    name = owner.pw_name
    if (owner.pw_gid, name) != (group.gr_gid, group.gr_name) or group.gr_gid == 0:
        return False
    users = pwd.getpwall()
    listed = {user.pw_name for user in users}
    groups = [group, *(each for each in grp.getgrall() if each.gr_gid == group.gr_gid)]
    members = {user.pw_name for user in users if user.pw_gid == group.gr_gid}
    members.update(*(each.gr_mem for each in groups))
    return members <= {name} and (name in listed or group.gr_gid == owner.pw_uid)


def _acl_lets_write(place: str | Path | int, trusted_users: set[int]) -> bool:
    """Whether an ACL whose mask admits it lets others write, or there may be one that is not seen."""
    try:
        text = os.getxattr(place, _ACL, follow_symlinks=isinstance(place, int))
        (version,) = _ACL_HEADER.unpack_from(text)
        entries = list(_ACL_ENTRY.iter_unpack(text[_ACL_HEADER.size :]))
    except OSError as error:
        return error.errno != errno.ENODATA
    except struct.error:
        return True
    return version != _ACL_VERSION or any(
        tag == _ACL_GROUP or (tag == _ACL_USER and number not in trusted_users)
        for tag, permissions, number in entries
        if permissions & _ACL_WRITE
    )


class Fault(NamedTuple):
    """Why something is not believed, and what mends it, where its owner asks and loses nothing."""

    reason: str
    remedy: str | None = None


def why_untrusted(status: os.stat_result, *, is_shared: bool = False) -> str | None:
    """Why the content of a file or a directory is not believed; None where it is. No group may write it.

    With `is_shared`, others may add to a directory where its sticky bit keeps them from what is not theirs,
    as in /tmp.
    """
    fault = _fault(status, None, is_shared=is_shared)
    return fault and fault.reason


def sudo_callers() -> frozenset[int]:
    """The user who called sudo, where this is root: who may have root run this is believed by it."""
    caller = os.environ.get("SUDO_UID", "")
    return frozenset({int(caller)} if os.geteuid() == 0 and caller.isdecimal() else ())


def why_untrusted_path(
    path: str | Path, *, is_shared: bool = False, owners: Collection[int] = (), writers: int = _OTHERS_WRITE
) -> str | None:
    """Why somebody else could put another thing where an absolute path leads; None where nobody can.

    Every directory from `/` on is looked at, as sshd's StrictModes does, and so is the way to the target of
    each symbolic link. All belong to root, to this user or to `owners` (user numbers). Nobody else may write
    a directory, unless it is sticky (the last one: with `is_shared`). What does not exist ends the walk:
    nobody else can make it but in a sticky directory. `writers` are the bits of a mode that let others write.
    Raises OSError.
    """
    fault = way_fault(path, is_shared=is_shared, owners=owners, writers=writers)
    return fault and fault.reason


def _fault(
    status: os.stat_result,
    place: str | Path | int | None,
    *,
    is_shared: bool = False,
    name: str = "it",
    remedied: str | None = None,
    owners: Collection[int] = (),
    writers: int = _OTHERS_WRITE,
) -> Fault | None:
    """The fault of what lies at a place; `remedied` is the path that the remedy names."""
    believed = (0, os.geteuid(), *owners)
    if (user := fuse_user(status.st_dev)) is not None and user not in believed:
        return Fault(f"{name} is on a FUSE file system that {user_name(user)} has mounted")
    owner = user_name(status.st_uid)
    if status.st_uid not in believed:
        return Fault(f"{name} belongs to {owner}")
    is_kept = is_shared and status.st_mode & stat.S_ISVTX
    if status.st_mode & writers and not is_kept and others_write(status, place):
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        remedy = None
        if remedied and status.st_uid == os.geteuid():
            remedy = f"chmod go-w {shlex.quote(remedied)}"
        return Fault(f"other users can write {name} (mode {mode}, owner {owner})", remedy)
    return None


def way_fault(
    path: str | Path, *, is_shared: bool = False, owners: Collection[int] = (), writers: int = _OTHERS_WRITE
) -> Fault | None:
    """As `why_untrusted_path`: goes from name to name, and puts its target in the place of a link."""
    names = os.fspath(path).split("/")[::-1]
    way = [("/", _is_closed(os.lstat("/")))]
    links = 0
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            way = way[:-1] or way
            continue
        above, is_closed = way[-1]
        place = os.path.join(above, name)  # noqa: PTH118 - as short as can be: each command does this
        try:
            status = os.lstat(place)
            if stat.S_ISDIR(status.st_mode):
                # The slash makes an automounter mount what is to be there.
                status = os.lstat(f"{place}/")
        except FileNotFoundError:
            return None
        is_last = not any(names)
        called = "it" if place == os.fspath(path) else place
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if fault := _fault(
                status, None, name=f"{called} is a symbolic link, and", owners=owners, writers=0
            ):
                return fault
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
            target = os.readlink(place)  # noqa: PTH115
            names += target.split("/")[::-1]
            way = way[:1] if target.startswith("/") else way
            continue
        if not is_last and not stat.S_ISDIR(status.st_mode):
            return Fault(f"{called} is no directory, and belongs to {user_name(status.st_uid)}")
        shared = is_shared or not is_last
        fault = _fault(
            status, place, is_shared=shared, name=called, remedied=place, owners=owners, writers=writers
        )
        # Into a directory of one's own that is closed to others nobody gets, whatever lies in it.
        is_closed |= _is_closed(status)
        if fault and not (is_closed and status.st_uid == os.geteuid()):
            return fault
        way.append((place, is_closed))
    return None


def _is_closed(status: os.stat_result) -> bool:
    """Whether a directory is this user's, and lets nobody else pass."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def open_directory(
    path: str | Path,
    *,
    directory: int | None = None,
    make: int | None = None,
    is_shared: bool = False,
    remedy: str | None = None,
) -> int:
    """A descriptor of a directory that is believed; `make` is the mode with which it is made where it is not.

    `path` may be one name in the open `directory`, and is no symbolic link then. Else nobody but root and
    this user can put another one in its place (`why_untrusted_path`): paths below it hold. `is_shared` is
    that of `why_untrusted`. Raises GridwrightError (ENVIRONMENT), which names whose it is, and OSError.
    """
    flags = DIRECTORY
    if directory is None:
        path = Path(path).absolute()
        # Before it is made where somebody else leads to.
        _hold_way(path, is_shared, remedy)
    if make is not None:
        if directory is None:
            _make_above(Path(path), remedy)
        with suppress(FileExistsError):
            os.mkdir(path, make & 0o777, dir_fd=directory)
            _complete(path, directory, make)
    if directory is None:
        _hold_way(path, is_shared, remedy)
        # Its links are root's or this user's, and so is what they are in.
        flags &= ~os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise untrusted(_whole(path, directory), _no_directory(path, directory), remedy) from error
        if error.errno == errno.EACCES and (reason := _why_closed(path, directory)):
            raise untrusted(_whole(path, directory), reason, remedy) from error
        raise
    whole = _whole(path, directory)
    if fault := _fault(os.fstat(descriptor), descriptor, is_shared=is_shared, remedied=whole):
        os.close(descriptor)
        raise _refusal(whole, fault, remedy)
    return descriptor


def _hold_way(path: str | Path, is_shared: bool, remedy: str | None) -> None:
    if fault := way_fault(path, is_shared=is_shared):
        raise _refusal(path, fault, remedy)


def _make_above(path: Path, remedy: str | None) -> None:
    """Make what leads to a path, whatever the umask is: a group that may write it could exchange the rest."""
    for place in reversed(path.parents):
        if not place.is_dir():
            with suppress(FileExistsError):
                place.mkdir(mode=0o755)
            # In a sticky directory somebody else may have been faster.
            _hold_way(place, True, remedy)


def _refusal(path: str | Path, fault: Fault, remedy: str | None) -> GridwrightError:
    """The error of a fault; where only a mode is wrong, or root has a user's HOME, the remedy is for that."""
    if fault.remedy is None and os.geteuid() == 0:
        for name in ("HOME", "XDG_STATE_HOME"):
            if (home := os.environ.get(name)) and Path(path).is_relative_to(home):
                remedy = f"{name} is {home}: as root use sudo -H and no -E, or root's own login"
    return untrusted(path, fault.reason, fault.remedy or remedy)


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
    whole = _whole(name, directory)
    owner = user_name(status.st_uid)
    fault = _fault(status, descriptor, remedied=whole)
    if not stat.S_ISREG(status.st_mode):
        fault = Fault(f"it is no regular file, and belongs to {owner}")
    elif fault is None and status.st_nlink > 1:
        fault = Fault(f"it has another name elsewhere (a hard link), and belongs to {owner}")
    if fault:
        os.close(descriptor)
        raise _refusal(whole, fault, remedy)
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
