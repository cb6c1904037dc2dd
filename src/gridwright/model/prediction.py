"""What a prediction says, in bytes per second and USD per hour, and its margins of error.

`data/margins.csv` is made by `python tools/margins.py` out of the comparison that docs/papers.md prints.

What the papers show (`margins`) is how far the model is off with figures that providers list. How far a
figure is off that nobody lists is another matter: where the catalogue has two sources that differ, they do
so by up to a factor of two on nine in ten types (network-elsewhere.csv, July 2026; no paper has a part in
it).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Literal, cast, get_args

from gridwright.catalog import load_catalog
from gridwright.catalog.facts import Doubt, doubts_in
from gridwright.catalog.instances import disagreement_factor, networks_elsewhere
from gridwright.errors import Finding
from gridwright.filesystems.layout import LayoutChoice
from gridwright.filesystems.resources import Cost, Nature, Operation
from gridwright.spec.warnings import PeakFactor

Kind = Literal[Nature, "burst", "workload", "all"]
"""What a published figure was bound by, of those that last; `burst` has those of bursts, `workload` CPU/real
ratios, and `all` every rate that lasts."""
KINDS: tuple[Kind, ...] = (*get_args(Nature), "burst", "workload", "all")


@dataclass(frozen=True, slots=True)
class Margin:
    """Absolute errors of so many predictions, relative to what was published.

    `p90` is what nine tenths of them do not exceed.
    """

    kind: Kind
    count: int
    median: float
    p90: float

    def low(self, predicted: float) -> float:
        """The least that a prediction may turn out to be: an error is (predicted / real) - 1."""
        return predicted / (1 + self.p90)

    def high(self, predicted: float) -> float:
        """The most that it may turn out to be."""
        return predicted / (1 - self.p90) if self.p90 < 1 else float("inf")


@cache
def margins() -> Mapping[Kind, Margin]:
    """The margin of each kind of which something was published."""
    text = resources.files("gridwright.model").joinpath("data/margins.csv").read_text("utf-8")
    return {
        (kind := cast(Kind, row["kind"])): Margin(
            kind, int(row["count"]), float(row["median"]), float(row["p90"])
        )
        for row in csv.DictReader(text.splitlines())
    }


def margin_of(kind: Kind) -> Margin:
    """The margin of a kind; that of all rates where nothing was published of it."""
    found = margins()
    return found.get(kind) or found["all"]


@cache
def doubt_factor() -> float:
    """By which factor a figure that is not verified may be too high or too low."""
    instances = load_catalog().instances
    return disagreement_factor(
        {name: instances[name].network.baseline_bytes_per_s for name in networks_elsewhere()}
    )


def lowest(bytes_per_s: float, margin: Margin, doubts: Sequence[Doubt]) -> float:
    """The least that a limit may be. A floor is no reason to expect less than it says."""
    low = margin.low(bytes_per_s)
    return low / doubt_factor() if "not verified" in doubts else low


def highest(bytes_per_s: float, margin: Margin, doubts: Sequence[Doubt]) -> float:
    """The most that a limit may be: of a floor nobody says how much more it is."""
    if "floor" in doubts:
        return math.inf
    high = margin.high(bytes_per_s)
    return high * doubt_factor() if "not verified" in doubts else high


Answer = Literal["yes", "within the margin", "no"]
"""Whether a requirement is met, and by more than the margin of error of what is predicted."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A resource as a limit of a library's rate: `bytes_per_s` is what it alone would let through."""

    resource: str
    what: str
    bytes_per_s: float
    source: str
    nature: Nature = "stated"
    floor_part: float = 1.0
    """What is left of it in 95 % of placements of files over targets; 1 where nothing is placed."""

    @property
    def margin(self) -> Margin:
        """How far predictions that such a limit binds were off."""
        return margin_of(self.nature)

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """What makes its band wider than that margin."""
        return doubts_in(self.source)

    @property
    def low_bytes_per_s(self) -> float:
        """The least that it may be."""
        return lowest(self.bytes_per_s, self.margin, self.doubts) * self.floor_part

    @property
    def high_bytes_per_s(self) -> float:
        """The most that it may be; infinite where a floor is all that is known."""
        return highest(self.bytes_per_s, self.margin, self.doubts)


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

    @property
    def low_bytes_per_s(self) -> float:
        """The least that it may be: every limit is as far below its figure as its margin goes."""
        return min(bound.low_bytes_per_s for bound in self.chain)

    @property
    def high_bytes_per_s(self) -> float:
        """The most that it may be; infinite where nothing but floors is known."""
        return min(bound.high_bytes_per_s for bound in self.chain)

    @property
    def doubted(self) -> tuple[Bound, ...]:
        """The limits whose band, and that of the whole, would be narrower were their figures sure."""
        low, high = self.low_bytes_per_s, self.high_bytes_per_s

        def widens(at: int) -> bool:
            sure = self.chain[at].margin
            others = [*self.chain[:at], *self.chain[at + 1 :]]
            lows = [sure.low(self.chain[at].bytes_per_s), *(other.low_bytes_per_s for other in others)]
            highs = [sure.high(self.chain[at].bytes_per_s), *(other.high_bytes_per_s for other in others)]
            return min(lows) > low or min(highs) < high

        return tuple(bound for at, bound in enumerate(self.chain) if bound.doubts and widens(at))

    def per_core(self, bytes_per_s: float) -> float:
        """What each core has of a rate of all nodes."""
        cores = self.bytes_per_s / self.bytes_per_s_per_core if self.bytes_per_s_per_core else 1.0
        return bytes_per_s / cores

    def answer(self, required_per_core: float) -> Answer:
        """Whether it gives each core what is required."""
        low, high = self.per_core(self.low_bytes_per_s), self.per_core(self.high_bytes_per_s)
        return answer_of(low, high, required_per_core)


