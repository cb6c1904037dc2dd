"""The service of systemd that watches a grid, on its head node, and the copy of the spec that it reads."""

from __future__ import annotations

import json

from gridwright.setup.repository_timers import PROGRAM, quoted
from gridwright.spec.model import GridSpec

ROLE, ACCOUNT = "watch", "gridwright-watch"
SPECS, STATES = "/etc/gridwright/watch", "/var/lib/gridwright-watch"

_UNIT = """\
# Grid {grid}
[Unit]
Description=Watch grid {grid}
Wants=network-online.target
After=network-online.target remote-fs.target

[Service]
User={account}
ExecStart={command}
# What signs notices, where no file does (GRIDWRIGHT_WATCH_SECRET), and the proxy of a site.
EnvironmentFile=-/etc/gridwright/watch.env
Environment=HOME={states} SHELL=/bin/sh
StateDirectory=gridwright-watch gridwright-watch/{grid}
StateDirectoryMode=0755
UMask=0022
Restart=always
RestartSec=10
# An order to stop is obeyed within a second; a round is told by the watch itself.
KillMode=mixed
TimeoutStopSec=10
SuccessExitStatus=130
Nice=5
MemoryMax=1G
TasksMax=512
NoNewPrivileges=yes
CapabilityBoundingSet=
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
{sandbox}
[Install]
WantedBy=multi-user.target
"""
_SANDBOX = """\
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
"""
_OPEN = """\
# It looks at this machine itself: mounts of its own would be taken for those of the machine.
"""


def watch_unit(spec: GridSpec) -> str | None:
    """The unit; None where the spec has no watch."""
    if spec.monitoring.watch is None:
        return None
    command = [PROGRAM, "watch", f"{SPECS}/{spec.name}.yaml", "--state", f"{STATES}/{spec.name}", "--on-head"]
    return _UNIT.format(
        grid=spec.name,
        account=ACCOUNT,
        states=STATES,
        command=" ".join(map(quoted, command)),
        sandbox=_OPEN if spec.is_one_machine else _SANDBOX,
    )


def watch_files(spec: GridSpec) -> dict[str, str]:
    """The unit and the spec as files of the role. Paths of the spec are whole, as it lies elsewhere there."""
    unit = watch_unit(spec)
    if unit is None:
        return {}
    # Roles of the site stay where setup is run.
    values = spec.model_dump(mode="json", exclude_none=True, exclude={"setup"})
    place = f"roles/{ROLE}/files/{unit_name(spec)}"
    return {f"{place}.service": unit, f"{place}.yaml": json.dumps(values, indent=2) + "\n"}


def watch_variables(spec: GridSpec) -> dict[str, str]:
    """What the role is told: the unit to have, without its ending."""
    return {} if spec.monitoring.watch is None else {"gridwright_watch": unit_name(spec)}


def unit_name(spec: GridSpec) -> str:
    """Of the unit of a grid, without its ending."""
    return f"gridwright-watch-{spec.name}"
