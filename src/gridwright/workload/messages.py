"""What processes of the workload tell each other: how large it is, what is asked of each, what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from gridwright.runs.launch_record import LaunchRecord, TestClass
from gridwright.units import Bytes, parse_duration
from gridwright.workload.launches.program_request import ReplayWork
from gridwright.workload.launches.traffic import BLOCK_BYTES

SCALES = ("tiny", "small", "medium", "paper")


@dataclass(frozen=True, slots=True)
class Scale:
    """One scale. `units` by table, `settings` by name; memory in bytes, the limit in seconds."""

    name: str
    memory_bytes: int
    time_limit_s: float
    units: dict[str, int]
    settings: dict[str, int]


@cache
def scale(name: str) -> Scale:
    """The scale of a name. Raises KeyError if there is none."""
    # The job of a launch is given its scale: it does without these.
    from importlib.resources import files

    from ruamel.yaml import YAML

    text = files("gridwright.workload").joinpath("scales.yaml").read_text(encoding="utf-8")
    fields = YAML(typ="safe", pure=True).load(text)[name]
    return Scale(
        name=name,
        memory_bytes=int(Bytes.parse(fields["memory"])),
        time_limit_s=parse_duration(fields["time_limit"]),
        units=dict(fields["units"]),
        settings=dict(fields["settings"]),
    )


# From the command to an agent.


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One launch with its limits: memory in bytes, time in seconds; `test` is None for a command."""

    number: int
    test: str | None
    label: str
    class_: TestClass
    command: list[str]
    tables: list[str]
    stream: int
    copy: int
    cores: int
    memory_bytes: int
    time_limit_s: float
    replay: ReplayWork = field(default_factory=ReplayWork)
    """What the launch of a profile does."""
    block_bytes: int = BLOCK_BYTES
    """What a call reads or writes of a file."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Run the streams; `libraries` are directories by name, `workers` how many processes may make data."""

    node: str
    libraries: dict[str, str]
    scale: str
    seed: int
    copies: int
    streams: list[list[PlannedLaunch]]
    keep: bool
    workers: int
    run: str = ""
    """What other runs on the same file system call this one."""

    @property
    def needs_data(self) -> bool:
        """Whether a test is among the launches."""
        return any(launch.test is not None for stream in self.streams for launch in stream)


Chore = Literal["prepare", "tidy", "clean"]


@dataclass(frozen=True, slots=True)
class GridRequest:
    """Run the streams on the nodes of a grid; without a `run`, remove all its data sets.

    `state` is the grid's state directory, `grid` what the module of the agent needs to open its scheduler.
    With `heartbeats` a line comes on stdin every few seconds: the agent stops without them.
    """

    state: str
    grid: Mapping[str, Any]
    libraries: dict[str, str]
    run: RunRequest | None = None
    heartbeats: bool = False


@dataclass(frozen=True, slots=True)
class GridSource:
    """The spec of the grid, as the command read it: the file may have been changed meanwhile."""

    spec_text: str
    spec_file: str | None
    on_head: bool = False
    """Whether the agent runs on the grid's head node, and the command elsewhere."""


# From an agent to the process that prepares the data, and from that to its writers.


@dataclass(frozen=True, slots=True)
class DataRequest:
    """Have the tables of these tests; `streams` are lists of tests, None for a command."""

    libraries: dict[str, str]
    scale: str
    seed: int
    copies: int
    streams: list[list[str | None]]
    keep: bool
    workers: int


@dataclass(frozen=True, slots=True)
class TableRequest:
    """Write a table to a file."""

    table: str
    path: str
    units: dict[str, int]
    seed: int
    copy: int


@dataclass(frozen=True, slots=True)
class Made:
    """A table that was written: its size, its SHA-256, and what tests check against."""

    rows: int
    bytes_: int
    sha256: str
    checksum: str
    expected: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """What came of a table: it was made, or the error of the system and its place."""

    made: Made | None = None
    error: str = ""
    path: str = ""


# From the agent of a grid to a job on a node, and back.


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Run one launch."""

    launch: PlannedLaunch
    libraries: dict[str, str]
    scale: Scale
    seed: int
    keep: bool
    run: str = ""


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What came of it: its record, what it printed, directories that are left."""

    launch: LaunchRecord
    output: str
    left: list[str]


@dataclass(frozen=True, slots=True)
class ChoreRequest:
    """Do what only a node can do, since only nodes see the libraries; `run` is of `prepare` alone."""

    chore: Chore
    libraries: dict[str, str]
    run: RunRequest | None


@dataclass(frozen=True, slots=True)
class JobStart:
    """A job has started on a node, at this Unix time."""

    node: str
    time: float
    pid: int
