"""The records that iotest and prove leave in a run directory, and print with `--json`.

Keys carry their unit. A figure that was not measured is null, never 0.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

SCHEMA = 1

Status = Literal["running", "complete", "interrupted", "failed"]
Op = Literal["write", "read", "mixed", "metadata"]


class Record(BaseModel):
    """Base of all records: unknown keys of a newer release are kept, not refused."""

    model_config = ConfigDict(extra="allow")


class FindingRecord(Record):
    """A finding as it stands in JSON; see `gridwright.errors.Finding`."""

    level: Literal["error", "warning", "info"]
    name: str
    text: str
    remedy: str


class NodeCheck(FindingRecord):
    """A finding about nodes that was there before anything was measured."""

    nodes: list[str]
    found: str
    expected: str
    why: str


class Latency(Record):
    """Latency of one block, in microseconds, from an HDR histogram of three digits."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    p99_9: float | None = None
    max: float | None = None


class Asked(Record):
    """What the user asked of a phase."""

    engine: str
    block_bytes: int
    queue_depth: int | None
    streams: int
    size_bytes: int | None
    """Per stream."""
    seconds: float | None
    verify: bool
    seed: int | None


class Used(Record):
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


class Operation(Record):
    """One kind of metadata operation: how many, how long, how fast."""

    count: int
    seconds: float
    ops_per_s: float | None


class Steady(Record):
    """What `--until-steady` found; rates in bytes/s, times in seconds."""

    steady: bool
    rule: str
    peak_bytes_per_s: float
    peak_lasted_s: float
    steady_bytes_per_s: float | None
    change_points_s: list[float]


class StallRecord(Record):
    """Streams stood still at the same time: from `start_s` after the start of the phase on.

    The longest of them for `seconds`.
    """

    start_s: float
    seconds: float
    streams: int


class NodePhaseRecord(Record):
    """What one node of several did in a phase; the figures of one that failed are null, with the reason."""

    node: str
    cores: int
    """Its physical cores that jobs may use."""
    status: Status
    reason: str | None = None
    streams: int
    bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    seconds_first: float | None = None
    seconds_last: float | None = None
    rate_first_bytes_per_s: float | None = None
    rate_last_bytes_per_s: float | None = None
    per_core_bytes_per_s: float | None = None
    """By its own cores."""
    fsync_s: float | None = None
    latency_us: Latency = Field(default_factory=Latency)
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    cached_fraction: float | None = None
    cached: bool = False
    verified_bytes: int | None = None
    ops_per_s: float | None = None
    start_offset_s: float | None = None
    """When its streams started, less when all were to start; by the coordinator's clock."""
    stalls: list[StallRecord] = Field(default_factory=list)


class RecordedNode(Record):
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


