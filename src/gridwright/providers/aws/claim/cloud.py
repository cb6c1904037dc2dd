"""What a claim asks of the cloud: the table, instances, volumes and network interfaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gridwright.providers.aws.claim.records import Record

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
