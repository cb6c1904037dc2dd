"""What the user asks of iotest, checked at the edge, and which layout is tested where two are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.filesystems.layout import FileLayout, layout_text
from gridwright.runs.phase_record import Op, RequestedLayout
from gridwright.runs.repeats import LEAST_PAIRS, MAX_REPEATS


@dataclass(frozen=True, slots=True)
class TriedLayout:
    """Which of two layouts the files of a test have."""

    kind: str
    """The name of the kind of file system that sets and reads it."""
    name: str
    """As it was asked for."""
    layout: FileLayout
    """The chosen one."""
    chosen: bool = False
    """Else files have that of the library's directory."""

    @property
    def requested(self) -> RequestedLayout:
        """For the record."""
        return RequestedLayout(name=self.name, text=layout_text(self.layout), chosen=self.chosen)


EngineName = Literal["buffered", "direct", "null"]
OnNodeFailure = Literal["continue", "stop"]

ENGINES = ("buffered", "direct")
PHASES: tuple[Op, ...] = get_args(Op)
ON_NODE_FAILURE = ("continue", "stop")
MIN_BLOCK = 4 * 1024
MAX_BLOCK = 64 * 1024 * 1024
DEFAULT_BLOCK = 64 * 1024
"""The buffer size with which SAS reads and writes (iotest.sh, `-s 64`)."""
DEFAULT_SECONDS = 10.0
DEFAULT_QUEUE_DEPTH = 8
DEFAULT_UNTIL_STEADY = 70 * 60.0
"""The longest burst in paper 002's table lasts 65 minutes."""
_MAX_STREAMS = 4096
DEFAULT_PAIRS = 6
"""Tests of two layouts side by side: pairs that tell a change of about twice the spread of a pair's ratio."""


@dataclass(frozen=True, slots=True)
class NullVolume:
    """A volume that is only a token bucket, for tests and to measure the harness itself.

    Rates in bytes/s, None for no limit; `bucket_bytes` can be moved at the burst rate.
    """

    burst_bytes_per_s: float | None = None
    steady_bytes_per_s: float | None = None
    bucket_bytes: float = 0.0
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class IotestOptions:
    """The flags of `gridwright iotest`; sizes in bytes, times in seconds.

    `streams` None means one per core. A phase ends by `size_bytes` per stream, by `seconds`, or,
    with `until_steady_s`, when the rate is steady, at the latest after that time. `pairs` lets each
    node read what another one wrote; with `shared_file` all streams have parts of one file. With
    `allow_disturbed` phases are judged that something else disturbed. The whole test is run `repeat` times.
    With `layout`, each time in the library's own layout of files and in the one of that name.
    """

    streams: int | None = None
    size_bytes: int | None = None
    seconds: float | None = None
    until_steady_s: float | None = None
    block_bytes: int = DEFAULT_BLOCK
    engine: EngineName = "buffered"
    queue_depth: int | None = None
    phases: tuple[Op, ...] = ("write", "read")
    keep: bool = False
    verify: bool = False
    seed: int | None = None
    sweep: bool = False
    repeat: int = 1
    layout: str | None = None
    pairs: bool = False
    shared_file: bool = False
    on_node_failure: OnNodeFailure = "continue"
    allow_disturbed: bool = False
    null: NullVolume | None = None
    no_io_uring: bool = False
    sample_s: float = 1.0
    stall_s: float = 60.0

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise GridwrightError(*problems, status=ExitStatus.INPUT)

    @property
    def limit_seconds(self) -> float | None:
        """Seconds after which a phase ends, if it ends by time."""
        if self.until_steady_s is not None:
            return self.until_steady_s
        if self.size_bytes is not None:
            return self.seconds
        return self.seconds if self.seconds is not None else DEFAULT_SECONDS

    @property
    def depth(self) -> int:
        """Requests in flight per stream: 1 through the page cache."""
        if self.engine != "direct":
            return 1
        return self.queue_depth if self.queue_depth is not None else DEFAULT_QUEUE_DEPTH


@dataclass(frozen=True, slots=True)
class LibraryTarget:
    """One library to test: its directory on this node and what it is asked to give."""

    library: str
    path: str
    filesystem: str | None
    requires_bytes_per_s_per_core: float | None
    cores: int
    nodes: int = 1
    all_cores: int | None = None
    """Cores of all nodes, where they do not have the same number."""
    layout: TriedLayout | None = None
    """Where two layouts of its files are compared: which, and which of them this test has."""

    @property
    def total_cores(self) -> int:
        """Cores of all nodes."""
        return self.all_cores if self.all_cores is not None else self.cores * self.nodes


