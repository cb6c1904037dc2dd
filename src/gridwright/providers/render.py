"""All files of a grid that can be made before it exists, from its spec and the facts of its machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gridwright.errors import Finding
from gridwright.providers.lab.layout import Role, layout_of
from gridwright.providers.read_me import read_me
from gridwright.providers.slurm_files import slurm_files
from gridwright.schedulers.slurm.node_facts import NodeFacts
from gridwright.schedulers.slurm.site import OLDEST, Cgroups, Release, SlurmSite
from gridwright.setup.playbook import Hosts, playbook_files
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
    Raises GridwrightError (status INPUT) for types that the catalogue does not know, and for a grid on AWS
    that cannot be built as it is written.
    """
    if spec.provider == "aws":
        from gridwright.providers.aws.files import aws_files

        return Rendering(*aws_files(spec, release))
    slurm = slurm_files(spec, machine, cgroups=cgroups, release=release)
    hosts = _hosts(spec, machine.name, slurm.site)
    text = read_me(spec, slurm.site, list(slurm.files))
    files = {**slurm.files, **playbook_files(spec, hosts, slurm.part)}
    return Rendering({**files, "README.md": text}, slurm.findings, hosts)


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
