"""Services of systemd that bring what is read of a repository, from the start of a machine on.

On a Lustre of one's own Lustre holds readers of released files back until an agent has brought them, which
may run on any client: one runs where the timers do, on a machine that is always on, has the credentials, and
runs no jobs if there is a head node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gridwright.errors import input_error
from gridwright.setup.repository_timers import PROGRAM, ROLE, quoted
from gridwright.spec.model import GridSpec

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


def copytool_unit(
    name: str, directory: str, command: Sequence[str], region: str | None = None
) -> dict[str, str]:
    """The text of the unit of an agent of Lustre's HSM, by the name of its file.

    Raises GridwrightError for a directory that has no unit.
    """
    return {f"gridwright-serve-{name}.service": _COPYTOOL.format(**_fields(directory, command, region))}


def carried_services(spec: GridSpec) -> dict[str, str]:
    """Units of the machine that has the timers: one agent for each repository on a Lustre of one's own."""
    return {name: f"# Grid {spec.name}\n{text}" for name, text in _copytools(spec)}


def service_files(spec: GridSpec) -> Mapping[str, str]:
    """The units as files of the role."""
    return {f"roles/{ROLE}/files/{name}": text for name, text in carried_services(spec).items()}


def service_variables(spec: GridSpec) -> dict[str, list[str]]:
    """What the role is told: the units of carriers, without their endings."""
    units = [each.removesuffix(".service") for each in carried_services(spec)]
    return {"gridwright_repository_carried": units} if units else {}


def _copytools(spec: GridSpec) -> Iterator[tuple[str, str]]:
    for name, found in spec.repositories.items():
        if (archive := spec.hsm_archive(name)) is not None:
            directory = str(spec.repository_directory(name))
            more = ["--bucket", found.bucket, "--hsm-archive", str(archive)]
            yield from copytool_unit(name, directory, _command(spec, name, more), spec.region).items()


def _command(spec: GridSpec, name: str, more: Sequence[str]) -> list[str]:
    endpoint = spec.repositories[name].endpoint
    command = [PROGRAM, "repo", "serve", name, "--directory", str(spec.repository_directory(name)), *more]
    return [*command, *(["--endpoint", endpoint] if endpoint else [])]


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
