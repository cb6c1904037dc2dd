"""Services and timers of systemd that set-up gives machines: repositories, watch, history, exporter, console.

Repositories are exported and imported by timers on the machine that carries them. On a Lustre of one's own
Lustre holds readers of released files back until an agent has brought them, which may run on any client: one
runs where the timers do, on a machine that is always on, has the credentials, and runs no jobs if there is a
head node. The metadata servers know one agent of a client: it has all repositories of a Lustre.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gridwright.errors import input_error
from gridwright.spec.linked import users_file
from gridwright.spec.model import GridSpec
from gridwright.spec.monitoring import ExporterSection
from gridwright.spec.repository import Schedule

PROGRAM = "/usr/local/bin/gridwright"
"""Stands in the units; the role puts its variable `repository_program` there."""
REPOSITORY_ROLE = "repository"
_BY_CALENDAR = ("hourly", "daily")

_SERVICE = """\
# Grid {grid}
[Unit]
Description={what} of repository {name} of grid {grid}
RequiresMountsFor={directory}
Wants=network-online.target
After=network-online.target remote-fs.target

[Service]
Type=oneshot
# Export and import of one repository wait for each other, and exports of two nodes by a lease in the store.
# Who may read a lock may take it: so locks are in a directory of root's alone, which stays while others run.
RuntimeDirectory=gridwright-repository
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
ExecStart=/usr/bin/flock {lock} {command}
# Credentials of a site that has no role for its machines, and its proxy.
EnvironmentFile=-/etc/gridwright/repository.env
Environment=HOME=/root{region}
TimeoutStartSec=24h
TimeoutStopSec=60s
Nice=10
IOSchedulingPriority=7
CPUWeight=20
NoNewPrivileges=yes
"""

_TIMER = """\
# Grid {grid}
[Unit]
Description={what} of repository {name} of grid {grid}, {often}

[Timer]
{when}
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def repository_units(spec: GridSpec) -> dict[str, str]:
    """The text of each unit by its name, of repositories that Gridwright carries itself and by time.

    Nothing for those that a file system carries.
    """
    units: dict[str, str] = {}
    for name in spec.repositories:
        for verb, what, schedule, command in _transfers(spec, name):
            fields = {
                "grid": spec.name,
                "name": name,
                "what": what,
                "directory": quoted(str(spec.repository_directory(name))),
                "lock": quoted(f"/run/gridwright-repository/{name}.lock"),
                "command": " ".join(map(quoted, command)),
                "often": schedule.text if schedule.text in _BY_CALENDAR else f"every {schedule.text}",
                "region": f" AWS_REGION={quoted(spec.region)}" if spec.region else "",
                "when": _when(schedule),
            }
            unit = f"gridwright-{verb}-{name}"
            units[f"{unit}.service"] = _SERVICE.format(**fields)
            units[f"{unit}.timer"] = _TIMER.format(**fields)
    return units


def repository_files(spec: GridSpec) -> Mapping[str, str]:
    """The units that carry repositories, by time and as services, as files of the role.

    Raises GridwrightError (status INPUT) for a directory that has no unit.
    """
    units = {**repository_units(spec), **carried_services(spec)}
    return {f"roles/{REPOSITORY_ROLE}/files/{name}": text for name, text in units.items()}


def timers(spec: GridSpec) -> list[str]:
    """What the role is told: the units to have, without their endings."""
    return [name.removesuffix(".timer") for name in repository_units(spec) if name.endswith(".timer")]


