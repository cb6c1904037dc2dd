"""The program that the head node runs for powered nodes: package `power` as one file, and what it reads."""

from __future__ import annotations

from typing import Any

from gridwright.node_programs.one_file import one_file, unit_of
from gridwright.providers.aws.names import claims_table
from gridwright.providers.aws.power.configuration import SCHEMA
from gridwright.spec.model import GridSpec

UNIT = "gridwright-power.service"
_PACKAGE = "gridwright.providers.aws.power"
_OTHERS = ("gridwright.node_programs.power", "gridwright.node_programs.scratch")


def build_zipapp() -> bytes:
    """The program, the same bytes for the same sources."""
    return one_file(_PACKAGE, "what powers nodes on and off", _OTHERS)


def unit_file() -> str:
    """The systemd unit that runs it."""
    return unit_of(_PACKAGE)


def power_configuration(spec: GridSpec) -> dict[str, Any]:
    """What the program reads; its groups are those with powered nodes."""
    groups = []
    for name, group in spec.nodes.items():
        if powered := group.powered_names(name):
            always_on = [each for each in group.node_names(name) if each not in set(powered)]
            known = {"name": name, "instance": group.instance, "always_on": always_on, "powered": powered}
            groups.append(known)
    return {
        "schema": SCHEMA,
        "grid": spec.name,
        "region": spec.region,
        "table": claims_table(spec),
        "groups": groups,
    }
