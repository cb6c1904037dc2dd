"""The program that replaces machines of a grid: package `roll` as one file, its unit, and what it is told."""

from __future__ import annotations

import json

from gridwright.node_programs.one_file import DIRECTORY, one_file, unit_of
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.aws.names import claims_table, group_name
from gridwright.spec.model import GridSpec

PROGRAM = DIRECTORY / "roll.pyz"
"""Where the machine has it that runs it."""
UNIT = "gridwright-roll.service"
_PACKAGE = "gridwright.providers.aws.roll"
_ORDER = (Role.OSS, Role.MDS, Role.MGS, Role.COMPUTE, Role.MACHINE)
"""A metadata server stops a whole file system while it is away: the others show first that it goes well."""


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources."""
    others = [f"gridwright.node_programs.{each}" for each in ("drain", "health", "scratch")]
    return one_file(_PACKAGE, "what replaces machines", others)


def unit_file() -> str:
    """The systemd unit that runs it once."""
    return unit_of(_PACKAGE)


def roller(layout: AwsLayout) -> Machine | None:
    """The machine that runs it: the head node, else the login node; None where no group replaces anything."""
    if not any(each.replaced for each in layout.machines):
        return None
    return next(iter((*layout.of_role(Role.HEAD), *layout.of_role(Role.LOGIN))), None)


def roll_file(spec: GridSpec, layout: AwsLayout, directory: str) -> str:
    """What it is told; `directory` is where the scheduler has its configuration, empty for one without."""
    groups: dict[str, list[Machine]] = {}
    for machine in sorted(layout.machines, key=lambda each: _ORDER.index(each.role) if each.replaced else -1):
        if machine.replaced:
            name = group_name(spec.name, machine.group, str(machine.role), serves=machine.role.serves_lustre)
            groups.setdefault(name, []).append(machine)
    limit = layout.aws.drain_limit
    content = {
        "schema": 1,
        "grid": spec.name,
        "region": spec.region,
        "table": claims_table(spec),
        "groups": [
            {
                "name": name,
                "servers": machines[0].role.serves_lustre,
                "jobs": machines[0].role is Role.COMPUTE,
                "machines": [each.name for each in machines],
                "targets": [one.name for each in machines for one in each.targets],
            }
            for name, machines in groups.items()
        ],
        "slurm_conf": f"{directory}/slurm.conf" if directory else None,
        "drain_limit_seconds": None if limit is None else limit,
    }
    return json.dumps(content, indent=2) + "\n"
