"""The units of systemd that serve a directory from the start of a machine on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from gridwright.errors import input_error
from gridwright.repository.keys import shown

_CLOSE = """\
# /etc/systemd/system/{name}-close.service
[Unit]
Description=Close {shown} to users until it is served
DefaultDependencies=no
RequiresMountsFor={directory}
Before=local-fs.target

[Service]
Type=oneshot
ExecStart={command} --close

[Install]
WantedBy=local-fs.target
"""

_SERVE = """\
# /etc/systemd/system/{name}.service
[Unit]
Description=Load what is read in {shown}
RequiresMountsFor={directory}
Wants=network-online.target
After=network-online.target {name}-close.service

[Service]
Type=notify
NotifyAccess=all
ExecStart={command}
Restart=always
RestartSec=1
OOMScoreAdjust=-900
LimitNOFILE=65536
# The events outlive the process: whoever reads waits for the next one.
FileDescriptorStoreMax=1
FileDescriptorStorePreserve=yes
KillMode=mixed
EnvironmentFile=-/etc/gridwright/repository.env

[Install]
WantedBy=multi-user.target
"""


def unit_files(name: str, directory: str, command: Sequence[str]) -> Mapping[str, str]:
    """The text of both units by the name of its file.

    Raises GridwrightError for a directory that has no unit.
    """
    if any(not each.isprintable() or each in " \\\"'%$" for each in directory):
        raise input_error(
            "units of systemd take no spaces, quotes, % and $ in a directory",
            where=shown(directory),
            remedy="give the library another directory, or mount it elsewhere, too",
        )
    unit = f"gridwright-repository-{name}"
    fields = {
        "name": unit,
        "directory": directory,
        "shown": shown(directory),
        "command": shlex.join(command),
    }
    return {f"{unit}-close.service": _CLOSE.format(**fields), f"{unit}.service": _SERVE.format(**fields)}
