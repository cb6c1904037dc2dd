"""The records that iotest and prove leave in a run directory, and print with `--json`.

One is read as a document of somebody else: no link, of a bounded size, and the field that is wrong is
named.

Keys carry their unit. A figure that was not measured is null, never 0.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from gridwright.errors import GRAVEST_FIRST, Finding, GridwrightError, environment_error
from gridwright.handed_files import checked_json, read_within
from gridwright.messages import LEFT_OUT
from gridwright.refusals import refusal
from gridwright.runs.load_record import Interference
from gridwright.runs.phase_record import (
    LayoutComparison,
    LibraryUnderTest,
    PhaseRecord,
    RecordedNode,
    Status,
    Sweep,
)
from gridwright.runs.repeats import RepeatedFigure

if TYPE_CHECKING:
    from gridwright.runs.launch_record import LaunchRecord


SCHEMA = 1


class Record(BaseModel):
    """Base of all records: unknown keys of a newer release are kept, not refused."""

    model_config = ConfigDict(extra="allow")


class FindingRecord(Record):
    """A finding as it stands in JSON; see `gridwright.errors.Finding`."""

    level: Literal["error", "warning", "info"]
    name: str
    text: str
    remedy: str


def finding_records(findings: Iterable[Finding]) -> list[FindingRecord]:
    """Findings as they are shown, the gravest first."""
    records = [FindingRecord(level=f.level, name=f.name, text=f.text, remedy=f.remedy) for f in findings]
    return sorted(records, key=lambda record: GRAVEST_FIRST[record.level])


class NodeCheck(FindingRecord):
    """A finding about nodes that was there before anything was measured."""

    nodes: list[str]
    found: str
    expected: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryRecord(LibraryUnderTest):
    """What was measured of one library. `met` is null where nothing was asked or nothing counts."""

    met: bool | None
    phases: list[PhaseRecord] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)
    repeats: list[RepeatedFigure] = field(default_factory=list, metadata=LEFT_OUT)
    """Of each operation, over all repeats; left out where the test was not repeated."""
    layouts: LayoutComparison | None = field(default=None, metadata=LEFT_OUT)
    """The same test in another layout, side by side; left out where only the library's own was tested."""


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

    @property
    def requires_something(self) -> bool:
        """Whether anything is required of a library, so that it can be met."""
        return any(library.requires_bytes_per_s_per_core is not None for library in self.libraries)

    @model_serializer(mode="wrap")
    def _without_no_nodes(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        if not document.get("nodes"):
            document.pop("nodes", None)
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
    verdict: str | None = None
    """Its kind; see `gridwright.runs.verdict`. Null before the run ends."""
    met: bool | None = None
    """True where the verdict is met, false where it is missed, else null."""
    grade: Literal["quick look", "proof"] | None = None
    """How much it shows; see `gridwright.runs.verdict`. Null where nothing was measured to its end."""
    not_shown: str | None = None
    unmeasured: list[str] = Field(default_factory=list)
    """Requirements of the spec whose part of the run was left out, in words."""
    spec_path: str | None = None
    spec_text: str | None = None
    heading: dict[str, str] = Field(default_factory=dict)
    """Title, site and customer for the head of the report, where the grid spec gives them."""
    host: HostFacts
    software: dict[str, str]
    process: dict[str, object]
    """Process id, its start time and the boot id: how a reader sees that the run was killed."""
    findings: list[FindingRecord] = Field(default_factory=list)
    checks: list[NodeCheck] = Field(default_factory=list)
    """What was found wrong with nodes before anything was measured; among `findings`, too."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


_LOG = logging.getLogger("gridwright.runs")
R = TypeVar("R", bound=BaseModel)
MOST_BYTES = 256 << 20
"""A workload of 100,000 launches has as many."""


def load_record(file: Path, model: type[R]) -> R | None:
    """The record in a file; None where there is no such file. Raises GridwrightError (ENVIRONMENT)."""
    try:
        return model.model_validate_json(checked_json(read_within(file, MOST_BYTES, follows=False)))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(file, error) from error
    except ValueError as error:
        raise damaged(file, error) from error


def unreadable(file: Path, error: OSError) -> GridwrightError:
    """What to say of a file that the system does not give."""
    otherwise = "look at it, or name another run"
    reason, remedy = refusal(file, error, otherwise)
    if error.errno == errno.ELOOP:
        reason, remedy = "it is a link, and a run has none", otherwise
    return environment_error(f"cannot be read: {reason}", where=str(file), remedy=remedy)


def damaged(file: Path, error: Exception) -> GridwrightError:
    """What to say of a file that holds something else than it should, or more than is read."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'document'}: {first['msg']}"
    return environment_error(
        f"the file is damaged: {reason[:200]}", where=str(file), remedy="restore it from a copy, or run again"
    )


@contextmanager
def figures_of(path: Path) -> Iterator[None]:
    """Around what is computed from the records of a run at `path`.

    Each figure of a run of somebody else is of its type, and they may contradict each other all the same: a
    latency below 0, a phase without streams. Raises GridwrightError (ENVIRONMENT) for what comes of that.
    """
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, MemoryError) as error:
        _LOG.info("the figures of %s", path, exc_info=True)
        raise environment_error(
            f"its figures do not fit each other: {type(error).__name__}: {str(error)[:100]}",
            where=str(path),
            remedy="restore the run from a copy; with -v the command says where it stumbled",
        ) from error


_REMEDY = "end that, or run when the nodes are quiet; --allow-disturbed judges all the same"
_JUDGED = "the judgement stands as --allow-disturbed asks; it proves nothing about a quiet grid"
_MOST = 3


def _worst(interferences: Iterable[Interference]) -> list[Interference]:
    """One of each disturber, that with the largest share; other runs first, then the largest."""
    largest: dict[tuple[str, str, str | None, str | None], Interference] = {}
    for interference in interferences:
        key = interference.kind, interference.name, interference.user, interference.node
        before = largest.get(key)
        if before is None or (interference.share or 0.0) > (before.share or 0.0):
            largest[key] = interference
    return sorted(largest.values(), key=lambda each: (each.kind != "run", -(each.share or 0.0)))


def interference_words(interferences: Iterable[Interference], most: int = _MOST) -> str:
    """The worst disturbers, at most so many, each with its node where there are several."""
    each = _worst(interferences)
    said = [f"on {one.node}, {one.text}" if one.node else one.text for one in each[:most]]
    if len(each) > most:
        said.append(f"{len(each) - most} more")
    return "; ".join(said)


def interference_of_launches(launches: Sequence[LaunchRecord], most: int = _MOST) -> str:
    """How many launches were disturbed, and by whom, at most so many; empty if none was."""
    disturbed = [launch for launch in launches if launch.disturbances]
    if not disturbed:
        return ""
    was = "launch was" if len(launches) == 1 else f"launches {'was' if len(disturbed) == 1 else 'were'}"
    said = interference_words((one for record in disturbed for one in record.disturbances), most)
    return f"{len(disturbed)} of {len(launches)} {was} disturbed: {said}"


def interference_finding(text: str, *, allowed: bool) -> FindingRecord:
    """The finding of a disturbance; `allowed` is whether it was to be judged all the same."""
    # Nodes do without pydantic.

    return FindingRecord(level="warning", name="disturbed", text=text, remedy=_JUDGED if allowed else _REMEDY)
