"""The configuration of a grid's Slurm, from its spec and the facts of its machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gridwright.errors import Finding, GridwrightError
from gridwright.providers.controller import CONTROLLER
from gridwright.schedulers.slurm.configuration import LOGS, SPOOL, slurm_configuration, state_location
from gridwright.schedulers.slurm.kind import KIND, SlurmSection
from gridwright.schedulers.slurm.node_facts import USABLE_PART, NodeFacts, node_facts
from gridwright.schedulers.slurm.site import Release, SlurmSite
from gridwright.schedulers.state_directory import state_directory
from gridwright.setup.playbook import SlurmPart
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec

if TYPE_CHECKING:
    from gridwright.providers.rendering import Machine


@dataclass(frozen=True, slots=True)
class SlurmFiles:
    """Files by their path; everything is empty where the grid has no Slurm."""

    site: SlurmSite | None = None
    part: SlurmPart | None = None
    """What the playbook has to know of it."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    findings: Sequence[Finding] = ()


def slurm_files(spec: GridSpec, site_of_grid: Callable[[], SlurmSite]) -> SlurmFiles:
    """The configuration; what it depends on is asked for only where the grid has a Slurm."""
    if not isinstance(spec.scheduler, SlurmSection):
        return SlurmFiles()
    site = site_of_grid()
    configuration = slurm_configuration(spec, site)
    files = {f"slurm/{name}": text for name, text in configuration.files.items()}
    return SlurmFiles(site, _part(spec, site), files, configuration.findings)


def _part(spec: GridSpec, site: SlurmSite) -> SlurmPart:
    controllers = [site.controller]
    if KIND.section(spec).backup_controller and site.backup not in controllers:
        controllers.append(site.backup)
    return SlurmPart(
        nodes=tuple(node.name for node in site.nodes),
        controllers=tuple(controllers),
        state=str(state_location(spec, site)),
        spool=str(SPOOL),
        logs=str(LOGS),
    )


def site_of_types(spec: GridSpec, release: Release, *, threads: bool = True) -> SlurmSite:
    """A Slurm on nodes of a cloud, as the catalogue lists their types; `threads`: whether theirs are used.

    Raises GridwrightError (INPUT) for types that the catalogue does not know.
    """
    return SlurmSite(
        controller=CONTROLLER,
        nodes=node_facts(spec, _listed(spec, threads=threads)),
        state=state_directory(spec),
        release=release,
    )


def site_of_machines(spec: GridSpec, machine: Machine, release: Release) -> SlurmSite:
    """A Slurm whose controller is this machine, and whose nodes are like it."""
    here = machine.facts
    nodes = node_facts(spec, dict.fromkeys(spec.nodes, here))
    if len(nodes) == 1 and not spec.names_hosts:
        nodes = [replace(nodes[0], name=here.name)]
    return SlurmSite(
        controller=here.name,
        nodes=nodes,
        state=state_directory(spec),
        release=release,
        cgroups=machine.cgroups,
    )


def _listed(spec: GridSpec, *, threads: bool) -> dict[str, NodeFacts]:
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
        listed[name] = NodeFacts(
            name=name,
            cores_per_socket=instance.cores,
            threads_per_core=max(1, instance.vcpus // instance.cores) if threads else 1,
            memory_bytes=int(instance.memory_bytes * USABLE_PART),
        )
    if problems:
        raise GridwrightError(*problems)
    return listed
