"""The configuration of a grid's Slurm, from its spec and the facts of its machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gridwright.errors import Finding, GridwrightError
from gridwright.schedulers.slurm.configuration import LOGS, SPOOL, slurm_configuration, state_location
from gridwright.schedulers.slurm.kind import KIND, SlurmSection
from gridwright.schedulers.slurm.node_facts import USABLE_PART, NodeFacts, node_facts
from gridwright.schedulers.slurm.site import LAB, OLDEST, Cgroups, Release, SlurmSite
from gridwright.schedulers.state_directory import state_directory
from gridwright.setup.playbook import SlurmPart
from gridwright.spec.lab import CONTROLLER
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class SlurmFiles:
    """Files by their path; everything is empty where the grid has no Slurm."""

    site: SlurmSite | None = None
    part: SlurmPart | None = None
    """What the playbook has to know of it."""
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    findings: Sequence[Finding] = ()


def slurm_files(
    spec: GridSpec, machine: NodeFacts | None, *, cgroups: Cgroups = Cgroups.V2, release: Release = OLDEST
) -> SlurmFiles:
    """The configuration; `machine` describes this machine, and need not be given for nodes of a cloud.

    Raises GridwrightError (status INPUT) for types that the catalogue does not know.
    """
    if not isinstance(spec.scheduler, SlurmSection):
        return SlurmFiles()
    site = slurm_site(spec, machine, cgroups=cgroups, release=release)
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


def slurm_site(spec: GridSpec, machine: NodeFacts | None, *, cgroups: Cgroups, release: Release) -> SlurmSite:
    """What the configuration of the grid's Slurm depends on."""
    if spec.is_bought:
        return SlurmSite(
            controller=CONTROLLER,
            nodes=node_facts(spec, _listed(spec)),
            state=state_directory(spec),
            release=release,
        )
    assert machine is not None  # noqa: S101 - the caller's contract
    nodes = node_facts(spec, dict.fromkeys(spec.nodes, machine))
    unnamed = len(nodes) == 1 and all(group.hosts is None for group in spec.nodes.values())
    site = SlurmSite(
        controller=machine.name,
        nodes=[replace(nodes[0], name=machine.name)] if unnamed else nodes,
        state=state_directory(spec),
        release=release,
        cgroups=cgroups,
    )
    if spec.provider != "lab":
        return site
    return replace(site, controller=CONTROLLER, nodes=nodes, systemd=False, declared=True, timing=LAB)


def _listed(spec: GridSpec) -> dict[str, NodeFacts]:
    """One node of each group, as the catalogue lists its type."""
    from gridwright.catalog import load_catalog

    catalog = load_catalog(spec.file.parent if spec.file else None)
    threads = spec.aws is None or spec.aws.hyperthreads
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
