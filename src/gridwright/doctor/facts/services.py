"""Lists the services of a node that failed, according to systemd."""

from __future__ import annotations

from pathlib import Path

from gridwright.commands import CommandError, run_here
from gridwright.doctor.facts.node_facts import ServiceFacts

_ANSWER_S = 3.0
_SYSTEMD = Path("/run/systemd/system")
"""There where systemd is what started the system (sd_booted(3))."""


def services() -> ServiceFacts:
    """Units that failed. Raises OSError where systemd does not run, or does not answer."""
    if not _SYSTEMD.is_dir():
        raise OSError(2, "systemd does not run here")
    command = ["systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager", "--all"]
    try:
        done = run_here(command, timeout_s=_ANSWER_S)
    except CommandError as error:
        raise OSError(110, str(error.problems[0].what)) from None
    if done.status:
        raise OSError(5, done.stderr.decode(errors="replace").strip()[:200] or "systemctl failed")
    return ServiceFacts(failed_units(done.stdout.decode(errors="replace")))


def failed_units(printed: str) -> list[str]:
    """The first word of each line."""
    return sorted({line.split()[0] for line in printed.splitlines() if line.split()})
