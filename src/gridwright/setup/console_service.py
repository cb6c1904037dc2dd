"""The service of systemd that serves the console of a grid, as the user who reaches its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gridwright.errors import input_error
from gridwright.setup.repository_timers import quoted

CONSOLE_UNIT = "gridwright-console.service"

_UNIT = """\
[Unit]
Description=Page of a grid (gridwright console)
Wants=network-online.target
After=network-online.target remote-fs.target

[Service]
# Who reaches the nodes by ssh, and whom the scheduler lets ask.
User={user}
WorkingDirectory={directory}
ExecStart={command}
# GRIDWRIGHT_TOKEN=..., where no file has the token.
EnvironmentFile=-/etc/gridwright/console.env
{more}Restart=always
RestartSec=5s
# An order to stop is obeyed within a second.
TimeoutStopSec=5s
KillMode=mixed
Nice=5
MemoryMax=2G
TasksMax=4096
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
ProtectSystem=full
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=multi-user.target
"""
_OF_ROOT = "CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"
"""To look into /proc of other users' processes and at files of any owner, as the exporter does."""


def console_unit(command: Sequence[str], user: str, directory: Path, more: str = "") -> str:
    """The text of the unit that runs a command in a directory as a user; `more` are lines of its service.

    Raises GridwrightError for words that no unit can hold.
    """
    for each in (*command, user, str(directory)):
        if not each.isprintable():
            raise input_error(
                "units of systemd take no line feeds and no control characters",
                where=ascii(each),
                remedy="name another path or word",
            )
    return _UNIT.format(
        user=user,
        # Percent signs are systemd's own there; a path is taken as it is otherwise.
        directory=str(directory).replace("%", "%%"),
        command=" ".join(map(quoted, command)),
        capabilities=_OF_ROOT if user == "root" else "",
        more=more,
    )
