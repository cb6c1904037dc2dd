"""What a prediction is made of: resources with capacities, the routes of libraries over them, and losses.

Every kind of file system contributes its own (`contribute` in its module); `gridwright.model` puts them
together with those of the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gridwright.catalog.facts import Doubt, doubts_in
from gridwright.errors import Finding
from gridwright.filesystems.allocation import TargetSpace, candidates

Operation = Literal["write", "read"]
OPERATIONS: tuple[Operation, ...] = ("write", "read")
Scope = Literal["node", "grid"]
Nature = Literal["network", "volume", "instance store", "server", "stated"]
"""What a limit is one of, as predictions of each are off by more or less: the network of a node, volumes
and the way to them, an instance store, servers of a file system or a managed one; `stated` by the grid spec
or by a measurement."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Something with a capacity that flows share.

    `name` is stable and tells resources apart (`fsx.throughput`), `what` is for people. With scope
    node every compute node has one, and `bytes_per_s` is that of one node. `bytes_per_s` lasts;
    `burst_bytes_per_s` is what it delivers for a while, None where it has no burst, and `burst_s` how
    long, None where no fact says so. What that spends comes back at the rate that is not used below
    `bytes_per_s`, and takes `refill_s` at least where that is published. `source` says where the capacity
    comes from, `nature` what it is one of.
    """

    name: str
    what: str
    scope: Scope
    bytes_per_s: float
    source: str
    burst_bytes_per_s: float | None = None
    burst_s: float | None = None
    nature: Nature = "stated"
    refill_s: float | None = None

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What the source marks the capacity with."""
        return doubts_in(self.source)

    @property
    def highest_bytes_per_s(self) -> float:
        """What it delivers at its best: the burst where there is one."""
        return max(self.bytes_per_s, self.burst_bytes_per_s or 0.0)


@dataclass(frozen=True, slots=True)
class Use:
    """A resource on a route: `coefficient` bytes of it are taken by each byte that flows."""

    resource: Resource
    coefficient: float = 1.0


@dataclass(frozen=True, slots=True)
class Route:
    """What each byte that a library's stream moves passes through.

    `stream_bytes_per_s` is the most one stream can move whatever is free, infinite where nothing limits
    it; `stream_limit` says in words what that limit is. `over` is there where each stream has a file on some
    of several targets: where files of many streams lie on the same ones, all wait for these.
    """

    uses: tuple[Use, ...]
    stream_bytes_per_s: float = math.inf
    stream_limit: str = ""
    over: Striping | None = None


@dataclass(frozen=True, slots=True)
class Striping:
    """Over how many of how many targets each file lies."""

    stripes: int
    targets: int
    space: tuple[TargetSpace, ...] | None = None
    """The free space of each target; None where all have as much."""


def striped(
    uses: tuple[Use, ...],
    stripe_count: int,
    targets: int,
    target_bytes_per_s: float,
    files: str,
    space: tuple[TargetSpace, ...] | None = None,
) -> Route:
    """The route of files striped over `stripe_count` targets; below 1 means all of them, as with Lustre.

    A stream moves one file, so it gets no more than the targets of that file deliver. `files` says which
    files these are, `space` which targets take new ones.
    """
    there = targets if space is None else len(candidates(space))
    width = there if stripe_count < 1 else min(stripe_count, there)
    if width == targets:
        return Route(uses)
    what = f"{width} target{'s'[: width != 1]} of {files} (stripe_count {stripe_count})"
    return Route(uses, width * target_bytes_per_s, what, Striping(width, targets, space))


@dataclass(frozen=True, slots=True)
class Cost:
    """One line of the bill, in USD per hour; None where no price is known.

    `instance` is the type whose hours it pays for, empty for all else. `may_be_spot`: the grid goes on when
    these are taken away at short notice.
    """

    what: str
    usd_per_hour: float | None
    instance: str = ""
    may_be_spot: bool = False


@dataclass(frozen=True, slots=True)
class PublishedMix:
    """What was published of reads and writes at once, in bytes/s."""

    read_bytes_per_s: float
    write_bytes_per_s: float
    source: str


@dataclass(frozen=True, slots=True)
class ServiceTerms:
    """What is asked of a managed file system beside its rates.

    `reads` is the part of all bytes that is read where reads and writes at once are predicted; `published` is
    what was published of such a mix. `metadata_latency_s` is what one metadata operation takes,
    `metadata_per_s` how many it takes from all nodes; None where nobody says so.
    """

    what: str
    reads: float
    published: PublishedMix | None = None
    metadata_latency_s: float | None = None
    metadata_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a file system brings into a prediction.

    `routes` is empty where nothing is known about its rates; `unknown` then says what is missing.
    `capacity_bytes` is None where the size is not known. `outlives_server`: its data are still there
    after one of its servers was lost; `outlives_node`: after a compute node was. `service` is there for a
    managed file system alone.
    """

    routes: Mapping[Operation, Route]
    costs: tuple[Cost, ...] = ()
    capacity_bytes: int | None = None
    outlives_server: bool = True
    outlives_node: bool = True
    unknown: str = ""
    targets: int = 0
    """Targets that its files are spread over; 0 where nobody says how many."""
    target_bytes_per_s: Mapping[Operation, float] = field(default_factory=dict)
    """What one target delivers of files, lasting; empty where nobody says."""
    space: tuple[TargetSpace, ...] | None = None
    """The free space of each target, where somebody looked; None where all are taken to have as much."""
    stripes: int = -1
    """Over how many of them a large file lies; below 1 for all. `gridwright.model` sets it by library."""
    service: ServiceTerms | None = None
    findings: tuple[Finding, ...] = ()
    """What a prediction says of it beside rates."""


Fate = Literal["kept", "unavailable", "lost"]
"""What becomes of files that a dead part holds: nothing; they come back with the part; they are gone."""
Sort = Literal["server", "target", "node"]


@dataclass(frozen=True, slots=True)
class PartGroup:
    """Servers or targets of a file system that are alike: `oss` and 2 are oss1 and oss2."""

    role: str
    sort: Sort
    count: int

    @property
    def names(self) -> list[str]:
        """The name of each, counted from 1."""
        return [f"{self.role}{number}" for number in range(1, self.count + 1)]


@dataclass(frozen=True, slots=True)
class DeadPart:
    """One part that is dead: the `number` of its role, from 1 on."""

    role: str
    number: int


@dataclass(frozen=True, slots=True)
class DegradedRates:
    """What is left of a file system.

    `rate_part` is the part of its rates that is left for what can be reached, from 0 to 1, and of its room,
    where `room_part` does not say otherwise.
    `fate` is what becomes of the files that the dead parts hold, and `files_part` how many of all files
    these are, from 0 to 1. `words` say why, in a sentence.
    """

    rate_part: float
    fate: Fate
    files_part: float
    words: str
    room_part: float | None = None

    @property
    def room(self) -> float:
        """The part of its room that is left."""
        return self.rate_part if self.room_part is None else self.room_part


def affected_files_part(targets: int, stripes: int, dead: int) -> float:
    """The part of all files that have a stripe on one of `dead` targets out of `targets`.

    Each file lies on `stripes` different targets; below 1 means all of them. Every choice of targets is taken
    to be as frequent as any other, as an even allocation makes it: the rest is the hypergeometric chance
    to meet none of the dead.
    """
    each = targets if stripes < 1 else min(stripes, targets)
    choices = math.comb(targets, each)
    return (choices - math.comb(targets - dead, each)) / choices
