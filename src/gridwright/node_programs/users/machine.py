"""What the machine has by now: accounts and groups of its own files, never those of a directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

STATE = "var/lib/gridwright/users.json"
KEYS = "etc/gridwright/user-keys"
SSHD, SSHD_DIRECTORY = "etc/ssh/sshd_config", "etc/ssh/sshd_config.d"
SSSD = "etc/sssd/sssd.conf"
PAM_SESSION = "etc/pam.d/common-session"


@dataclass(frozen=True)
class ThereUser:
    """A line of passwd(5), with what shadow(5) has of it."""

    uid: int
    gid: int
    comment: str
    home: str
    shell: str
    is_locked: bool = False
    """Locked by us: no password, and expired on the first day of 1970."""


@dataclass(frozen=True)
class ThereGroup:
    """A line of group(5)."""

    gid: int
    members: tuple[str, ...]


@dataclass(frozen=True)
class Machine:
    """All that a plan needs to know."""

    users: Mapping[str, ThereUser]
    groups: Mapping[str, ThereGroup]
    known: Mapping[str, int] = field(default_factory=dict)
    """Accounts that an earlier run had in its configuration, with their numbers."""
    grid: str | None = None
    """The grid of that run."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Text of files that may be written, by their path from the root on; those that are there."""
    homes: frozenset[str] = frozenset()
    """Homes of the configuration that are there."""
    mounts: frozenset[str] = frozenset()
    """Where something is mounted."""


def observe(root: Path, homes: list[str]) -> Machine:
    """Look at the machine below `root`. Raises OSError."""
    known, grid = _known(root / STATE)
    return Machine(
        users=_users(_text(root / "etc/passwd"), _text(root / "etc/shadow")),
        groups=_groups(_text(root / "etc/group")),
        known=known,
        grid=grid,
        files=dict(_files(root)),
        homes=frozenset(home for home in homes if os.path.lexists(root / home.lstrip("/"))),
        mounts=_mounts(Path("/proc/self/mountinfo")),
    )


def _files(root: Path) -> dict[str, str]:
    paths = [root / each for each in (SSHD, SSSD, PAM_SESSION)]
    for directory in (SSHD_DIRECTORY, KEYS, "etc/gridwright"):
        if (root / directory).is_dir():
            paths += sorted((root / directory).iterdir())
    return {str(path.relative_to(root)): _text(path) for path in paths if path.is_file()}


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except (FileNotFoundError, PermissionError):  # shadow, for who only looks and is not root
        return ""


def _users(passwd: str, shadow: str) -> dict[str, ThereUser]:
    locked = set()
    for line in shadow.splitlines():
        fields = line.split(":")
        if len(fields) > 7 and fields[1].startswith("!") and fields[7] == "1":
            locked.add(fields[0])
    found = {}
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) == 7 and fields[2].isdigit() and fields[3].isdigit():
            name, _, uid, gid, comment, home, shell = fields
            found[name] = ThereUser(int(uid), int(gid), comment, home, shell, name in locked)
    return found


def _groups(text: str) -> dict[str, ThereGroup]:
    found = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) == 4 and fields[2].isdigit():
            found[fields[0]] = ThereGroup(
                int(fields[2]), tuple(each for each in fields[3].split(",") if each)
            )
    return found


def _known(path: Path) -> tuple[dict[str, int], str | None]:
    try:
        state = json.loads(path.read_text("utf-8"))
        return {str(name): int(uid) for name, uid in state["accounts"].items()}, str(state["grid"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # A state that is lost locks nobody; the accounts of the configuration are known again at once.
        return {}, None


def _mounts(table: Path) -> frozenset[str]:
    """Mount points (proc(5)); a blank within one is an octal number there."""
    fields = [line.split() for line in table.read_text("utf-8", "replace").splitlines()]
    return frozenset(each[4].replace("\\040", " ") for each in fields if len(each) > 4)
