"""What processes of iotest tell each other: the command its worker, and a coordinator its nodes.

`REQUESTS` go from the command to the worker of a library, on its stdin. `ORDERS` go from the coordinator
to a node, `ANSWERS` back. An order that touches a library has a number, and so have its answers; the
others are heeded at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gridwright.errors import Finding, Problem
from gridwright.iotest.engine import PhasePlan
from gridwright.iotest.options import IotestOptions, LibraryTarget
from gridwright.iotest.outcome import Outcome
from gridwright.iotest.scratch import FileSet
from gridwright.iotest.stream_plan import Room
from gridwright.messages import Messages, shared_fields
from gridwright.runs.iotest_events import IotestEvent, PhaseProgress, Progress, SampleTaken
from gridwright.runs.load_record import NodeLoad
from gridwright.runs.samples import Measured

# From the command to the worker of a library.


@dataclass(frozen=True, slots=True)
class LibraryRequest:
    """Test a library, until it is done or stdin ends."""

    target: LibraryTarget
    options: IotestOptions
    run: str = ""
    """What other runs on the same file system call this one."""


@dataclass(frozen=True, slots=True)
class RemoveStale:
    """Remove what a killed worker left in a directory."""

    directory: str


REQUESTS: Messages[LibraryRequest | RemoveStale] = Messages(
    "do", {"test": LibraryRequest, "tidy": RemoveStale}
)


# From the coordinator to a node: heeded at once.


@dataclass(frozen=True, slots=True)
class Welcome:
    """The node takes part."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The node takes no part."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ping:
    """Say that you live, and what your clocks read."""

    ping: int


@dataclass(frozen=True, slots=True)
class Go:
    """Start the phase that is armed, at this moment of time.monotonic() there."""

    at: float


@dataclass(frozen=True, slots=True)
class Finish:
    """End the phase that runs as if its time were up."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop at once."""


# From the coordinator to a node: carried out one after the other.


@dataclass(frozen=True, slots=True)
class Numbered:
    """An order that is answered by messages with its number."""

    id: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True)
class Open(Numbered):
    """Look at a library: what lies below, its room, a kept set.

    `run` is the same on all nodes; `name` is what other runs on the same file system call this one.
    """

    target: LibraryTarget
    options: IotestOptions
    run: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Prepare(Numbered):
    """Make the scratch directory."""


@dataclass(frozen=True, slots=True)
class RunCommand(Numbered):
    """Run a command of the file system's own, such as one that gives the scratch directory a layout."""

    command: list[str]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class See(Numbered):
    """Say which of these paths are there; wait for all for at most `seconds`."""

    paths: list[str]
    seconds: float = 5.0
    """How long a directory that another node made may stay unseen: clients of file systems cache them."""


@dataclass(frozen=True, slots=True)
class Share(Numbered):
    """Make the file that all streams share, instead of an earlier one."""

    name: str
    instead_of: str | None


@dataclass(frozen=True, slots=True)
class RunPhase(Numbered):
    """Prepare a phase, wait for `Go`, run it, and report every `report_s`."""

    op: str
    plan: PhasePlan
    report_s: float


@dataclass(frozen=True, slots=True)
class Close(Numbered):
    """Remove the scratch directory, or keep the files in it."""

    kept: FileSet | None = None


@dataclass(frozen=True, slots=True)
class TidyAfter(Numbered):
    """Remove the scratch directories of nodes that can do so no more."""

    nodes: list[str]


@dataclass(frozen=True, slots=True)
class Leave(Numbered):
    """The test is over."""


AtOnce = Welcome | Refuse | Ping | Go | Finish | Stop
ORDERS: Messages[AtOnce | Numbered] = Messages(
    "do",
    {
        "welcome": Welcome,
        "refuse": Refuse,
        "ping": Ping,
        "go": Go,
        "finish": Finish,
        "stop": Stop,
        "open": Open,
        "prepare": Prepare,
        "run": RunCommand,
        "see": See,
        "share": Share,
        "phase": RunPhase,
        "close": Close,
        "tidy": TidyAfter,
        "leave": Leave,
    },
)


