"""The service of systemd that keeps the history of a machine, on nodes and servers, if the spec says so."""

from __future__ import annotations

from collections.abc import Mapping

from gridwright.setup.repository_timers import PROGRAM, quoted
from gridwright.spec.model import GridSpec

ROLE = "history"
UNIT = "gridwright-history.service"

_UNIT = """\
# Grid {grid}
[Unit]
Description=History of what this machine does, kept each second
Documentation=man:gridwright(1)
After=local-fs.target

[Service]
ExecStart={command}
Restart=always
RestartSec=5
KillMode=mixed
TimeoutStopSec=2
# Jobs come first: for the CPUs, and when memory runs out.
Nice=5
MemoryMax=256M
# Counters of processes stay open: two files of each.
LimitNOFILE=65536
OOMScoreAdjust=500
StateDirectory=gridwright/history
StateDirectoryMode=0755
# It reads environments and counters of processes that are other users', and writes files of root's own alone.
CapabilityBoundingSet=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH
NoNewPrivileges=yes
PrivateTmp=yes
# Not strict, and no ProtectHome: both would touch each mount, and one that hangs would hold up the start.
ProtectSystem=full
RestrictAddressFamilies=AF_UNIX
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
"""


def history_unit(spec: GridSpec) -> str:
    """The text of the unit."""
    libraries = [word for name in spec.libraries for word in ("--library", str(spec.library_directory(name)))]
    command = [PROGRAM, "node", "history", *libraries]
    return _UNIT.format(grid=spec.name, command=" ".join(map(quoted, command)))


def history_files(spec: GridSpec) -> Mapping[str, str]:
    """The unit as a file of the role."""
    return {f"roles/{ROLE}/files/{UNIT}": history_unit(spec)} if spec.monitoring.history else {}


def history_variables(spec: GridSpec) -> dict[str, bool]:
    """What the role is told."""
    return {"gridwright_history": True} if spec.monitoring.history else {}
