"""The records that the mixed workload leaves in a run directory, and prints with `--json`.

Keys carry their unit. A figure that was not measured, or that a SAS log does not tell, is null.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from gridwright.runs.records import SCHEMA, FindingRecord, Record, Status

TestClass = Literal["io", "memory", "computation", "command"]
Bound = Literal[
    "cpu", "core", "data read", "data write", "work read", "work write", "util", "memory", "other"
]
"""What held a launch: its own computing, waiting for a core, waiting for one library, reclaim of
memory, or something that could not be told (a sleep, a licence, a network)."""


class LibraryTraffic(Record):
    """What a launch moved to and from one library, as the test declares it, and how long it waited.

    `read_wait_s` and `write_wait_s` leave out the time in which the calls used or awaited a core.
    """

    read_bytes: int = 0
    written_bytes: int = 0
    read_wait_s: float = 0.0
    write_wait_s: float = 0.0


class StepRecord(Record):
    """One step of a SAS log: a procedure or a DATA step."""

    procedure: str
    real_s: float | None = None
    user_s: float | None = None
    system_s: float | None = None
    peak_memory_bytes: int | None = None
    line: int
    """Line of the log, from 1, on which the note of the step begins."""


class LaunchPhase(Record):
    """A part of a launch in which it did the same kinds of work side by side, in order of time.

    Times in seconds; what is 0 may be left out of the document. The phases of a launch add up to its
    real time and its CPU time.
    """

    seconds: float
    cpu_s: float
    core_wait_s: float = 0.0
    io_wait_s: float = 0.0
    """Waiting for the libraries, counted when a call ends."""
    data_read_bytes: int = 0
    data_written_bytes: int = 0
    work_read_bytes: int = 0
    work_written_bytes: int = 0
    util_read_bytes: int = 0
    util_written_bytes: int = 0
    other_read_bytes: int = 0
    other_written_bytes: int = 0
    """Of a command, which does not say to which library its bytes go."""
    device_read_bytes: int = 0
    """Of what was read, that part which did not come out of the page cache."""


class LaunchRecord(Record):
    """One run of one test: times in seconds, `started` and `ended` in Unix time."""

    number: int
    """From 1, in the order of the matrix."""
    test: str
    class_: TestClass = Field(alias="class")
    stream: int
    """From 1."""
    node: str
    copy_: int = Field(default=0, alias="copy")
    """Which copy of the data it read, from 0."""
    cores: int = 1
    started: float | None = None
    ended: float | None = None
    real_s: float | None = None
    user_s: float | None = None
    system_s: float | None = None
    memory_limit_bytes: int | None = None
    peak_memory_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    """As the program saw them: all of its reads and writes, cached or not."""
    device_read_bytes: int | None = None
    device_written_bytes: int | None = None
    """As the block layer saw them."""
    libraries: dict[str, LibraryTraffic] = Field(default_factory=dict)
    core_wait_s: float | None = None
    """Runnable, without a core."""
    io_wait_s: float | None = None
    """Neither computing nor runnable."""
    memory_wait_s: float | None = None
    """Stalled on memory: reclaim, refaults, swap."""
    cpu_real_ratio: float | None = None
    bound_by: Bound | None = None
    bound_share: float | None = None
    """Part of the real time that `bound_by` took, 0 to 1."""
    shares: dict[str, float] = Field(default_factory=dict)
    """The real time by cause, each 0 to 1, for every cause in `Bound` that took any."""
    exit_status: int | None = None
    signal: str | None = None
    ok: bool
    reason: str | None = None
    """Why it failed."""
    log: str | None = None
    """Its step log, relative to the run directory."""
    phases: list[LaunchPhase] = Field(default_factory=list)
    """What it did in which order, sampled ten times a second, in at most 12 parts."""
    steps: list[StepRecord] = Field(default_factory=list)
    job: str | None = None
    """Its job, as the scheduler names it; null where it was none."""
    submitted: float | None = None
    """When its job was handed in (Unix time, of the machine that did)."""
    restarts: int = 0
    """How often it was started again, since its node was lost; all figures are of the last start."""
    lost_on: list[str] = Field(default_factory=list)
    """The nodes that were lost under it."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


class NodeSummary(Record):
    """The launches of one node: sums, and the mean ratio of single launches, of those that ended well."""

    node: str
    launches: int
    failed: int
    real_s: float | None
    user_s: float | None
    system_s: float | None
    ratio_mean: float | None
    ratio_of_sums: float | None
    read_bytes: int | None
    written_bytes: int | None
    cpu_percent_mean: float | None
    """Of all its cores, while launches ran there; null where no sample was taken."""
    bound_by: Bound | None
    """What bound most of their time."""
    lost: int = 0
    """Launches that it was lost under, and that were started again."""


class TestSummary(Record):
    """All launches of one test: means over those that ran to their end."""

    test: str
    class_: TestClass = Field(alias="class")
    launches: int
    failed: int
    real_s_mean: float | None
    user_s_mean: float | None
    system_s_mean: float | None
    peak_memory_bytes_mean: float | None
    ratio_mean: float | None
    bound_by: Bound | None
    """What bound most of their time."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


class WorkloadSummary(Record):
    """All launches: sums of times and memory, and the CPU/real ratio per launch.

    The published test beds print the mean, the standard deviation and the range of the ratio of
    single launches; `ratio_of_sums` is all CPU time over all real time, which is another figure.
    """

    launches: int
    failed: int
    real_s: float | None
    user_s: float | None
    system_s: float | None
    peak_memory_bytes: int | None
    """Sum over the launches, as the published tables have it."""
    ratio_mean: float | None
    ratio_stdev: float | None
    """Of the sample (n - 1)."""
    ratio_min: float | None
    ratio_max: float | None
    ratio_of_sums: float | None
    mean_concurrency: float | None
    """Launches running, averaged over the wall time."""
    mean_concurrency_until_tail: float | None
    """The same until the first stream ran out of launches."""
    streams: int
    wall_s: float | None
    read_bytes: int | None
    written_bytes: int | None
    bound_by: Bound | None
    bound_share: float | None
    shares: dict[str, float] = Field(default_factory=dict)
    """The real time of all launches by cause."""
    harness_s_mean: float | None = None
    """From the end of a launch to the start of the next of its stream, mean: what running them costs, and
    on a grid that is busy also the wait for free cores."""
    queued_s_mean: float | None = None
    """From handing a launch's job in to the launch's start, mean; null where launches are no jobs."""
    diagnosis: str | None
    """One sentence on what held the cores back, with its figures."""


class WorkloadRecord(Record):
    """The document that `gridwright workload --json` prints, and `workload.json`."""

    schema_: int = Field(default=SCHEMA, alias="schema")
    command: Literal["workload"] = "workload"
    run: str
    status: Status
    matrix: str | None
    scale: str | None
    seed: int | None
    streams: int
    data: dict[str, object] | None = None
    """The data set: its directory, hashes, bytes, and how long it took to make."""
    devices: dict[str, object] = Field(default_factory=dict)
    """What lies below each library, as in `iotest.json`."""
    tests: list[TestSummary]
    launches: list[LaunchRecord]
    nodes: list[NodeSummary] = Field(default_factory=list)
    """Side by side, by name."""
    summary: WorkloadSummary
    findings: list[FindingRecord]
    met: bool | None
    """True if all launches are ok."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