@dataclass(frozen=True, slots=True)
class LibraryPrediction:
    """A library that is used alone, as iotest measures it.

    `met` is whether the figures reach what is required, whatever their margin; None where nothing is.
    `groups` has the rates of each group of nodes while all are busy, and is empty where there is one. Cores
    of several groups get different rates, and what is required is required of those that get least.
    """

    library: str
    filesystem: str
    requires_bytes_per_s_per_core: float | None
    rates: Mapping[Operation, Rates]
    met: bool | None
    groups: Mapping[str, Mapping[Operation, Rates]] = field(default_factory=dict)

    @property
    def answer(self) -> Answer | None:
        """Whether its requirement is met, with the margin of error; None where nothing is required."""
        found = [answer for rate in self.rates if (answer := self.answer_of(rate)) is not None]
        return worst(found) if found else None

    def answer_of(self, operation: Operation) -> Answer | None:
        """The same of one direction."""
        required = self.requires_bytes_per_s_per_core
        if required is None:
            return None
        judged = [group[operation] for group in self.groups.values()] or [self.rates[operation]]
        return worst(rates.answer(required) for rates in judged)


@dataclass(frozen=True, slots=True)
class Together:
    """All libraries at once: the part of its required rate that the worst-served of them gets.

    `low` and `high` are the shares where every limit is as far below or above its figure as its margin goes.
    """

    share: Mapping[Operation, float]
    bound_by: Mapping[Operation, Bound | None]
    peak_factor: PeakFactor
    low: Mapping[Operation, float] = field(default_factory=dict)
    high: Mapping[Operation, float] = field(default_factory=dict)

    @property
    def required_share(self) -> float:
        """The part of its required rate that each library must get: the peak factor."""
        return self.peak_factor.value

    @property
    def required_share_source(self) -> str:
        """Who says so."""
        return self.peak_factor.source

    @property
    def answer(self) -> Answer:
        """Whether both directions get their share, with the margin of error."""
        return worst(self.answer_of(operation) for operation in self.share)

    def answer_of(self, operation: Operation) -> Answer:
        """Whether one direction gets its share."""
        part = self.share[operation]
        return answer_of(self.low.get(operation, part), self.high.get(operation, part), self.required_share)

    @property
    def met(self) -> bool:
        """Whether both directions get their share."""
        return all(reaches(share, self.required_share) for share in self.share.values())


@dataclass(frozen=True, slots=True)
class MixedRates:
    """Reads and writes at once, in bytes/s: the part `reads` of what is moved is read. `bound_by` binds."""

    reads: float
    bytes_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    bound_by: str


@dataclass(frozen=True, slots=True)
class ServiceRates:
    """Rates in bytes/s: read where nothing is written, written where nothing is read, and both at once."""

    read_bytes_per_s: float
    write_bytes_per_s: float
    mixed: MixedRates


