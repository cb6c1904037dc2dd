"""What a claim asks of the machine that it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gridwright.node_programs.lustre_targets.device import Device
from gridwright.node_programs.lustre_targets.target import DesiredTarget


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

    def cannot_format(self, kind: str) -> str | None:
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
