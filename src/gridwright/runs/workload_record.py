"""The records that the mixed workload leaves in a run directory, and prints with `--json`.

Keys carry their unit. A figure that was not measured, or that a SAS log does not tell, is null.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from gridwright.runs.launch_record import Bound, LaunchRecord, TestClass
from gridwright.runs.phase_record import Status
from gridwright.runs.records import SCHEMA, FindingRecord, Record
from gridwright.runs.repeats import RepeatedFigure
from gridwright.runs.workload_events import ImportRefused
from gridwright.runs.workload_judge import JudgedRequirement


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
    single launches; `ratio_of_sums` is all CPU time over all real time, which is another figure. Of a
    workload that was repeated, launches and sums are those of all repeats, times and concurrency medians.
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
    cached_read_bytes: int | None = None
    """Of what was read of libraries, that which came out of the page cache; null where that is not known."""
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
    block_bytes: int | None = None
    """What a call of a test read or wrote of a file; null where that is not known."""
    streams: int
    data: dict[str, object] | None = None
    """The data set: its directory, hashes, bytes, and how long it took to make."""
    devices: dict[str, object] = Field(default_factory=dict)
    """What lies below each library, as in `iotest.json`."""
    tests: list[TestSummary]
    launches: list[LaunchRecord]
    refused: list[ImportRefused] = Field(default_factory=list)
    """Logs that could not be imported."""
    nodes: list[NodeSummary] = Field(default_factory=list)
    """Side by side, by name."""
    summary: WorkloadSummary
    requirements: list[JudgedRequirement] = Field(default_factory=list)
    """What is required of the workload, and libraries that held it back, with what was measured."""
    findings: list[FindingRecord]
    met: bool | None
    """False if a launch failed or a requirement is missed; null if nothing is required, or this is open,
    as where launches were disturbed."""
    allow_disturbed: bool = False
    """Whether launches that were disturbed are judged all the same."""
    repeats: list[RepeatedFigure] = Field(default_factory=list)
    """The workload in all, then each test, over all repeats; left out where it was not repeated."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    @property
    def requires_something(self) -> bool:
        """Whether anything is required of it, so that it can be met."""
        return any(requirement.figure != "bytes_per_s_per_core" for requirement in self.requirements)

    @property
    def doubtful(self) -> bool:
        """Whether launches were disturbed, and may not be judged: of repeats, all but one at the most."""
        disturbed = {launch.repeat for launch in self.launches if launch.disturbed}
        quiet = {launch.repeat for launch in self.launches} - disturbed
        return not self.allow_disturbed and bool(disturbed) and len(quiet) < 2

    @model_serializer(mode="wrap")
    def _without_no_repeats(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        if not document.get("repeats"):
            document.pop("repeats", None)
        return document
