"""The machines of a grid as schedulers know them: of types in a catalogue, or like this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gridwright.errors import Finding, GridwrightError
from gridwright.schedulers.machines import (
    USABLE_PART,
    CgroupVersion,
    GridMachines,
    NodeHardware,
    hardware_of_nodes,
)
from gridwright.setup.distributions import Distribution
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec

# The node that the scheduler of a grid runs on, where the provider makes one.

CONTROLLER = "controller"
"""Its name."""


# Findings about schedulers of grids in a cloud: nobody sets one up there, or its packages are lacking.


def nodes_without_jobs(spec: GridSpec, cloud: str) -> Iterator[Finding]:
    """Where the scheduler is this machine's own, or one that a site sets up; `cloud` is its name in words."""
    if spec.scheduler.runs_on_one_machine:
        yield Finding(
            "warning",
            "no-scheduler",
            f"the local scheduler is of the machine that Gridwright runs on: nodes on {cloud} get no jobs "
            "from it",
            "Write scheduler: {type: slurm}",
        )
    elif spec.scheduler.is_of_sites_alone:
        yield Finding(
            "warning",
            "no-scheduler",
            f"nothing sets scheduler {spec.scheduler.type} up on {cloud}: nodes get no jobs from it",
            "Write scheduler: {type: slurm}, or set it up on the nodes yourself",
        )


def scheduler_not_packaged(spec: GridSpec, found: Distribution | None) -> Iterator[Finding]:
    """Where the distribution of nodes lacks packages of the scheduler; None where only the image knows it."""
    if found is None or not spec.scheduler.needs_head_node or not lacks_scheduler(spec, found):
        return
    yield Finding(
        "warning",
        "no-scheduler-repository",
        f"{found.title} has no packages of the scheduler that fit, and no repository of the site is named: "
        "nodes come up only where their image has these packages",
        "Write setup: {variables: {slurm_repository: https://...}}, a dnf repository with Slurm and munge",
    )


def lacks_scheduler(spec: GridSpec, found: Distribution) -> bool:
    """Whether the site has to name a repository with the scheduler, and does not."""
    built = found.built
    return (
        built is not None and built.slurm.origin == "site" and "slurm_repository" not in spec.setup.variables
    )


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
