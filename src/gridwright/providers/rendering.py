"""All files of a grid that can be made before it exists, from its spec and the facts of its machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.errors import Finding
from gridwright.model.layouts import library_layouts
from gridwright.providers.read_me import Notes, read_me
from gridwright.schedulers.set_up import SchedulerSetup
from gridwright.setup.playbook import Hosts, Provided, playbook_files
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class Rendering:
    """Files by their path below the directory that they are written to."""

    files: Mapping[str, str | bytes]
    findings: Sequence[Finding]
    hosts: Hosts
    """The nodes that the playbook among the files is for."""


def render_playbook(
    spec: GridSpec, setup: SchedulerSetup, hosts: Hosts, notes: Notes, provided: Provided | None = None
) -> Rendering:
    """The playbook, the files of the scheduler, and README.md: all there is where nodes are there already.

    `provided` is what the provider knows beside the spec.
    """
    known = replace(provided or Provided(), layouts=library_layouts(spec))
    playbook = playbook_files(spec, hosts, setup, known)
    files = {**setup.files, **playbook, "README.md": read_me(spec, setup, notes)}
    return Rendering(files, setup.findings, hosts)
