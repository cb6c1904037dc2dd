"""What a test of libraries measures: the records of phases, of nodes in them, of sweeps, of two layouts.

Whoever measures makes them, events carry them, the record of a run keeps them: only the standard library
is used, since workers and nodes have no more. A figure that was not measured is null, never 0.

Each repeat tests both, one right after the other, in turns: first the library's own, then the chosen one,
and the other way round in the next repeat. So what drifts over the test falls on both alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from gridwright.messages import LEFT_OUT, Extensible
from gridwright.runs.load_record import Interference, NodeLoad

METHOD = (
    "Ratio: geometric mean of the ratios of the pairs, chosen by default. Its 95 % interval: Student's t of "
    "their logarithms, for each operation by itself."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutFigure(Extensible):
    """One operation in both layouts; null where too few pairs count.

    A pair counts where both its tests do: whole, not from a cache, and not disturbed.
    """

    of: Op
    figure: str
    """The key of the figure in the record of a phase: `per_core_bytes_per_s`, or `ops_per_s`."""
    ran: int
    """How many pairs were begun."""
    default: list[float]
    """Of each pair that counts, in their order, in the library's own layout."""
    chosen: list[float]
    default_median: float | None
    chosen_median: float | None
    ratio: float | None
    """Chosen by default: above 1 the chosen layout is faster."""
    low: float | None
    high: float | None
    """The 95 % interval of the ratio."""
    lowest: float | None
    highest: float | None
    """The smallest and the largest ratio of one pair."""
    differs: bool | None
    """Whether 1 lies outside the interval; null where nothing can be told."""
    least_change: float | None
    """The least change, as a part of the default, that so many pairs of this spread tell, 4 times of 5."""
    verdict: str
    """What that says, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutComparison(Extensible):
    """A chosen layout beside the library's own."""

    name: str
    """As it was asked for."""
    text: str
    """The chosen layout in the words of `lfs setstripe`."""
    method: str = METHOD
    default_found: ActualLayout | None = None
    """What a file of the test really had, as its file system told; null before one was asked."""
    chosen_found: ActualLayout | None = None
    figures: list[LayoutFigure] = field(default_factory=list, metadata=LEFT_OUT)
    phases: list[PhaseRecord] = field(default_factory=list)
    """Those in the chosen layout; those in the library's own are the phases of the library."""

    @property
    def alike(self) -> bool:
        """Whether files had the same layout on both sides, so that nothing was compared."""
        default, chosen = self.default_found, self.chosen_found
        return default is not None and chosen is not None and default.text == chosen.text


