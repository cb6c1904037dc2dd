"""Units of systemd that export and import the repositories of a grid, on the machine that carries them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gridwright.spec.linked import users_file
from gridwright.spec.model import GridSpec
from gridwright.spec.repository import Schedule

PROGRAM = "/usr/local/bin/gridwright"
"""Stands in the units; the role puts its variable `repository_program` there."""
ROLE = "repository"
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


def role_files(spec: GridSpec) -> Mapping[str, str]:
    """The units as files of the role."""
    return {f"roles/{ROLE}/files/{name}": text for name, text in repository_units(spec).items()}


def timers(spec: GridSpec) -> list[str]:
    """What the role is told: the units to have, without their endings."""
    return [name.removesuffix(".timer") for name in repository_units(spec) if name.endswith(".timer")]


def quoted(argument: str) -> str:
    """An argument as a line of a unit has it (systemd.service(5), systemd.syntax(7), systemd.unit(5))."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    has_more = any(each in argument for each in " \t'\"\\;")
    return f'"{escaped}"' if has_more or not argument else escaped


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
