"""What a prediction says, in bytes per second and USD per hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gridwright.errors import Finding
from gridwright.filesystems.resources import Cost, Operation


@dataclass(frozen=True, slots=True)
class Bound:
    """A resource as a limit of a library's rate: `bytes_per_s` is what it alone would let through."""

    resource: str
    what: str
    bytes_per_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Burst:
    """What goes through while bursts last. `seconds` is None where no fact says how long that is."""

    bytes_per_s: float
    seconds: float | None
    bound_by: Bound


@dataclass(frozen=True, slots=True)
class Rates:
    """The rate of one library in one direction, all nodes at once.

    `bytes_per_s` lasts. `chain` has every limit from the tightest on: the first binds, the second is the
    next bottleneck. `burst` is None where nothing on the route bursts.
    """

    bytes_per_s: float
    bytes_per_s_per_node: float
    bytes_per_s_per_core: float
    chain: tuple[Bound, ...]
    burst: Burst | None

    @property
    def bound_by(self) -> Bound:
        """What binds."""
        return self.chain[0]

    @property
    def next_bound(self) -> Bound | None:
        """What would bind next, if the first were widened."""
        return self.chain[1] if len(self.chain) > 1 else None


@dataclass(frozen=True, slots=True)
class LibraryPrediction:
    """A library that is used alone, as iotest measures it. `met` is None where nothing is required."""

    library: str
    filesystem: str
    requires_bytes_per_s_per_core: float | None
    rates: Mapping[Operation, Rates]
    met: bool | None


@dataclass(frozen=True, slots=True)
class Together:
    """All libraries at once: the part of its required rate that the worst-served of them gets.

    `required_share` is the peak factor: libraries do not all peak together.
    """

    share: Mapping[Operation, float]
    bound_by: Mapping[Operation, Bound | None]
    required_share: float
    required_share_source: str

    @property
    def met(self) -> bool:
        """Whether both directions get their share."""
        return all(reaches(share, self.required_share) for share in self.share.values())


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a grid is predicted to deliver. `met` is None where nothing is required of it."""

    grid: str
    nodes: int
    cores: int
    streams_per_node: int
    libraries: tuple[LibraryPrediction, ...]
    together: Together | None
    costs: tuple[Cost, ...]
    usd_per_hour: float | None
    findings: tuple[Finding, ...]
    met: bool | None


def reaches(value: float, required: float) -> bool:
    """Whether a figure reaches what is required, but for rounding in its last digits."""
    return value >= required * (1 - 1e-9)
