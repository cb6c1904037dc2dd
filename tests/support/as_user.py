"""What another user does, in a process of that user: real uids, as an attacker has them."""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
import shlex
import signal
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ALICE, MALLORY = 2001, 2002


def as_user(uid: int, act: Callable[[], object], groups: Sequence[int] = ()) -> None:
    """Run a function as a user, in these groups; raises AssertionError with its traceback where it fails."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups(groups)
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            act()
            status = 0
        except BaseException:
            os.write(write, traceback.format_exc().encode()[:60_000])
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        text = said.read().decode(errors="replace")
    _, ended = os.waitpid(child, 0)
    assert ended == 0, text


def private_group_user() -> int:
    """A user of this machine whose group is as useradd(8) makes it: of its number and name, for it alone."""
    groups = {each.gr_gid: each for each in grp.getgrall()}
    return next(
        each.pw_uid
        for each in pwd.getpwall()
        if each.pw_uid == each.pw_gid != 0
        and (group := groups.get(each.pw_gid))
        and (group.gr_name, group.gr_mem) == (each.pw_name, [])
    )


def let_write(place: Path, *, user: int | None = None, group: int | None = None) -> None:
    """An ACL by which a user or a group more may write, as setfacl(1) sets it; the mode stays as it is."""
    mode = place.stat().st_mode
    entries = [(0x01, mode >> 6 & 7, -1)]
    entries += [(0x02, 7, user)] if user is not None else []
    entries += [(0x04, 5, -1)]
    entries += [(0x08, 7, group)] if group is not None else []
    entries += [(0x10, 7, -1), (0x20, mode & 7, -1)]
    packed = b"".join(struct.pack("<HHI", tag, bits, number & 0xFFFFFFFF) for tag, bits, number in entries)
    os.setxattr(place, "system.posix_acl_access", struct.pack("<I", 2) + packed)


def words_of(uid: int) -> list[str]:
    """What stands before a command that a user is to run, with the Python of the tests where it is in reach.

    Where that lies in a closed home directory, the command may read what others may not, and write no more.
    """
    user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    looks = [*user, "--", "sh", "-c", f"exec {shlex.quote(sys.executable)} -c ''"]
    if subprocess.run(looks, stderr=subprocess.DEVNULL, check=False, timeout=60, cwd="/").returncode:
        user += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return [*user, "--"]


def start_as(uid: int, command: Sequence[str], **options: object) -> subprocess.Popen[bytes]:
    """Start a command as a user, without groups."""
    who = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    return subprocess.Popen([*who, *command], **options)  # type: ignore[call-overload,no-any-return]


def open_to_all(place: Path) -> None:
    """Let other users pass through the directories above a temporary one, which pytest closes."""
    for directory in (place, *place.parents[:4]):
        if directory.stat().st_uid == os.geteuid() and directory != Path("/tmp"):
            directory.chmod(directory.stat().st_mode | 0o711)


@contextmanager
def racing(uid: int, act: Callable[[], object]) -> Iterator[None]:
    """Another user does something over and over, as fast as it can; errors are no end of it."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            # A test that is killed leaves nobody behind (PR_SET_PDEATHSIG of prctl(2)).
            _LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)
            while True:
                with suppress(OSError):
                    act()
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


_LIBC = ctypes.CDLL(None, use_errno=True)
_EXCHANGE = 2
"""RENAME_EXCHANGE of renameat2(2)."""
_HERE = -100
"""AT_FDCWD of openat(2)."""


def exchange(one: bytes, other: bytes) -> None:
    """Two names change places, at one moment. Raises OSError."""
    if _LIBC.renameat2(_HERE, one, _HERE, other, _EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")
