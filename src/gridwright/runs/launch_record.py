"""What the mixed workload measures of each launch, or a SAS log tells of one.

Whoever measures makes the record, events carry it, the record of a run keeps it: only the standard library is
used, since nodes have no more. A figure that was not measured, or that a SAS log does not tell, is null.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gridwright.messages import LEFT_OUT, Extensible
from gridwright.runs.load_record import Interference, NodeLoad

TestClass = Literal["io", "memory", "computation", "command"]
Bound = Literal[
    "cpu", "core", "data read", "data write", "work read", "work write", "util", "memory", "other"
]
"""What held a launch: its own computing, waiting for a core, waiting for one library, reclaim of
memory, or something that could not be told (a sleep, a licence, a network)."""

UnwaitedCount = Literal["control group", "perf event", "looks"]
"""What told the CPU time of processes that nobody waited for. Looks come ten times a second, and see less
than there was of processes that live shorter."""


@dataclass(frozen=True, slots=True)
class LibraryTraffic(Extensible):
    """What a launch moved to and from one library, as the test declares it, and how long it waited.

    `read_wait_s` and `write_wait_s` leave out the time in which the calls used or awaited a core.
    """

    read_bytes: int = 0
    written_bytes: int = 0
    read_wait_s: float = 0.0
    write_wait_s: float = 0.0
    read_calls: int = 0
    write_calls: int = 0
    """System calls that moved these bytes; an engine that spills tells of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord(Extensible):
    """One step of a SAS log: a procedure or a DATA step."""

    procedure: str
    real_s: float | None = None
    user_s: float | None = None
    system_s: float | None = None
    peak_memory_bytes: int | None = None
    line: int
    """Line of the log, from 1, on which the note of the step begins."""
    session: str | None = None
    """The session of SAS/CONNECT that it ran in; null in the log's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPhase(Extensible):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRecord(Extensible):
    """One run of one test: times in seconds, `started` and `ended` in Unix time."""

    number: int
    """From 1, in the order of the matrix; repeats go on counting."""
    repeat: int | None = field(default=None, metadata=LEFT_OUT)
    """Which repeat of the workload it belongs to, from 1; left out of one that is not repeated."""
    test: str
    class_: TestClass
    stream: int
    """From 1."""
    node: str
    copy: int = 0
    """Which copy of the data it read, from 0."""
    cores: int = 1
    started: float | None = None
    ended: float | None = None
    real_s: float | None = None
    user_s: float | None = None
    system_s: float | None = None
    unwaited_cpu_s: float = 0.0
    """Of both, that of processes whose parent did not wait for them, as one that ignores SIGCHLD."""
    unwaited_counted: UnwaitedCount | None = None
    """What told it; null where there were no such processes."""
    memory_limit_bytes: int | None = None
    peak_memory_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    """As the program saw them: all of its reads and writes, cached or not."""
    device_read_bytes: int | None = None
    device_written_bytes: int | None = None
    """As the block layer saw them."""
    cached_read_bytes: int | None = None
    """What it read of its libraries that came out of the page cache; null where the kernel does not tell."""
    libraries: dict[str, LibraryTraffic] = field(default_factory=dict)
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
    shares: dict[str, float] = field(default_factory=dict)
    """The real time by cause, each 0 to 1, for every cause in `Bound` that took any."""
    exit_status: int | None = None
    signal: str | None = None
    ok: bool
    reason: str | None = None
    """Why it failed."""
    log: str | None = None
    """Its step log, relative to the run directory."""
    load: NodeLoad | None = None
    """What happened on its node meanwhile; null where it was not measured, as in a SAS log."""
    disturbances: list[Interference] = field(default_factory=list)
    """What used more of the node than a proof can bear."""
    disturbed: bool = False
    """Whether anything did."""
    phases: list[LaunchPhase] = field(default_factory=list)
    """What it did in which order, sampled ten times a second, in at most 12 parts."""
    steps: list[StepRecord] = field(default_factory=list)
    job: str | None = None
    """Its job, as the scheduler names it; null where it was none."""
    submitted: float | None = None
    """When its job was submitted (Unix time, of the machine that did)."""
    restarts: int = 0
    """How often it was started again, since its node was lost; all figures are of the last start."""
    lost_on: list[str] = field(default_factory=list)
    """The nodes that were lost under it."""
