"""Services of systemd that load what is read of a repository, from the start of a machine on.

Who reads files of a node's own disks is held back by the kernel of that node, so that this node serves them.
Those of a Lustre of one's own are brought by an agent, which may run on any client: one runs where the timers
do, on a machine that is always on, has the credentials, and runs no jobs if there is a head node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gridwright.errors import input_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.lazy_load import LazyLoadWay
from gridwright.setup.repository_timers import PROGRAM, ROLE, quoted
from gridwright.spec.model import GridSpec

_CLOSE = """\
[Unit]
Description=Close {directory} to users until it is served
DefaultDependencies=no
RequiresMountsFor={directory}
Before=local-fs.target
# Older kernels hold nobody back: there, names have no permissions instead.
ConditionKernelVersion=>=6.14

[Service]
Type=oneshot
ExecStart={command} --close

[Install]
WantedBy=local-fs.target
"""

_SERVE = """\
[Unit]
Description=Load what is read in {directory}
RequiresMountsFor={directory}
Wants=network-online.target
After=network-online.target {close}.service
ConditionKernelVersion=>=6.14

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
Environment=HOME=/root{region}

[Install]
WantedBy=multi-user.target
"""

_COPYTOOL = """\
[Unit]
Description=Bring what is read in {directory}, an archive of Lustre's HSM
RequiresMountsFor={directory}
Wants=network-online.target
After=network-online.target remote-fs.target

[Service]
Type=notify
ExecStart={command}
# A reader in Lustre waits for the next agent, however long that takes.
Restart=always
RestartSec=5
TimeoutStopSec=10s
OOMScoreAdjust=-900
LimitNOFILE=65536
EnvironmentFile=-/etc/gridwright/repository.env
Environment=HOME=/root{region}

[Install]
WantedBy=multi-user.target
"""


def event_units(
    name: str, directory: str, command: Sequence[str], region: str | None = None
) -> dict[str, str]:
    """The text of both units that serve a directory of a node's own disks, by the name of its file.

    Raises GridwrightError for a directory that has no unit.
    """
    close, serve = f"gridwright-close-{name}", f"gridwright-serve-{name}"
    fields = _fields(directory, command, region)
    return {
        f"{close}.service": _CLOSE.format(**fields),
        f"{serve}.service": _SERVE.format(close=close, **fields),
    }


def copytool_unit(
    name: str, directory: str, command: Sequence[str], region: str | None = None
) -> dict[str, str]:
    """The text of the unit of an agent of Lustre's HSM, by the name of its file.

    Raises GridwrightError for a directory that has no unit.
    """
    return {f"gridwright-serve-{name}.service": _COPYTOOL.format(**_fields(directory, command, region))}


def carried_services(spec: GridSpec) -> dict[str, str]:
    """Units of the machine that has the timers: one agent for each repository on a Lustre of one's own."""
    return _of_grid(spec, dict(_copytools(spec)))


def node_services(spec: GridSpec) -> dict[str, str]:
    """Units of the node whose disks repositories are on."""
    return _of_grid(spec, dict(_events(spec)))


def service_files(spec: GridSpec) -> Mapping[str, str]:
    """The units as files of the role."""
    units = {**carried_services(spec), **node_services(spec)}
    return {f"roles/{ROLE}/files/{name}": text for name, text in units.items()}


def service_variables(spec: GridSpec) -> dict[str, list[str]]:
    """What the role is told: the units of carriers and of nodes, without their endings."""
    return {
        variable: [each.removesuffix(".service") for each in units]
        for variable, units in (
            ("gridwright_repository_carried", carried_services(spec)),
            ("gridwright_repository_served", node_services(spec)),
        )
        if units
    }


def _copytools(spec: GridSpec) -> Iterator[tuple[str, str]]:
    for name, found in spec.repositories.items():
        if (archive := spec.hsm_archive(name)) is not None:
            directory = str(spec.repository_directory(name))
            more = ["--bucket", found.bucket, "--hsm-archive", str(archive)]
            yield from copytool_unit(name, directory, _command(spec, name, more), spec.region).items()


def _events(spec: GridSpec) -> Iterator[tuple[str, str]]:
    for name, found in spec.repositories.items():
        way = kind_of(spec.filesystem_of(found.library)).lazy_load().way
        if way is LazyLoadWay.EVENTS and not spec.is_linked(name):
            directory = str(spec.repository_directory(name))
            yield from event_units(name, directory, _command(spec, name, []), spec.region).items()


def _command(spec: GridSpec, name: str, more: Sequence[str]) -> list[str]:
    endpoint = spec.repositories[name].endpoint
    command = [PROGRAM, "repo", "serve", name, "--directory", str(spec.repository_directory(name)), *more]
    return [*command, *(["--endpoint", endpoint] if endpoint else [])]


def _of_grid(spec: GridSpec, units: Mapping[str, str]) -> dict[str, str]:
    return {name: f"# Grid {spec.name}\n{text}" for name, text in units.items()}


def _fields(directory: str, command: Sequence[str], region: str | None) -> dict[str, str]:
    if not directory.isprintable():
        raise input_error(
            "units of systemd take no line feeds and no control characters in a directory",
            where=ascii(directory),
            remedy="give the library another directory, or mount it elsewhere, too",
        )
    return {
        "directory": quoted(directory),
        "command": " ".join(map(quoted, command)),
        "region": f" AWS_REGION={quoted(region)}" if region else "",
    }
