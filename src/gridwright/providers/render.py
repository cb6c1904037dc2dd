"""All files of a grid that can be made before it exists, from its spec and the facts of its machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.errors import Finding, GridwrightError
from gridwright.grid.slurm.configuration import LOGS, SPOOL, slurm_configuration, state_location
from gridwright.grid.slurm.node_facts import USABLE_PART, NodeFacts, node_facts
from gridwright.grid.slurm.site import LAB, OLDEST, Cgroups, Release, SlurmSite
from gridwright.grid.state_directory import state_directory
from gridwright.nodes.playbook import Hosts, SlurmPart, playbook_files
from gridwright.providers.lab.layout import Role, layout_of
from gridwright.providers.read_me import read_me
from gridwright.spec.lab import CONTROLLER
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class Rendering:
    """Files by their path below the directory that they are written to."""

    files: Mapping[str, str | bytes]
    findings: Sequence[Finding]
    hosts: Hosts
    """The nodes that the playbook among the files is for."""


def render(
    spec: GridSpec, machine: NodeFacts, *, cgroups: Cgroups = Cgroups.V2, release: Release = OLDEST
) -> Rendering:
    """Every file that exists for this grid; the same arguments give the same bytes.

    `machine` describes this machine, and `cgroups` what it has; nodes of a cloud are looked up in the
    catalogue.
    Raises GridwrightError (status INPUT) for types that the catalogue does not know.
    """
    files: dict[str, str | bytes] = {}
    findings: Sequence[Finding] = ()
    site: SlurmSite | None = None
    if spec.scheduler.type == "slurm":
        site = slurm_site(spec, machine, cgroups=cgroups, release=release)
        configuration = slurm_configuration(spec, site)
        files = {f"slurm/{name}": text for name, text in configuration.files.items()}
        findings = configuration.findings
    text = read_me(spec, site, list(files))
    hosts = _hosts(spec, machine.name, site)
    files |= playbook_files(spec, hosts, _slurm_part(spec, site))
    return Rendering({**files, "README.md": text}, findings, hosts)


def _hosts(spec: GridSpec, machine: str, site: SlurmSite | None) -> Hosts:
    """The nodes of a grid by what they are there for; `machine` is the name of this one.

    Servers of file systems are not among them, but for those of a lab: sites have their own names for them.
    """
    if spec.provider == "lab":
        layout = layout_of(spec)
        of = {role: [node.name for node in layout.of_role(role)] for role in Role}
        return Hosts.named(compute=of[Role.COMPUTE], storage=of[Role.STORAGE], head=of[Role.CONTROLLER])
    named = any(group.hosts is not None for group in spec.nodes.values())
    if spec.is_one_machine or (spec.provider == "local" and not named and spec.node_count() == 1):
        return Hosts.this_machine(machine)
    compute = [node for name, group in spec.nodes.items() for node in group.node_names(name)]
    return Hosts.named(compute=compute, head=[site.controller] if site and spec.is_bought else [])


def _slurm_part(spec: GridSpec, site: SlurmSite | None) -> SlurmPart | None:
    if site is None:
        return None
    controllers = [site.controller]
    if spec.scheduler.backup_controller and site.backup not in controllers:
        controllers.append(site.backup)
    return SlurmPart(
        nodes=tuple(node.name for node in site.nodes),
        controllers=tuple(controllers),
        state=str(state_location(spec, site)),
        spool=str(SPOOL),
        logs=str(LOGS),
    )


def slurm_site(spec: GridSpec, machine: NodeFacts, *, cgroups: Cgroups, release: Release) -> SlurmSite:
    """What the configuration of the grid's Slurm depends on."""
    if spec.is_bought:
        return SlurmSite(
            controller=CONTROLLER,
            nodes=node_facts(spec, _listed(spec)),
            state=state_directory(spec),
            release=release,
        )
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
            threads_per_core=max(1, instance.vcpus // instance.cores),
            memory_bytes=int(instance.memory_bytes * USABLE_PART),
        )
    if problems:
        raise GridwrightError(*problems)
    return listed
