"""Reads settings that only a command shows: those of Lustre and of Spectrum Scale, and units of systemd."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from gridwright.commands import CommandSilent, run_here

_ANSWER_S = 2.0
"""For one command; a client that has lost its servers may take minutes."""
_MMLSCONFIG = "/usr/lpp/mmfs/bin/mmlsconfig"
_SYSTEMD = Path("/run/systemd/system")
"""There where systemd is what started the system (sd_booted(3))."""


def lustre(key: str) -> str | None:
    """A parameter of Lustre, different values with commas; without root some come back empty."""
    if shutil.which("lctl") is None:
        return None
    return lustre_values(_printed(["lctl", "get_param", key]))


def lustre_values(printed: str) -> str | None:
    """Out of `osc.scratch-OST0000-osc-ffff.max_dirty_mb=256` a line each.

    Connections of a metadata server to its targets have limits of their own, and are left out.
    """
    rows = [line.partition("=") for line in printed.splitlines()]
    found = {value.strip() for name, _, value in rows if value.strip() and "-osc-MDT" not in name}
    return ", ".join(sorted(found)) or None


def scale(key: str) -> str | None:
    """A value of Spectrum Scale's configuration (the mmlsconfig command)."""
    if not Path(_MMLSCONFIG).exists():
        return None
    found = re.search(rf"^{re.escape(key)}\s+(\S+)", _printed([_MMLSCONFIG, key]), re.MULTILINE)
    return found[1] if found else None


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
