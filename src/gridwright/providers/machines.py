"""The machines of a grid as schedulers know them: of types in a catalogue, or like this machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridwright.errors import GridwrightError
from gridwright.providers.controller import CONTROLLER
from gridwright.schedulers.machines import (
    USABLE_PART,
    CgroupVersion,
    GridMachines,
    NodeHardware,
    hardware_of_nodes,
)
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class HostMachine:
    """The machine that Gridwright runs on: what it is as a node, and what its kernel has."""

    hardware: NodeHardware
    cgroups: CgroupVersion = CgroupVersion.V2


def machines_of_types(spec: GridSpec, *, threads: bool = True) -> GridMachines:
    """Nodes of a cloud, as the catalogue lists their types; `threads`: whether theirs are used.

    Raises GridwrightError (INPUT) for types that the catalogue does not know.
    """
    nodes = hardware_of_nodes(spec, _listed(spec, threads=threads))
    return GridMachines(controller=CONTROLLER, nodes=nodes)


def machines_like(spec: GridSpec, machine: HostMachine) -> GridMachines:
    """Nodes that are like this machine, which is their controller."""
    here = machine.hardware
    nodes = hardware_of_nodes(spec, dict.fromkeys(spec.nodes, here))
    if len(nodes) == 1 and not spec.names_hosts:
        nodes = [replace(nodes[0], name=here.name)]
    return GridMachines(controller=here.name, nodes=nodes, cgroups=machine.cgroups)


def _listed(spec: GridSpec, *, threads: bool) -> dict[str, NodeHardware]:
    """One node of each group, as the catalogue lists its type."""
    from gridwright.catalog import load_catalog

    catalog = load_catalog(spec.file.parent if spec.file else None)
    listed, problems = {}, []
    for name, group in spec.nodes.items():
        try:
            instance = catalog.instance(group.instance or "", spec.provider)
        except GridwrightError as error:
            problems += [
                problem_at(spec, ("nodes", name, "instance"), each.what, each.remedy or "")
                for each in error.problems
            ]
            continue
        listed[name] = NodeHardware(
            name=name,
            cores_per_socket=instance.cores,
            threads_per_core=max(1, instance.vcpus // instance.cores) if threads else 1,
            memory_bytes=int(instance.memory_bytes * USABLE_PART),
        )
    if problems:
        raise GridwrightError(*problems)
    return listed
