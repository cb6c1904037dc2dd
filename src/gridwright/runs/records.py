"""The records that iotest and prove leave in a run directory, and print with `--json`.

Keys carry their unit. A figure that was not measured is null, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from gridwright.errors import GRAVEST_FIRST, Finding
from gridwright.messages import LEFT_OUT
from gridwright.runs.layout_comparison import LayoutComparison
from gridwright.runs.phase_record import LibraryUnderTest, PhaseRecord, RecordedNode, Status, Sweep
from gridwright.runs.repeats import RepeatedFigure

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
    """How much it shows; see `gridwright.runs.grade`. Null where nothing was measured to its end."""
    not_shown: str | None = None
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