LASTING_PART, LEAST_LASTING_S = 0.25, 5.0
"""How much of a phase, and how many seconds, the rate at its end must have lasted to be judged by itself."""
Status = Literal["running", "complete", "interrupted", "failed"]
Op = Literal["write", "read", "mixed", "metadata"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(Extensible):
    """Latency of one block, in microseconds, from an HDR histogram of three digits."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    p99_9: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSettings(Extensible):
    """The settings of a phase as the user requested them."""

    engine: str
    block_bytes: int
    queue_depth: int | None
    streams: int
    size_bytes: int | None
    """Per stream."""
    seconds: float | None
    verify: bool
    seed: int | None
    allow_disturbed: bool = False
    """Judge a phase that was disturbed all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used(Extensible):
    """What the engine did, which can differ from what was asked; `method` names the calls."""

    engine: str
    block_bytes: int
    direct: bool
    io_uring: bool
    queue_depth: int
    streams: int
    method: str
    registered_buffers: bool = False
    registered_files: bool = False
    preallocated: bool = False
    seed: int = 0
    file_bytes: int | None = None
    note: str | None = None
    """Why something else was used than asked, such as a refused io_uring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Extensible):
    """One kind of metadata operation: how many, how long, how fast."""

    count: int
    seconds: float
    ops_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady(Extensible):
    """What `--until-steady` found; rates in bytes/s, times in seconds."""

    steady: bool
    rule: str
    peak_bytes_per_s: float
    peak_lasted_s: float
    steady_bytes_per_s: float | None
    change_points_s: list[float]


@dataclass(frozen=True, slots=True)
class Falling(Extensible):
    """A rate that still fell when its phase ended: from what to what (bytes/s), in the last `over_s`."""

    from_bytes_per_s: float
    to_bytes_per_s: float
    over_s: float


@dataclass(frozen=True, slots=True)
class RateLevel(Extensible):
    """A stretch of a phase with an even rate: seconds since its start, and bytes/s."""

    start_s: float
    end_s: float
    bytes_per_s: float

    @property
    def bytes(self) -> float:
        """What was moved in it."""
        return self.bytes_per_s * (self.end_s - self.start_s)


def lasting_level(levels: Sequence[RateLevel]) -> RateLevel | None:
    """The rate over the last levels that lasted long enough together; None where there is but one level.

    That is `LASTING_PART` of all, and `LEAST_LASTING_S`.
    """
    if len(levels) < 2:
        return None
    end = levels[-1].end_s
    least = max(LEAST_LASTING_S, (end - levels[0].start_s) * LASTING_PART)
    start = max((each.start_s for each in levels if end - each.start_s >= least), default=levels[0].start_s)
    moved = sum(each.bytes for each in levels if each.start_s >= start)
    return RateLevel(start, end, moved / (end - start)) if end > start else None


@dataclass(frozen=True, slots=True)
class Stall(Extensible):
    """Streams stood still at the same time: from `start_s` after the start of the phase on.

    The longest of them for `seconds`.
    """

    start_s: float
    seconds: float
    streams: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFigures(Extensible):
    """The figures of a phase, which it has as a whole and each of its nodes in the same way.

    `*_first`: until the first stream ended, so all streams were active. `*_last`: all bytes over
    the whole time, the closing fsync included; this is the figure that is judged.
    """

    status: Status = "complete"
    bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    seconds_first: float | None = None
    seconds_last: float | None = None
    rate_first_bytes_per_s: float | None = None
    rate_last_bytes_per_s: float | None = None
    per_core_bytes_per_s: float | None = None
    """By the cores of the node, or of all nodes that came through."""
    fsync_s: float | None = None
    latency_us: Latency = field(default_factory=Latency)
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    cached_fraction: float | None = None
    cached: bool = False
    verified_bytes: int | None = None
    ops_per_s: float | None = None
    load: NodeLoad | None = None
    """What happened on the node meanwhile; null for several as a whole, and where it was not measured."""
    disturbances: list[Interference] = field(default_factory=list)
    """What used more of a node than a proof can bear."""
    disturbed: bool = False
    """Whether anything did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePhaseRecord(PhaseFigures):
    """What one node of several did in a phase; the figures of one that failed are null, with the reason."""

    node: str
    cores: int
    """Its physical cores that jobs may use."""
    reason: str | None = None
    streams: int
    start_offset_s: float | None = None
    """When its streams started, less when all were to start; by the coordinator's clock."""
    stalls: list[Stall] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedNode(Extensible):
    """A node of several that were tested; null where it never came. Memory in bytes."""

    node: str
    host: str | None = None
    cores: int | None
    memory_bytes: int | None = None
    kernel: str | None = None
    version: str | None = None
    clock_offset_s: float | None = None
    """Its clock less the coordinator's, known to half of `round_trip_s`."""
    round_trip_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRecord(PhaseFigures):
    """One phase on one library: all its streams, started together.

    On several nodes the streams are those of all nodes, and the figures those of all that came through, over
    the cores of these; times count from the start of the node that started first. `nodes` has what each
    did; it is left out of the record of one node.
    """

    op: Op
    repeat: int | None = field(default=None, metadata=LEFT_OUT)
    """Which repeat of the test it belongs to, from 1; left out of a test that is not repeated."""
    started: float | None = None
    """Unix time."""
    asked: RequestedSettings
    used: Used
    wall_s: float | None = None
    """As `seconds_last`, with the time in which data was made or checked."""
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None
    per_stream_bytes_per_s: list[float] = field(default_factory=list)
    per_stream_seconds: list[float] = field(default_factory=list)
    laps: int | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    operations: dict[str, Operation] | None = None
    steady: Steady | None = None
    falling: Falling | None = None
    """Where the rate still fell at the end of the phase; null where it did not, or too few samples tell."""
    levels: list[RateLevel] = field(default_factory=list, metadata=LEFT_OUT)
    """Where its rate came down to a lower level than any before, all that it had; else left out."""
    nodes: list[NodePhaseRecord] = field(default_factory=list, metadata=LEFT_OUT)

    @property
    def doubtful(self) -> bool:
        """Whether it may not be judged, since it was disturbed."""
        return self.disturbed and not self.asked.allow_disturbed

    @property
    def lasting(self) -> RateLevel | None:
        """The rate at the end of a phase that came down; None of any other."""
        return lasting_level(self.levels)

    @property
    def slowest_node(self) -> NodePhaseRecord | None:
        """Of the nodes that came through, the one with the least per core; None where one node was tested."""
        whole = [node for node in self.nodes if node.status == "complete" and node.per_core_bytes_per_s]
        return min(whole, key=lambda node: node.per_core_bytes_per_s or 0.0, default=None)

    @property
    def judged_bytes_per_s_per_core(self) -> float | None:
        """The figure that is held against a requirement: the least that any node got, and that lasted."""
        figure = self.per_core_bytes_per_s
        if figure is None:
            return None
        lasting, slowest = self.lasting, self.slowest_node
        if lasting is not None:
            figure = min(figure, self._per_core(lasting.bytes_per_s))
        if slowest is not None:
            figure = min(figure, slowest.per_core_bytes_per_s or 0.0)
        return figure

    @property
    def fell_to_bytes_per_s_per_core(self) -> float | None:
        """Per core, what a rate that still fell came down to; None where it did not fall."""
        return self._per_core(self.falling.to_bytes_per_s) if self.falling is not None else None

    def _per_core(self, bytes_per_s: float) -> float:
        """A rate of the whole phase by the cores that its own figures are of."""
        whole, per_core = self.rate_last_bytes_per_s, self.per_core_bytes_per_s
        if not whole or per_core is None:
            return bytes_per_s
        steady = self.steady.steady_bytes_per_s if self.steady is not None else None
        return bytes_per_s * per_core / min(whole, steady or whole)

    @property
    def failed_nodes(self) -> list[str]:
        """Names of the nodes whose figures are left out."""
        return [node.node for node in self.nodes if node.status == "failed"]


@dataclass(frozen=True, slots=True)
class SweepPoint(Extensible):
    """One step of `--sweep`."""

    streams: int
    rate_bytes_per_s: float | None
    per_core_bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class Sweep(Extensible):
    """Rates by number of streams; `knee_streams` is the smallest that reaches 95 % of the peak."""

    op: Op
    points: list[SweepPoint]
    knee_streams: int | None
    peak_bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryUnderTest(Extensible):
    """A library, and with what it is tested."""

    library: str
    path: str
    filesystem: str | None
    nodes: int
    streams: int
    cores: int
    """Physical cores per node; streams are per node, too."""
    requires_bytes_per_s_per_core: float | None
    all_cores: int | None = field(default=None, metadata=LEFT_OUT)
    """Cores of all nodes, where these do not have the same number; `cores` are the most of one then."""
    device: dict[str, object] | None = None
    """Facts of what lies below: mount point, file system type, options, block device, scheduler,
    read-ahead."""

    @property
    def total_cores(self) -> int:
        """Cores of all nodes."""
        return self.all_cores if self.all_cores is not None else self.cores * self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedLayout(Extensible):
    """The layout requested for files of a test: that of the library's directory, or a `chosen` one."""

    name: str
    """As it was asked for."""
    text: str
    """The chosen one in the words of `lfs setstripe`."""
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualLayout(Extensible):
    """The layout that a file of the test really has, as its file system reports it."""

    chosen: bool
    text: str
    """In the words of `lfs setstripe`, as far as the file reaches."""
    file_bytes: int
    components: list[dict[str, object]]
    """All parts: start, end, stripe_count, stripe_bytes, pool, osts and more."""
