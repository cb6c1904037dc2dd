"""The machine: accounts and groups of its own files, what can be done to it, and how commands of it run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.node_programs.users.configuration import UsersError

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


@dataclass(frozen=True)
class Run:
    """A command, with the file that it reads a secret from, if any."""

    argv: tuple[str, ...]
    secret: str | None = None


@dataclass(frozen=True)
class Write:
    """A file of root, whole or not at all."""

    path: str
    text: str
    mode: int


@dataclass(frozen=True)
class Remove:
    """A file that is no longer wanted."""

    path: str


@dataclass(frozen=True)
class MakeHome:
    """A home with the files of /etc/skel."""

    path: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Change:
    """One thing that is not as it should be. Neither text has a secret."""

    setting: str
    found: str
    wanted: str
    act: Run | Write | Remove | MakeHome


LIMIT_S = 90
_PLAIN = {"LC_ALL": "C"}


def run(argv: Sequence[str], stdin: str = "") -> str:
    """What a command prints that has to succeed. Raises UsersError, whose text never has what went in."""
    try:
        done = _ended(argv, stdin)
    except FileNotFoundError:
        raise UsersError(f"this machine has no {argv[0]}") from None
    except subprocess.TimeoutExpired:
        raise UsersError(f"{argv[0]} had not ended after {LIMIT_S} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise UsersError(f"{argv[0]} failed: {'; '.join(lines) or f'status {done.returncode}'}")
    return done.stdout


def printed(argv: Sequence[str]) -> str:
    """What a command prints, whether it succeeds or not; nothing where there is none."""
    try:
        return _ended(argv).stdout
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""


def succeeds(argv: Sequence[str]) -> bool:
    """Whether a command is there and succeeds."""
    try:
        return _ended(argv).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


def _ended(argv: Sequence[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, input=stdin, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        env={**os.environ, **_PLAIN},
    )  # fmt: skip
