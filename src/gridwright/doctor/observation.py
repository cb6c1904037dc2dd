"""The observation of a grid: all that checks judge."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.doctor.facts.node_facts import MountFacts, NodeFacts
from gridwright.doctor.probes.findings import PairFindings
from gridwright.errors import Finding
from gridwright.filesystems.desired_layout import DesiredLayout
from gridwright.grid.nodes import Promised
from gridwright.schedulers.scheduler import SettingComparison
from gridwright.spec.machines import MachineGroup
from gridwright.spec.model import GridSpec, NodeGroup

_SHOWN = 6


@dataclass(frozen=True, slots=True)
class SearchedFiles:
    """What a search of the libraries on a file system found."""

    findings: Sequence[Finding]
    complete: bool
    """Whether it came to its end in every library."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the nodes of a grid, or this machine alone, told about themselves and each other."""

    spec: GridSpec | None
    facts: Mapping[str, NodeFacts]
    silent: Mapping[str, str]
    """Nodes that did not answer, and what there was instead."""
    clock_offsets_s: Mapping[str, float]
    """How far the clock of a node is from that of the machine which asked, as far as is certain."""
    down: Mapping[str, str] = field(default_factory=dict)
    """Nodes that the scheduler gives no jobs, and its word for why."""
    known: Collection[str] = ()
    """All nodes that were to be asked, whether they answered or not; empty for this machine alone."""
    asleep: Sequence[str] = ()
    """Nodes that are off until a job waits for them."""
    promised: Mapping[str, Promised] = field(default_factory=dict)
    scheduler_silent: str | None = None
    """Why the scheduler says nothing of nodes, where it does not answer."""
    scheduler_settings: Sequence[SettingComparison] = ()
    state_faults: Sequence[str] | None = None
    """What of the state directory is another user's; None where that was not looked at."""
    pairs: PairFindings | None = None
    """What pairs of nodes found of file systems that they share; None where they were not asked."""
    filesystems: Mapping[str, Sequence[Finding] | str] = field(default_factory=dict)
    """Of each file system whose servers were asked: what is wrong with it, or why they do not answer."""
    targets_away: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of each file system whose servers told of targets: the state of each that is not up."""
    servers_silent: Collection[str] = ()
    """File systems whose servers were asked and do not answer, so that all of it waits: findings say why."""
    searched: Mapping[str, SearchedFiles] = field(default_factory=dict)
    """Of each file system whose libraries were searched: what is wrong with files there."""
    wishes: Mapping[str, DesiredLayout] = field(default_factory=dict)
    """The layouts that libraries are to have, by name; of others the spec is asked."""
    refused_deletions: Mapping[str, Sequence[tuple[str, str]]] | None = None
    """Of each repository whose state this machine has: commands that refused a mass deletion, and why."""

    @property
    def several(self) -> bool:
        """Whether the grid has more than one node."""
        return len(self.facts) + len(self.silent) > 1

    @property
    def shares_one_kernel(self) -> bool:
        """Whether nodes are no machines of their own: kernel, clock and disks are those of this machine."""
        return self.spec is not None and not self.spec.provider_kind.has_own_kernels

    def filesystem_of(self, library: str) -> str:
        """The file system of a library; the library itself where the spec does not tell."""
        libraries = self.spec.libraries if self.spec else {}
        return next((each.filesystem for name, each in libraries.items() if name == library), library)

    def away(self, node: str, filesystem: str) -> str | None:
        """What of a file system a node does not reach, in words; None where it reaches all that is known.

        What hangs there, or fails as calls do where servers are gone, follows from that.
        """
        if filesystem in self.servers_silent:
            return "its servers do not answer"
        states = self.facts[node].targets_away.get(filesystem)
        if not states:
            return None
        shown = [f"{name} ({state})" for name, state in sorted(states.items())]
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        return f"targets are away: {', '.join(shown[:_SHOWN])}{more}"

    def away_below(self, node: str, mount: MountFacts) -> str | None:
        """The same of what is mounted somewhere, also a second time."""
        paths = {name: str(each.path) for name, each in self.spec.filesystems.items()} if self.spec else {}
        sources = {each.mount_point: each.source for each in self.facts[node].mounts or ()}
        names = [*self.facts[node].targets_away, *self.servers_silent]
        same = (name for name in names if sources.get(paths.get(name, name)) == mount.source)
        return next((found for name in same if (found := self.away(node, name))), None)

    def machine_group_of(self, node: str) -> MachineGroup | None:
        """The group of a machine beside the nodes, which runs no jobs; None for nodes."""
        groups = self.spec.machines.items() if self.spec is not None else ()
        return next((group for name, group in groups if node in group.machine_names(name)), None)

    def group_of(self, node: str) -> NodeGroup | None:
        """The group of the spec that a node is of, by the names that the spec gives, or by its own."""
        if self.spec is None:
            return None
        if self.spec.is_one_machine and len(self.spec.nodes) == 1:
            return next(iter(self.spec.nodes.values()))
        if self.machine_group_of(node) is not None:
            return None
        # A site's Slurm may know more nodes of a group than the grid has.
        return self.spec.group_of(node) or self.spec.nodes.get(node.rstrip("0123456789"))
