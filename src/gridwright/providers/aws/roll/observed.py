"""What is seen of a grid before it is decided what is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridwright.node_programs.drain.queue import QueueNode

FAILED_TRIES = 3
"""After so many tries a machine counts as one that cannot be set up, though it goes on trying."""


@dataclass(frozen=True)
class GroupInstance:
    """An instance of a group."""

    id: str
    outdated: bool
    """Whether it was launched with another version of the launch template than the group has."""
    in_service: bool = True
    """Whether Auto Scaling counts it; what starts and what ends is not."""


@dataclass(frozen=True)
class SeenGroup:
    """An Auto Scaling group."""

    name: str
    servers: bool
    desired: int
    instances: tuple[GroupInstance, ...] = ()
    machines: tuple[str, ...] = ()
    """Names of the machines that they can be."""
    jobs: bool = True
    """Whether they are nodes of the scheduler."""

    @property
    def outdated(self) -> tuple[GroupInstance, ...]:
        """Those that are to be replaced."""
        return tuple(each for each in self.instances if each.outdated and each.in_service)

    @property
    def fresh(self) -> tuple[GroupInstance, ...]:
        """Those that are what the group launches now, also while they start."""
        return tuple(each for each in self.instances if not each.outdated)


@dataclass(frozen=True)
class SetUp:
    """What an instance told last of how it set itself up."""

    state: str
    """running, done or failed."""
    tries: int = 1
    reason: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether it is not going to work by itself."""
        return self.state == "failed" and self.tries >= FAILED_TRIES


@dataclass(frozen=True)
class SeenGrid:
    """All that is seen at one moment."""

    groups: tuple[SeenGroup, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    """Name of the machine that an instance is, by the table of claims."""
    set_up: Mapping[str, SetUp] = field(default_factory=dict)
    """By instance."""
    has_queue: bool = False
    queue: Mapping[str, QueueNode] | None = None
    """Nodes as Slurm has them; None where it does not answer, or where the grid has none."""
    unserved: str = ""
    """Which targets of Lustre a client misses, in words; empty where it has all."""
    now: float = 0.0
    """By the clock of this machine, in seconds since 1970."""

    def name(self, instance: GroupInstance) -> str:
        """As people know it."""
        return self.names.get(instance.id) or instance.id

    def is_done(self, instance: GroupInstance) -> bool:
        """Whether it has told that it is set up."""
        told = self.set_up.get(instance.id)
        return told is not None and told.state == "done"

    def progress(self, instance: GroupInstance) -> str:
        """How it sets itself up, in words that follow its name."""
        told = self.set_up.get(instance.id)
        return "has told nothing yet" if told is None else f"sets itself up: {told.state}, try {told.tries}"

    def node(self, instance: GroupInstance) -> QueueNode | None:
        """The node that it is to Slurm."""
        name = self.names.get(instance.id)
        return self.queue.get(name) if self.queue is not None and name else None


@dataclass(frozen=True)
class Due:
    """What is due, in the order of the fields, and how far it all is."""

    resume: tuple[str, ...] = ()
    """Nodes that Slurm is to use again."""
    end_on: tuple[str, ...] = ()
    """Nodes whose jobs have had the time that the spec gives them."""
    drain: tuple[str, ...] = ()
    terminate: tuple[str, ...] = ()
    """Instances that their group replaces."""
    standing: tuple[Standing, ...] = ()

    @property
    def halted(self) -> bool:
        """Whether something has to be mended before it goes on."""
        return any(each.halted for each in self.standing)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be replaced, now or later."""
        return all(each.left == 0 for each in self.standing)


@dataclass(frozen=True)
class Standing:
    """How far a group is."""

    group: str
    total: int
    left: int
    """Machines that are still to be replaced, or that were and are not at work yet."""
    halted: str = ""
    """What has to be mended, in words."""
    waits: tuple[str, ...] = ()
    """What it waits for, in words."""
    kept: int = 0
    """Of those that are left, how many somebody drained for another reason: nobody waits for these."""
