"""The results of up, status and down of a grid on AWS: plain values; nothing here calls AWS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gridwright.providers.aws.changes import FieldChange, ResourceChange
from gridwright.providers.aws.cost_lines import CostLine, total

Standing = Literal["up", "not-up", "storage-only", "half-made"]
"""storage-only: file systems are kept, and no machine runs; half-made: a stack is not whole."""


@dataclass(frozen=True, slots=True)
class MachineStatus:
    """A machine of the layout, and the instance that is it."""

    name: str
    role: str
    type: str
    address: str
    instance: str | None
    state: str
    """EC2's state, or missing."""
    public_address: str | None = None

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.state == "running"


@dataclass(frozen=True, slots=True)
class Claim:
    """Which instance is a server or node, by the table of claims."""

    name: str
    owner: str | None
    volumes: tuple[str, ...]
    token: int


@dataclass(frozen=True, slots=True)
class FileSystemStatus:
    """A file system."""

    name: str
    type: str
    id: str | None
    state: str
    lacking: str | None
    """What is wrong with it; None where nothing is."""
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class StackStatus:
    """A stack; state is None where there is none."""

    name: str
    state: str | None
    reason: str | None
    remedy: str | None
    """What to do where it is not whole."""


@dataclass(frozen=True, slots=True)
class AwsStatus:
    """A grid on AWS."""

    grid: str
    region: str
    state: Standing
    stacks: tuple[StackStatus, ...] = ()
    machines: tuple[MachineStatus, ...] = ()
    filesystems: tuple[FileSystemStatus, ...] = ()
    costs: tuple[CostLine, ...] = ()
    """Of what is there now."""
    hours: float = 0.0
    """Since the grid stack was made."""
    usd_so_far: float | None = None
    expires: str | None = None
    expired: bool = False
    kept: tuple[str, ...] = ()
    """What was replaced and is kept, and billed."""

    @property
    def whole(self) -> bool:
        """Whether everything is there and well."""
        return (
            self.state in ("up", "storage-only")
            and all(each.remedy is None for each in self.stacks)
            and all(each.running for each in self.machines)
            and all(each.lacking is None for each in self.filesystems)
        )

    @property
    def usd_per_hour(self) -> float | None:
        """The sum of the lines; None where a price is missing."""
        return total(self.costs)

    def document(self) -> dict[str, Any]:
        """See Result."""
        from gridwright.providers.aws.printed import status_document

        return status_document(self)

    def text(self) -> str:
        """See Result."""
        from gridwright.providers.aws.printed import status_text

        return status_text(self)


@dataclass(frozen=True, slots=True)
class AwsUp:
    """What `up` did."""

    grid: str
    region: str
    made: bool
    """Whether it was not there before."""
    fields: tuple[FieldChange, ...]
    resources: tuple[ResourceChange, ...]
    machines: tuple[MachineStatus, ...]
    costs: tuple[CostLine, ...]
    kept: tuple[str, ...]
    """What was replaced and is kept, and billed."""
    user: str | None
    """Who logs in by ssh, where a key pair lets administrators in."""
    seconds: float
    file: str = ""
    """The grid spec as the user named it."""

    @property
    def changed(self) -> bool:
        """Whether anything was made or changed."""
        return self.made or bool(self.resources)

    def document(self) -> dict[str, Any]:
        """See Result."""
        from gridwright.providers.aws.printed import up_document

        return up_document(self)

    def text(self) -> str:
        """See Result."""
        from gridwright.providers.aws.printed import up_lines

        return "\n".join(up_lines(self))


@dataclass(frozen=True, slots=True)
class DownPlan:
    """What `down` would remove, and what it would keep."""

    grid: str
    there: bool
    """Whether there is anything."""
    goes: tuple[str, ...]
    stays: tuple[str, ...]
    staying_usd_per_hour: float | None


@dataclass(frozen=True, slots=True)
class AwsDown:
    """What `down` did."""

    grid: str
    region: str
    was_up: bool
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    kept_usd_per_hour: float | None

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "region": self.region,
            "was_up": self.was_up,
            "removed": list(self.removed),
            "kept": list(self.kept),
            "kept_usd_per_hour": self.kept_usd_per_hour if self.kept else 0.0,
            "left": [],
        }

    def text(self) -> str:
        """See Result."""
        from gridwright.providers.aws.printed import down_lines

        return "\n".join(down_lines(self))
