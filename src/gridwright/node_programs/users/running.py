"""Commands of the system, with a limit of time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from gridwright.node_programs.users.configuration import UsersError

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