@dataclass(slots=True)
class _Check:
    problems: list[Problem] = field(default_factory=list)

    def that(self, right: bool, what: str, where: str, remedy: str) -> None:
        if not right:
            self.problems.append(Problem(what=what, where=where, remedy=remedy))


def _problems(options: IotestOptions) -> list[Problem]:
    check = _Check()
    block = options.block_bytes
    check.that(
        MIN_BLOCK <= block <= MAX_BLOCK and block % MIN_BLOCK == 0,
        f"{block} bytes is no block size for iotest",
        "--block",
        "give a multiple of 4 KiB from 4 KiB to 64 MiB, such as --block 64KiB",
    )
    check.that(
        options.size_bytes is None or options.size_bytes >= block,
        f"{options.size_bytes} bytes per stream is less than one block of {block} bytes",
        "--size",
        "give a size of at least one block, such as --size 4GiB",
    )
    for name in ("seconds", "until_steady_s"):
        value = getattr(options, name)
        flag = "--seconds" if name == "seconds" else "--until-steady"
        check.that(
            value is None or 0 < value <= 7 * 86400,
            f"{value} is no length of time for a phase",
            flag,
            f"give more than 0 s and at most a week, such as {flag} 30s",
        )
    check.that(
        options.streams is None or 1 <= options.streams <= _MAX_STREAMS,
        f"{options.streams} streams cannot be run",
        "--streams",
        f"give a number from 1 to {_MAX_STREAMS}",
    )
    check.that(
        options.queue_depth is None or 1 <= options.queue_depth <= 4096,
        f"{options.queue_depth} requests in flight cannot be run",
        "--queue-depth",
        "give a number from 1 to 4096",
    )
    check.that(
        options.seed is None or 0 <= options.seed < 2**63,
        f"{options.seed} is no seed",
        "--seed",
        "give a number from 0 to 2^63 - 1",
    )
    check.that(
        1 <= options.repeat <= MAX_REPEATS,
        f"a test cannot be run {options.repeat} times",
        "--repeat",
        f"give a number from 1 to {MAX_REPEATS}; 5 tell a change of about 2.5 times the spread",
    )
    _check_combinations(options, check)
    return check.problems


def _check_combinations(options: IotestOptions, check: _Check) -> None:
    check.that(
        options.queue_depth is None or options.queue_depth == 1 or options.engine == "direct",
        "a queue depth needs the direct engine: through the page cache a stream has one request",
        "--queue-depth",
        "add --engine direct",
    )
    check.that(
        options.until_steady_s is None or (options.size_bytes is None and options.seconds is None),
        "--until-steady goes on until the rate is steady, not for a size or a number of seconds",
        "--until-steady",
        "leave out --size and --seconds; --until-steady 30m sets the longest time",
    )
    check.that(
        not (options.shared_file and options.keep),
        "the parts of a shared file are not kept: a kept set has a file for each stream",
        "--keep",
        "leave out --shared-file or --keep",
    )
    check.that(
        not (options.sweep and options.streams is not None),
        "a sweep chooses its streams itself: 1, 2, 4 and so on, to 4 per core",
        "--streams",
        "leave out --streams or --sweep",
    )
    check.that(
        not (options.sweep and options.repeat > 1),
        "a sweep measures each number of streams once",
        "--repeat",
        "find the knee with --sweep first, then --streams KNEE --repeat N",
    )
    check.that(
        not (options.sweep and options.until_steady_s is not None),
        "a sweep until steady would take a working day",
        "--sweep",
        "find the knee with --sweep first, then --streams KNEE --until-steady",
    )
    _check_layout(options, check)
    check.that(
        bool(options.phases), "there is no phase to run", "--phases", f"choose from {', '.join(PHASES)}"
    )
    check.that(
        len(set(options.phases)) == len(options.phases),
        "a phase is named twice",
        "--phases",
        "name each phase once",
    )


def _check_layout(options: IotestOptions, check: _Check) -> None:
    if options.layout is None:
        return
    check.that(
        options.repeat >= LEAST_PAIRS,
        f"two layouts are compared in pairs of tests, and {options.repeat} tell nothing",
        "--repeat",
        f"give {LEAST_PAIRS} or more, or leave it out for {DEFAULT_PAIRS}",
    )
    check.that(
        not options.keep,
        "the files of a comparison of layouts are not kept: each test makes its own",
        "--keep",
        "leave out --keep or --layout",
    )
    check.that(
        not options.sweep,
        "a sweep measures each number of streams once, and layouts are compared in pairs",
        "--sweep",
        "find the knee with --sweep first, then --streams KNEE --layout NAME",
    )
    check.that(
        "write" in options.phases or not {"read", "mixed"} & set(options.phases),
        "files that are read have to be written in each layout first",
        "--phases",
        "name write, too, such as --phases write,read",
    )