class PhaseRecord(Record):
    """One phase on one library: all its streams, started together.

    `*_first`: until the first stream ended, so all streams were active. `*_last`: all bytes over
    the whole time, the closing fsync included; this is the figure that is judged.

    On several nodes the streams are those of all nodes, and the figures those of all that came through, over
    the cores of these; times count from the start of the node that started first. `nodes` has what each
    did; it is left out of the record of one node.
    """

    op: Op
    status: Status = "complete"
    started: float | None = None
    """Unix time."""
    asked: Asked
    used: Used
    bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    seconds_first: float | None = None
    seconds_last: float | None = None
    wall_s: float | None = None
    """As `seconds_last`, with the time in which data was made or checked."""
    rate_first_bytes_per_s: float | None = None
    rate_last_bytes_per_s: float | None = None
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None
    per_core_bytes_per_s: float | None = None
    per_stream_bytes_per_s: list[float] = Field(default_factory=list)
    per_stream_seconds: list[float] = Field(default_factory=list)
    fsync_s: float | None = None
    laps: int | None = None
    latency_us: Latency = Field(default_factory=Latency)
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    cached_fraction: float | None = None
    cached: bool = False
    verified_bytes: int | None = None
    ops_per_s: float | None = None
    operations: dict[str, Operation] | None = None
    steady: Steady | None = None
    nodes: list[NodePhaseRecord] = Field(default_factory=list)

    @property
    def failed_nodes(self) -> list[str]:
        """Names of the nodes whose figures are left out."""
        return [node.node for node in self.nodes if node.status == "failed"]

    @model_serializer(mode="wrap")
    def _without_no_nodes(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without_empty(handler(self), "nodes")


OF_EACH_NODE = tuple(name for name in PhaseRecord.model_fields if name in NodePhaseRecord.model_fields)
"""What is recorded of a phase as a whole, and of each of its nodes in the same way."""


class SweepPoint(Record):
    """One step of `--sweep`."""

    streams: int
    rate_bytes_per_s: float | None
    per_core_bytes_per_s: float | None


class Sweep(Record):
    """Rates by number of streams; `knee_streams` is the smallest that reaches 95 % of the peak."""

    op: Op
    points: list[SweepPoint]
    knee_streams: int | None
    peak_bytes_per_s: float | None


class LibraryRecord(Record):
    """What was measured of one library. `met` is null where nothing was asked or nothing counts."""

    library: str
    path: str
    filesystem: str | None
    nodes: int
    streams: int
    cores: int
    """Physical cores per node; streams are per node, too."""
    requires_bytes_per_s_per_core: float | None
    met: bool | None
    phases: list[PhaseRecord] = Field(default_factory=list)
    sweeps: list[Sweep] = Field(default_factory=list)
    all_cores: int | None = None
    """Cores of all nodes, where these do not have the same number; `cores` are the most of one then."""
    device: dict[str, object] | None = None
    """Facts of what lies below: mount point, file system type, options, block device, scheduler,
    read-ahead."""

    @property
    def total_cores(self) -> int:
        """Cores of all nodes."""
        return self.all_cores if self.all_cores is not None else self.cores * self.nodes

    @model_serializer(mode="wrap")
    def _without_no_total(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without_empty(handler(self), "all_cores")


class IotestRecord(Record):
    """The document that `gridwright iotest --json` prints, and `iotest.json`."""

    schema_: int = Field(default=SCHEMA, alias="schema")
    command: Literal["iotest"] = "iotest"
    run: str
    status: Status
    libraries: list[LibraryRecord]
    findings: list[FindingRecord]
    met: bool | None
    nodes: list[RecordedNode] = Field(default_factory=list)
    """Left out where one node was tested."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    @model_serializer(mode="wrap")
    def _without_no_nodes(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without_empty(handler(self), "nodes")


def _without_empty(document: dict[str, Any], key: str) -> dict[str, Any]:
    if not document.get(key):
        document.pop(key, None)
    return document


class HostFacts(Record):
    """The node a run ran on. Memory in bytes."""

    hostname: str
    kernel: str
    os: str | None
    cpu_model: str | None
    physical_cores: int
    logical_cpus: int
    memory_bytes: int
    hypervisor: str | None = None


class RunRecord(Record):
    """`run.json`: what ran, where, with what, and how it ended. Times are ISO 8601 in UTC."""

    schema_: int = Field(default=SCHEMA, alias="schema")
    name: str
    command: list[str]
    """The full command, to repeat it."""
    what: list[str]
    """What the run consists of, such as `iotest`."""
    started: str
    finished: str | None = None
    status: Status
    met: bool | None = None
    spec_path: str | None = None
    spec_text: str | None = None
    host: HostFacts
    software: dict[str, str]
    process: dict[str, object]
    """Process id, its start time and the boot id: how a reader sees that the run was killed."""
    findings: list[FindingRecord] = Field(default_factory=list)
    checks: list[NodeCheck] = Field(default_factory=list)
    """What was found wrong with nodes before anything was measured; among `findings`, too."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
