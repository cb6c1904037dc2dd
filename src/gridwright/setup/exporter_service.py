"""The service of systemd that tells Prometheus what a node does, with no more rights than that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gridwright.errors import input_error
from gridwright.setup.repository_timers import PROGRAM, quoted
from gridwright.spec.model import GridSpec
from gridwright.spec.monitoring import ExporterSection

ROLE = "exporter"
EXPORTER_UNIT = "gridwright-exporter.service"
SERVER_UNIT = "gridwright-exporter-server.service"
"""Its file in the role for machines without libraries: at such a path something else may lie there."""

_UNIT = """\
{head}[Unit]
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
# Counters of processes stay open: two files of each.
LimitNOFILE=65536
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
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
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


def exporter_unit(command: Sequence[str], grid: str = "") -> str:
    """The text of the unit that runs a command, for a grid or for none.

    Raises GridwrightError (status INPUT) for a command that no unit can hold.
    """
    for each in command:
        if not each.isprintable():
            raise input_error(
                "units of systemd take no line feeds and no control characters",
                where=ascii(each),
                remedy="name another path or word",
            )
    head = f"# Grid {grid}\n" if grid else ""
    return _UNIT.format(head=head, command=" ".join(map(quoted, command)))


def exporter_files(spec: GridSpec) -> Mapping[str, str]:
    """The units as files of the role.

    Raises GridwrightError (status INPUT) for a path of a library that no unit can hold.
    """
    section = spec.monitoring.exporter
    if section is None:
        return {}
    command = _command(section)
    directories = [
        word for name in spec.libraries for word in ("--directory", str(spec.library_directory(name)))
    ]
    return {
        f"roles/{ROLE}/files/{EXPORTER_UNIT}": exporter_unit([*command, *directories], spec.name),
        f"roles/{ROLE}/files/{SERVER_UNIT}": exporter_unit(command, spec.name),
    }


def _command(section: ExporterSection) -> list[str]:
    command = [PROGRAM, "exporter", "--port", str(section.port), "--listen", section.listen]
    if section.tls is not None:
        command += ["--certificate", section.tls.certificate, "--key", section.tls.key]
    if section.token_file is not None:
        command += ["--token-file", section.token_file]
    if section.proxy is not None:
        for address in section.proxy.addresses:
            command += ["--proxy", address]
        command += ["--proxy-header", section.proxy.header]
    return command


def exporter_variables(spec: GridSpec) -> dict[str, object]:
    """What the role is told: where each machine listens, and which files it has to have."""
    section = spec.monitoring.exporter
    if section is None:
        return {}
    tls = [] if section.tls is None else [section.tls.certificate, section.tls.key]
    return {
        "gridwright_exporter": {
            "address": "::1" if ":" in section.listen else "127.0.0.1",
            "port": section.port,
            "files": [*tls, *([] if section.token_file is None else [section.token_file])],
        }
    }


def without_libraries(spec: GridSpec) -> dict[str, object]:
    """What the role is told of machines that mount nothing."""
    return {} if spec.monitoring.exporter is None else {"gridwright_exporter_unit": SERVER_UNIT}