def quoted(argument: str) -> str:
    """An argument as a line of a unit has it (systemd.service(5), systemd.syntax(7), systemd.unit(5))."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    has_more = any(each in argument for each in " \t'\"\\;")
    return f'"{escaped}"' if has_more or not argument else escaped


def _check_words(words: Sequence[str]) -> None:
    """Raise GridwrightError (status INPUT) for a word that no unit can hold."""
    for each in words:
        if not each.isprintable():
            raise input_error(
                "units of systemd take no line feeds and no control characters",
                where=ascii(each),
                remedy="name another path or word",
            )


def _transfers(spec: GridSpec, name: str) -> Iterator[tuple[str, str, Schedule, Sequence[str]]]:
    if spec.is_linked(name):
        return
    found = spec.repositories[name]
    where = ["--directory", str(spec.repository_directory(name)), "--bucket", found.bucket]
    where += ["--endpoint", found.endpoint] if found.endpoint else []
    archive = spec.hsm_archive(name)
    where += ["--hsm-archive", str(archive)] if archive is not None else []
    out, back = found.export, found.imports
    for verb, what, schedule, desired in (
        ("export", "Export", out.changed, {"--deletions": out.deletions}),
        (
            "import",
            "Import",
            back.names,
            {"--deletions": back.deletions, "--contents": back.contents, "--names": not back.contents},
        ),
    ):
        if schedule.is_timed:
            flags = [flag for flag, is_set in desired.items() if is_set]
            if verb == "export" and out.by == "changelog":
                flags += ["--changelog", users_file(name)]
            yield verb, what, schedule, [PROGRAM, "repo", verb, name, "--name", name, *where, *flags]


def _when(schedule: Schedule) -> str:
    """Those of a calendar are made up for after the machine was off."""
    if schedule.text in _BY_CALENDAR:
        return f"OnCalendar={schedule.text}\nPersistent=true"
    seconds = f"{schedule.period_s:.12g}s"
    return f"OnActiveSec=1min\nOnUnitActiveSec={seconds}"


_COPYTOOL = """\
[Unit]
Description=Bring what is read in {directories}: an agent of Lustre's HSM
RequiresMountsFor={directories}
Wants=network-online.target
After=network-online.target remote-fs.target
# What the metadata servers do not ask ends after half a minute and begins again, for good; what cannot begin
# at all is given up after some twenty minutes, so that it is seen.
StartLimitIntervalSec=1h
StartLimitBurst=120

[Service]
Type=notify
ExecStart={command}
# A reader in Lustre waits for the next agent, however long that takes.
Restart=always
RestartSec=10
TimeoutStartSec=3min
TimeoutStopSec=10s
OOMScoreAdjust=-900
LimitNOFILE=65536
EnvironmentFile=-/etc/gridwright/repository.env
Environment=HOME=/root{region}

[Install]
WantedBy=multi-user.target
"""


class ServedDirectory(NamedTuple):
    """A repository as its agent is told of it."""

    directory: str
    bucket: str
    archive_id: int
    endpoint: str | None


def served_directories(spec: GridSpec) -> dict[str, dict[str, ServedDirectory]]:
    """Repositories by name that are archives of the HSM of a Lustre of one's own, by file system."""
    found: dict[str, dict[str, ServedDirectory]] = {}
    for name, repository in spec.repositories.items():
        if (archive := spec.hsm_archive(name)) is not None:
            filesystem = spec.libraries[repository.library].filesystem
            served = ServedDirectory(
                str(spec.repository_directory(name)), repository.bucket, archive, repository.endpoint
            )
            found.setdefault(filesystem, {})[name] = served
    return found


def copytool_unit(
    name: str, directories: Sequence[str], command: Sequence[str], region: str | None = None
) -> dict[str, str]:
    """The text of the unit of an agent of Lustre's HSM, by the name of its file.

    Raises GridwrightError for a directory that has no unit.
    """
    return {f"gridwright-serve-{name}.service": _COPYTOOL.format(**_fields(directories, command, region))}


def serve_command(program: str, name: str, served: Sequence[ServedDirectory]) -> list[str]:
    """The command of an agent of repositories."""
    command = [program, "repo", "serve", name]
    has_endpoints = any(each.endpoint for each in served)
    for directory in served:
        command += ["--directory", directory.directory, "--bucket", directory.bucket]
        command += ["--hsm-archive", str(directory.archive_id)]
        command += ["--endpoint", directory.endpoint or ""] if has_endpoints else []
    return command


