"""Services of systemd that bring what is read of a repository, from the start of a machine on.

On a Lustre of one's own Lustre holds readers of released files back until an agent has brought them, which
may run on any client: one runs where the timers do, on a machine that is always on, has the credentials, and
runs no jobs if there is a head node. The metadata servers know one agent of a client: it has all
repositories of a Lustre.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gridwright.errors import input_error
from gridwright.setup.repository_timers import PROGRAM, ROLE, quoted
from gridwright.spec.model import GridSpec

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


def service_files(spec: GridSpec) -> Mapping[str, str]:
    """The units as files of the role."""
    return {f"roles/{ROLE}/files/{name}": text for name, text in carried_services(spec).items()}


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