@dataclass(frozen=True, slots=True)
class PublishedDeviation:
    """What was published of a mix in bytes/s, and how far the model is above it, as a part of it."""

    read_bytes_per_s: float
    write_bytes_per_s: float
    above: float
    source: str


@dataclass(frozen=True, slots=True)
class MetadataRates:
    """Metadata operations: seconds of one, those of one stream per second, and those of all nodes.

    `latency_s` and `per_s_per_stream` are None where nobody says how long one takes.
    """

    latency_s: float | None
    per_s_per_stream: float | None
    per_s: float


@dataclass(frozen=True, slots=True)
class ServicePrediction:
    """A managed file system: what it could deliver to any nodes, what these get, and one of them alone.

    Of several groups of nodes, `one_client` is a node of the one that gets least.
    `usd_per_hour` is None where no price is known.
    """

    filesystem: str
    what: str
    service: ServiceRates
    all_nodes: ServiceRates
    one_client: ServiceRates
    published: PublishedDeviation | None
    metadata: MetadataRates | None
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True)
class PlacedRates:
    """What all streams of a library get of its OSTs, in bytes/s, with files of so many stripes; -1 is all.

    `floor` is reached in 95 % of placements, `median` in half of them, and `in_order` where all files were
    made one after another, and nothing else was.
    """

    stripes: int
    floor_bytes_per_s: float
    median_bytes_per_s: float
    in_order_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class UnevenSpace:
    """Free space of OSTs that is so far apart that new files are placed by it.

    Parts are those that are free (0 to 1) of the fullest OST and of the emptiest. New files of all streams
    lie on `met` OSTs in half of all placements; in 95 % they get what `placed` says, against
    `alike_bytes_per_s` where all OSTs have as much space.
    """

    fullest: str
    fullest_free: float
    emptiest: str
    emptiest_free: float
    met: int
    alike_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Libraries that have large files on the same OSTs, with all their streams busy.

    In 95 % of placements the OSTs carry the part `share` or more of what all of them require, at most 1, and
    `required_share` must be there. `floor_bytes_per_s` is what a library then has for sure: that part of what
    it requires, or what it has alone where that is less.
    """

    libraries: tuple[str, ...]
    streams: int
    share: float
    required_share: float
    floor_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class LibraryLayout:
    """The layout of a library's files, and what so many streams get with it of so many OSTs.

    `uneven` is there where somebody looked at the free space of OSTs, and new files go by it; `at_once` where
    streams of other libraries meet the same OSTs.

    `placed` has large files as they are laid out, and after that with one stripe each where that is another
    layout; it is empty where nothing is known of the OSTs. Rates are those of the slower direction.
    """

    choice: LayoutChoice
    streams: int
    targets: int
    placed: tuple[PlacedRates, ...]
    uneven: UnevenSpace | None = None
    at_once: AtOnce | None = None


@dataclass(frozen=True, slots=True)
class GroupSize:
    """Alike nodes of a grid; `instance` is None where no catalogue has them."""

    name: str
    nodes: int
    cores_per_node: int
    instance: str | None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a grid is predicted to deliver. `met` and `answer` are None where nothing is required of it.

    `met` is whether the figures reach what is required; `answer` heeds their margins of error, too.
    `streams_per_node` is None where nodes have one stream per core, and other numbers of cores.
    """

    grid: str
    nodes: int
    cores: int
    streams_per_node: int | None
    libraries: tuple[LibraryPrediction, ...]
    together: Together | None
    costs: tuple[Cost, ...]
    usd_per_hour: float | None
    findings: tuple[Finding, ...]
    met: bool | None
    answer: Answer | None = None
    services: tuple[ServicePrediction, ...] = ()
    groups: tuple[GroupSize, ...] = ()
    layouts: Mapping[str, LibraryLayout] = field(default_factory=dict)


def answer_of(low: float, high: float, required: float) -> Answer:
    """Whether what may be as little as `low` and as much as `high` reaches what is required."""
    if reaches(low, required):
        return "yes"
    return "within the margin" if reaches(high, required) else "no"


def worst(answers: Iterable[Answer]) -> Answer:
    """The answer to all of several requirements."""
    order: tuple[Answer, ...] = ("yes", "within the margin", "no")
    return max(answers, key=order.index, default="yes")


def reaches(value: float, required: float) -> bool:
    """Whether a figure reaches what is required, but for rounding in its last digits."""
    return value >= required * (1 - 1e-9)