# From a node to the coordinator.


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What the coordinator records of a node; memory in bytes."""

    node: str
    host: str
    cores: int
    memory_bytes: int
    kernel: str
    boot_id: str
    version: str


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message; `facts` are `WorkerFacts`, if it is of the same release."""

    gridwright: str
    facts: dict[str, object]


@dataclass(frozen=True, slots=True)
class Clocks:
    """What the clocks of a node read, in seconds."""

    monotonic: float
    wall: float


@dataclass(frozen=True, slots=True)
class Pong:
    """It lives: when the ping came, and when this went."""

    ping: int
    received: Clocks
    answered: Clocks


@dataclass(frozen=True, slots=True)
class Answer:
    """Answers the order of this number."""

    re: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True)
class RetainedSet:
    """A set of files that the node kept."""

    directory: str
    bytes: int
    files: FileSet


@dataclass(frozen=True, slots=True)
class Opened(Answer):
    """What lies below a library; `device` is as `MountFacts` records it."""

    device: dict[str, object]
    memory_backed: bool
    room: Room
    kept: RetainedSet | None
    findings: list[Finding]


@dataclass(frozen=True, slots=True)
class Prepared(Answer):
    """The scratch directory is there."""

    directory: str


@dataclass(frozen=True, slots=True)
class CommandRan(Answer):
    """What the command left; what is no UTF-8 in it is replaced."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Seen(Answer):
    """Which paths are there."""

    seen: list[bool]


@dataclass(frozen=True, slots=True)
class Shared(Answer):
    """The shared file is there."""


@dataclass(frozen=True, slots=True)
class Armed(Answer):
    """All streams are prepared."""


@dataclass(frozen=True, slots=True)
class Started(Answer):
    """The streams have started, at this moment of time.monotonic() there."""

    at: float


@dataclass(frozen=True, slots=True)
class Report(Answer):
    """What was measured since the last report."""

    samples: list[Measured]
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class PhaseEnded(Answer):
    """The phase has ended."""

    outcome: Outcome
    load: NodeLoad | None = None
    """Of the node, meanwhile."""


@dataclass(frozen=True, slots=True)
class Removing(Answer):
    """It removes files, and that takes a while."""


@dataclass(frozen=True, slots=True)
class Closed(Answer):
    """The files are removed, or kept."""


@dataclass(frozen=True, slots=True)
class Tidied(Answer):
    """What was removed of other nodes."""

    removed: list[str]


@dataclass(frozen=True, slots=True)
class Failed(Answer):
    """The library failed here; the node `hung` if its threads cannot even be stopped."""

    problem: Problem
    hung: bool = False


ANSWERS: Messages[Hello | Pong | Answer] = Messages(
    "say",
    {
        "hello": Hello,
        "pong": Pong,
        "opened": Opened,
        "prepared": Prepared,
        "ran": CommandRan,
        "seen": Seen,
        "shared": Shared,
        "armed": Armed,
        "started": Started,
        "report": Report,
        "result": PhaseEnded,
        "removing": Removing,
        "closed": Closed,
        "tidied": Tidied,
        "problem": Failed,
    },
)


Emit = Callable[[IotestEvent], None]


def sample_taken(op: str, time: float, sample: Measured, *, node: str | None = None) -> SampleTaken:
    """What was measured until the Unix time `time`; of several nodes, by which."""
    return SampleTaken(op=op, time=time, node=node, **shared_fields(sample, SampleTaken))


def phase_progress(op: str, progress: Progress, rate_bytes_per_s: float | None = None) -> PhaseProgress:
    """How far a phase is; of several nodes with the rate of all."""
    return PhaseProgress(op=op, rate_bytes_per_s=rate_bytes_per_s, **shared_fields(progress, PhaseProgress))
