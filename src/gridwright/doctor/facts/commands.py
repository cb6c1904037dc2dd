"""Reads settings that only a command shows: those of kinds of file systems, and units of systemd."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from gridwright.commands import CommandSilent, run_here

_ANSWER_S = 2.0
"""For one command; a client that has lost its servers may take minutes."""
_SYSTEMD = Path("/run/systemd/system")
"""There where systemd is what started the system (sd_booted(3))."""


def printed(command: Sequence[str]) -> str | None:
    """What a command prints; None where this node does not have it. Raises TimeoutError."""
    return None if shutil.which(command[0]) is None else _printed(command)


def unit(name: str) -> str | None:
    """The state of a unit of systemd, such as `active`; None where there is no such unit (systemctl(1))."""
    if not _SYSTEMD.is_dir():
        return "?systemd does not run here"
    shown = _printed(["systemctl", "show", "--property=LoadState,ActiveState", "--", name])
    facts = dict(line.partition("=")[::2] for line in shown.splitlines())
    return facts.get("ActiveState") if facts.get("LoadState") == "loaded" else None


def _printed(command: Sequence[str]) -> str:
    """What a command prints, whatever its exit status. Raises TimeoutError."""
    try:
        return run_here(command, timeout_s=_ANSWER_S).stdout.decode(errors="replace")
    except CommandSilent:
        raise TimeoutError(110, f"{command[0]} does not answer") from None
