"""What another user does, in a process of that user: real uids, as an attacker has them."""

from __future__ import annotations

import os
import subprocess
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

ALICE, MALLORY = 2001, 2002


def as_user(uid: int, act: Callable[[], None]) -> None:
    """Run a function as a user, without groups; raises AssertionError with its traceback where it fails."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
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


def start_as(uid: int, command: Sequence[str], **options: object) -> subprocess.Popen[bytes]:
    """Start a command as a user, without groups."""
    who = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    return subprocess.Popen([*who, *command], **options)  # type: ignore[call-overload,no-any-return]


def open_to_all(place: Path) -> None:
    """Let other users pass through the directories above a temporary one, which pytest closes."""
    for directory in (place, *place.parents[:4]):
        if directory.stat().st_uid == os.geteuid() and directory != Path("/tmp"):
            directory.chmod(directory.stat().st_mode | 0o711)
