"""The steps of a claim; each does one thing, and its text is said when it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from gridwright.node_programs.lustre_targets.target import DesiredTarget
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.configuration import Slot
from gridwright.providers.aws.claim.machine import Identity
from gridwright.providers.aws.claim.records import Record


@dataclass(frozen=True)
class Take:
    """Become the owner of a slot."""

    slot: Slot
    over: Record | None

    def __str__(self) -> str:
        after = f", after {self.over.owner}, which is gone" if self.over else ""
        return f"take slot {self.slot.name}{after}"


@dataclass(frozen=True)
class Write:
    """Write down what was found, or what is about to be done."""

    record: Record
    why: str

    def __str__(self) -> str:
        return f"write down: {self.why}"


@dataclass(frozen=True)
class AttachInterface:
    """Attach the interface that has the machine's address."""

    record: Record
    interface: str

    def __str__(self) -> str:
        return f"attach network interface {self.interface}"


@dataclass(frozen=True)
class Configure:
    """Bring the second interface up."""

    link: str
    mac: str
    address: str

    def __str__(self) -> str:
        return f"give {self.link} the address {self.address}, with routes of its own"


@dataclass(frozen=True)
class Name:
    """Say who this machine is."""

    identity: Identity

    def __str__(self) -> str:
        return f"this machine is {self.identity.name}, {self.identity.address} (token {self.identity.token})"


@dataclass(frozen=True)
class AttachVolume:
    """Attach the volume of a target."""

    record: Record
    volume: str
    target: str
    device: str

    def __str__(self) -> str:
        return f"attach volume {self.volume} with {self.target} as {self.device}"


@dataclass(frozen=True)
class StartNetwork:
    """Bring Lustre's network up."""

    link: str

    def __str__(self) -> str:
        return f"bring Lustre's network up on {self.link}"


@dataclass(frozen=True)
class Format:
    """Make a target of a blank volume."""

    record: Record
    path: str
    target: DesiredTarget

    def __str__(self) -> str:
        return f"format {self.path} as {self.target.name}"


@dataclass(frozen=True)
class Wait:
    """Look again in a moment; `trouble` is what is wrong if the wait lasts longer than `limit_s`."""

    what: str
    trouble: Trouble
    limit_s: float

    def __str__(self) -> str:
        return f"wait for at most {self.limit_s:.0f} s: {self.trouble.what}"


@dataclass(frozen=True)
class Mount:
    """Start a target."""

    record: Record
    path: str
    target: DesiredTarget
    wait: Wait | None = None
    """What to wait for where no management server registers it; None where it needs none."""

    def __str__(self) -> str:
        return f"mount {self.path} with {self.target.name} on {self.target.mount}"


@dataclass(frozen=True)
class Done:
    """Nothing is left to do."""

    name: str

    def __str__(self) -> str:
        return f"this machine is {self.name}, and has all that belongs to it"


Step = Union[  # noqa: UP007 - 3.9
    Take, Write, AttachInterface, Configure, Name, AttachVolume, StartNetwork, Format, Mount, Wait, Done
]