def carried_services(spec: GridSpec) -> dict[str, str]:
    """Units of the machine that has the timers: one agent for each Lustre of one's own with repositories."""
    return {name: f"# Grid {spec.name}\n{text}" for name, text in _copytools(spec)}


def service_variables(spec: GridSpec) -> dict[str, list[str]]:
    """What the role is told: the units of carriers, without their endings."""
    units = [carried_service.removesuffix(".service") for carried_service in carried_services(spec)]
    return {"gridwright_repository_carried": units} if units else {}


def _copytools(spec: GridSpec) -> Iterator[tuple[str, str]]:
    for filesystem, by_name in served_directories(spec).items():
        served = [*by_name.values()]
        command = serve_command(PROGRAM, filesystem, served)
        directories = [each.directory for each in served]
        yield from copytool_unit(filesystem, directories, command, spec.region).items()


def _fields(directories: Sequence[str], command: Sequence[str], region: str | None) -> dict[str, str]:
    for directory in directories:
        if not directory.isprintable():
            raise input_error(
                "units of systemd take no line feeds and no control characters in a directory",
                where=ascii(directory),
                remedy="give the library another directory, or mount it elsewhere, too",
            )
    return {
        "directories": " ".join(map(quoted, directories)),
        "command": " ".join(map(quoted, command)),
        "region": f" AWS_REGION={quoted(region)}" if region else "",
    }


WATCH_ROLE, ACCOUNT = "watch", "gridwright-watch"
SPECS, STATES = "/etc/gridwright/watch", "/var/lib/gridwright-watch"

_WATCH = """\
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
    return _WATCH.format(
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
    place = f"roles/{WATCH_ROLE}/files/{unit_name(spec)}"
    return {f"{place}.service": unit, f"{place}.yaml": json.dumps(values, indent=2) + "\n"}


def watch_variables(spec: GridSpec) -> dict[str, str]:
    """What the role is told: the unit to have, without its ending."""
    return {} if spec.monitoring.watch is None else {"gridwright_watch": unit_name(spec)}


def unit_name(spec: GridSpec) -> str:
    """Of the unit of a grid, without its ending."""
    return f"gridwright-watch-{spec.name}"


HISTORY_ROLE = "history"
HISTORY_UNIT = "gridwright-history.service"

_HISTORY = """\
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
    return _HISTORY.format(grid=spec.name, command=" ".join(map(quoted, command)))


def history_files(spec: GridSpec) -> Mapping[str, str]:
    """The unit as a file of the role."""
    return (
        {f"roles/{HISTORY_ROLE}/files/{HISTORY_UNIT}": history_unit(spec)} if spec.monitoring.history else {}
    )


def history_variables(spec: GridSpec) -> dict[str, bool]:
    """What the role is told."""
    return {"gridwright_history": True} if spec.monitoring.history else {}


EXPORTER_ROLE = "exporter"
EXPORTER_UNIT = "gridwright-exporter.service"
SERVER_UNIT = "gridwright-exporter-server.service"
"""Its file in the role for machines without libraries: at such a path something else may lie there."""

_EXPORTER = """\
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
    _check_words(command)
    head = f"# Grid {grid}\n" if grid else ""
    return _EXPORTER.format(head=head, command=" ".join(map(quoted, command)))


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
        f"roles/{EXPORTER_ROLE}/files/{EXPORTER_UNIT}": exporter_unit([*command, *directories], spec.name),
        f"roles/{EXPORTER_ROLE}/files/{SERVER_UNIT}": exporter_unit(command, spec.name),
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


CONSOLE_UNIT = "gridwright-console.service"

_CONSOLE = """\
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
    _check_words([*command, user, str(directory)])
    return _CONSOLE.format(
        user=user,
        # Percent signs are systemd's own there; a path is taken as it is otherwise.
        directory=str(directory).replace("%", "%%"),
        command=" ".join(map(quoted, command)),
        capabilities=_OF_ROOT if user == "root" else "",
        more=more,
    )
