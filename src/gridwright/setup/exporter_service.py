"""The service of systemd that tells Prometheus what a node does, with no more rights than that takes."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.errors import input_error
from gridwright.setup.repository_timers import quoted

EXPORTER_UNIT = "gridwright-exporter.service"

_UNIT = """\
[Unit]
Description=Tell Prometheus what this node does (gridwright exporter)
Wants=network-online.target
After=network-online.target remote-fs.target

[Service]
Type=exec
ExecStart={command}
# GRIDWRIGHT_TOKEN=..., where no file has the token.
EnvironmentFile=-/etc/gridwright/exporter.env
Restart=always
RestartSec=5s
TimeoutStopSec=5s
KillMode=mixed
Nice=5
CPUWeight=20
MemoryMax=256M
TasksMax=1024

# It reads, and writes nothing. Its mounts are those of the node: a /tmp of its own would hide what is there.
# Counters of Lustre are for root alone; of root's powers it keeps those to look into /proc of other users'
# processes and at files of any owner.
User=root
CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077

[Install]
WantedBy=multi-user.target
"""


def exporter_unit(command: Sequence[str]) -> str:
    """The text of the unit that runs a command. Raises GridwrightError for one that no unit can hold."""
    for each in command:
        if not each.isprintable():
            raise input_error(
                "units of systemd take no line feeds and no control characters",
                where=ascii(each),
                remedy="name another path or word",
            )
    return _UNIT.format(command=" ".join(map(quoted, command)))
