"""All files of a grid that can be made before it exists, from its spec and the facts of its machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridwright.errors import Finding
from gridwright.providers import provider_of
from gridwright.providers.read_me import read_me
from gridwright.schedulers import kind_of
from gridwright.schedulers.machines import CgroupVersion, NodeHardware
from gridwright.setup.playbook import Hosts, playbook_files
from gridwright.spec.model import GridSpec

if TYPE_CHECKING:
    from gridwright.providers.provider import Provider


@dataclass(frozen=True, slots=True)
class HostMachine:
    """The machine that Gridwright runs on: what it is as a node, and what its kernel has."""

    hardware: NodeHardware
    cgroups: CgroupVersion = CgroupVersion.V2


@dataclass(frozen=True, slots=True)
class Rendering:
    """Files by their path below the directory that they are written to."""

    files: Mapping[str, str | bytes]
    findings: Sequence[Finding]
    hosts: Hosts
    """The nodes that the playbook among the files is for."""


def render(
    spec: GridSpec,
    machine: NodeHardware,
    *,
    cgroups: CgroupVersion = CgroupVersion.V2,
    release: str | None = None,
) -> Rendering:
    """Every file that exists for this grid; see `Provider.render`. Raises GridwrightError.

    `release` is the one of its scheduler; None: the oldest that is known.
    """
    return provider_of(spec).render(spec, HostMachine(machine, cgroups), release)


def render_playbook(
    provider: Provider, spec: GridSpec, machine: HostMachine, release: str | None
) -> Rendering:
    """The playbook, the files of the scheduler, and README.md: all there is where nodes are there already.

    Raises GridwrightError (INPUT) for types that the catalogue does not know.
    """
    setup = kind_of(spec.scheduler).setup(spec, lambda: provider.machines(spec, machine), release)
    hosts = provider.hosts(spec, machine.hardware.name)
    text = read_me(spec, setup, provider.notes(spec, setup))
    files = {**setup.files, **playbook_files(spec, hosts, setup)}
    return Rendering({**files, "README.md": text}, setup.findings, hosts)
