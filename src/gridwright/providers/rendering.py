"""All files of a grid that can be made before it exists, from its spec and the facts of its machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridwright.errors import Finding
from gridwright.providers import provider_of
from gridwright.providers.read_me import read_me
from gridwright.providers.slurm_files import slurm_files
from gridwright.schedulers.slurm.node_facts import NodeFacts
from gridwright.schedulers.slurm.site import OLDEST, Cgroups, Release
from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.spec.model import GridSpec

if TYPE_CHECKING:
    from gridwright.providers.provider import Provider


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that Gridwright runs on: what it is as a node, and what its kernel has."""

    facts: NodeFacts
    cgroups: Cgroups = Cgroups.V2


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
    """Every file that exists for this grid; see `Provider.render`. Raises GridwrightError."""
    return provider_of(spec).render(spec, Machine(machine, cgroups), release)


def render_playbook(provider: Provider, spec: GridSpec, machine: Machine, release: Release) -> Rendering:
    """The playbook, the configuration of Slurm, and README.md: all there is where nodes are there already.

    Raises GridwrightError (INPUT) for types that the catalogue does not know.
    """
    slurm = slurm_files(spec, lambda: provider.slurm_site(spec, machine, release))
    hosts = provider.hosts(spec, machine.facts.name, slurm.site)
    text = read_me(spec, slurm.site, list(slurm.files), provider.notes(spec, slurm.site))
    files = {**slurm.files, **playbook_files(spec, hosts, slurm.part)}
    return Rendering({**files, "README.md": text}, slurm.findings, hosts)
