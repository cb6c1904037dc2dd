"""What a claim knows: records of the table, what EC2 and the machine answer, and problems between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol

from gridwright.node_programs.lustre_targets.device import Device
from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.lustre_targets.states import NEW
from gridwright.node_programs.lustre_targets.target import DesiredTarget
from gridwright.node_programs.scratch.problems import Trouble

# What is wrong with a claim, in the words of `scratch.problems`.


class LostError(ClaimError):
    """The slot has another owner now: the one before must stop."""

    def __init__(self, slot: str, instance: str) -> None:
        super().__init__(
            Trouble(
                f"{slot} does not belong to {instance} any more: its slot was claimed anew, so nothing "
                "further is done here, and nothing is unmounted",
                "look who has it: gridwright status; then terminate this instance, so that one machine is "
                f"{slot}",
            )
        )


@dataclass(frozen=True)
class VolumeRecord:
    """The record of a volume: its target and its state."""

    target: str
    state: str = NEW


@dataclass(frozen=True)
class Record:
    """The item of a slot."""

    slot: str
    owner: str
    """Instance that the machine is."""
    token: int
    """Rises with every change of owner."""
    volumes: Mapping[str, VolumeRecord] = field(default_factory=dict)
    """By volume ID."""
    interface: str = ""

    def with_volume(self, volume: str, kept: VolumeRecord) -> Record:
        """The record in which a volume is known; what was known of another one for its target is dropped."""
        others = {name: each for name, each in self.volumes.items() if each.target != kept.target}
        return replace(self, volumes={**others, volume: kept})


# What a claim asks of the cloud: the table, instances, volumes and network interfaces.

UNKNOWN = "unknown"
"""State of an instance that EC2 does not know: it forgets those that ended an hour ago."""
GONE = ("terminated", UNKNOWN)
"""States from which no instance comes back. One that is shutting down may still write."""


@dataclass(frozen=True)
class Volume:
    """A volume that is tagged for a slot."""

    id: str
    target: str
    state: str
    """As EC2 has it: creating, available, in-use, error."""
    instance: str = ""
    """To which it is attached, being attached or being detached."""
    attachment: str = ""
    """attaching, attached, detaching, busy; empty where it is attached to nothing."""
    device: str = ""


@dataclass(frozen=True)
class Interface:
    """A network interface that is tagged for a slot."""

    id: str
    mac: str
    address: str
    instance: str = ""
    attachment: str = ""


class Cloud(Protocol):
    """Every call ends in bounded time, and raises ClaimError where it fails."""

    def record(self, slot: str) -> Record | None:
        """The item of a slot, as it is at this moment."""

    def is_desired(self, slot: str) -> bool:
        """Whether the scheduler wants a slot on, of one that is powered."""

    def take(self, slot: str, over: Record | None, instance: str) -> Record | None:
        """Become the owner, if the item is still as `over` has it; None where somebody was faster."""

    def write(self, record: Record) -> None:
        """Write volumes and interface, if slot and token are still ours. Raises LostError."""

    def hold(self, record: Record) -> None:
        """Make sure that slot and token are still ours. Raises LostError."""

    def instances(self, names: Iterable[str]) -> Mapping[str, str]:
        """State of each instance."""

    def volumes(self, slot: str) -> tuple[Volume, ...]:
        """Volumes that are tagged for a slot."""

    def interfaces(self, slot: str) -> tuple[Interface, ...]:
        """Network interfaces that are tagged for a slot."""

    def attach_volume(self, volume: str, instance: str, device: str) -> None:
        """Begin to attach a volume that is available."""

    def attach_interface(self, interface: str, instance: str) -> None:
        """Begin to attach an interface that is available, as the second one."""


# What a claim asks of the machine that it runs on.


@dataclass(frozen=True)
class Identity:
    """What this machine has been named since it started."""

    name: str
    address: str
    token: int


class Machine(Protocol):
    """Every call ends in bounded time, and raises ClaimError where it fails."""

    def instance(self) -> str:
        """The ID of this instance."""

    def identity(self) -> Identity | None:
        """What it has been named since it started; None before."""

    def name(self, identity: Identity) -> None:
        """Remember who it is until it is switched off."""

    def link(self, mac: str) -> str | None:
        """The name of a network interface; None while the kernel has not found it."""

    def is_configured(self, link: str, address: str) -> bool:
        """Whether the interface is up with its address, and answers go out where questions came in."""

    def configure(self, link: str, mac: str, address: str) -> None:
        """Bring it up with its address, and route by source."""

    def missing(self) -> tuple[str, ...]:
        """Programs that a server of Lustre needs and that are not there."""

    def cannot_make(self, kind: str) -> str | None:
        """Why the tools cannot make a target of that kind, in their own words; None where they can."""

    def nids(self) -> tuple[str, ...]:
        """The addresses of Lustre's network; none while it is not up."""

    def start_network(self, link: str) -> None:
        """Bring Lustre's network up on an interface."""

    def reaches(self, nid: str) -> bool:
        """Whether the machine of a management server answers; whether one runs there, a mount shows."""

    def path(self, volume: str, name: str) -> str | None:
        """The device that a volume is; None while the kernel has not found it."""

    def device(self, path: str) -> Device:
        """What it holds, looked at without writing to it."""

    def unreadable(self, path: str) -> str | None:
        """What its tool says of a target that it cannot read; None where it was formatted to the end."""

    def format(self, path: str, target: DesiredTarget, mgs: str | None) -> None:
        """Make a target of it. What it held is lost."""

    def mounted(self, target: DesiredTarget) -> str | None:
        """What is mounted where the target belongs; None where nothing is."""

    def mount(self, path: str, target: DesiredTarget) -> None:
        """Start the target. Raises ManagementSilentError where nobody registers it."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def now(self) -> float:
        """Seconds of a clock that never goes back."""


# An observation of cloud and machine for one step.

_ASK_AGAIN_S = 5.0
"""A new instance can be unknown for a moment (EC2's answers are eventually consistent)."""


class Observation:
    """Reads a Cloud and a Machine, each fact once, when it is asked for; changes neither."""

    def __init__(self, cloud: Cloud, machine: Machine, instance: str) -> None:
        self._cloud, self._machine = cloud, machine
        self.instance = instance
        self.record = cache(cloud.record)
        self.is_desired = cache(cloud.is_desired)
        self.volumes = cache(cloud.volumes)
        self.interfaces = cache(cloud.interfaces)
        self.identity = cache(machine.identity)
        self.link = cache(machine.link)
        self.is_configured = cache(machine.is_configured)
        self.missing = cache(machine.missing)
        self.cannot_make = cache(machine.cannot_make)
        self.nids = cache(machine.nids)
        self.reaches = cache(machine.reaches)
        self.path = cache(machine.path)
        self.device = cache(machine.device)
        self.unreadable = cache(machine.unreadable)
        self.mounted = cache(machine.mounted)
        self._states = cache(self._looked_up)

    def owners(self, names: Iterable[str]) -> Mapping[str, str]:
        """State of instances; one that EC2 does not know is asked for twice."""
        return self._states(tuple(sorted(set(names))))

    def _looked_up(self, names: tuple[str, ...]) -> Mapping[str, str]:
        states = dict(self._cloud.instances(names))
        strange = [name for name, state in states.items() if state == UNKNOWN]
        if strange:
            self._machine.wait(_ASK_AGAIN_S)
            states.update(self._cloud.instances(strange))
        return states
