"""The mixed workload's section of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridwright.report.figures import ABSENT, count, duration, fact, finite, label, plain, seconds
from gridwright.report.plot import Chart
from gridwright.report.repeats import repeats_table
from gridwright.report.tables import Table
from gridwright.report.workload import charts, tables
from gridwright.report.workload.histogram import ratio_chart
from gridwright.report.workload.nodes import nodes_chart, nodes_table
from gridwright.report.workload.series import own_samples, series_of, span_of, tail_of
from gridwright.report.workload.shares import shares_chart, shares_table, time_shares
from gridwright.report.workload.verdict import imported
from gridwright.runs.samples import SampleRow
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.units import format_bytes

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    """What the page shows of a mixed workload."""

    diagnosis: str
    facts: Pairs
    in_all: tuple[Table, ...]
    shares: Chart | None
    ratios: Chart | None
    nodes: Chart | None
    over_time: tuple[Chart, ...]
    tables: tuple[Table, ...]
    imported: bool
    """Read from logs, and not measured by Gridwright."""

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts, in the order of the page."""
        return (*(each for each in (self.shares, self.ratios, self.nodes) if each), *self.over_time)


def workload_part(record: WorkloadRecord, samples: Sequence[SampleRow]) -> WorkloadPart:
    """Tables and charts of a workload; what is not known has none."""
    own = own_samples(samples)
    span = span_of(own, record.launches)
    drawn: list[Chart | None] = []
    if span:
        # All streams of a workload that was stopped end at once: there is no tail to mark.
        tail = tail_of(record.launches) if record.status == "complete" else None
        series = series_of(own, record.launches, span)
        drawn.append(charts.throughput_chart(series, tail))
        drawn.append(charts.running_chart(series, tail))
        drawn.append(charts.launches_chart(record.launches, span, tail))
    shares = time_shares(record.launches)
    held = [
        nodes_table(record.nodes),
        tables.tests(record.tests),
        repeats_table(record.repeats, "Test"),
        shares_table(shares),
        tables.failed(record.launches),
        tables.refused(record.refused),
        tables.steps(record.launches),
        tables.launches(record.launches, span.start if span else None),
    ]
    return WorkloadPart(
        diagnosis=record.summary.diagnosis or "",
        facts=_facts(record),
        in_all=(tables.in_all(record.summary), tables.published()) if record.summary.launches else (),
        shares=shares_chart(shares),
        ratios=ratio_chart(record.launches, record.summary.ratio_mean),
        nodes=nodes_chart(record.nodes, record.launches),
        over_time=tuple(chart for chart in drawn if chart),
        tables=tuple(table for table in held if table),
        imported=imported(record),
    )


def _facts(record: WorkloadRecord) -> Pairs:
    summary = record.summary
    pairs = (
        ("Matrix", record.matrix or ABSENT),
        ("Scale", record.scale or ABSENT),
        ("Seed", ABSENT if record.seed is None else str(record.seed)),
        ("Blocks", ABSENT if record.block_bytes is None else format_bytes(record.block_bytes)),
        ("Streams", count(record.streams)),
        ("Repeats", count(record.repeats[0].ran) if record.repeats else ABSENT),
        ("Launches", count(summary.launches)),
        ("Failed", count(summary.failed)),
        ("Wall time", duration(summary.wall_s)),
        ("At once, mean of the whole run", plain(summary.mean_concurrency)),
        ("At once, until the tail", plain(summary.mean_concurrency_until_tail)),
        *jobs_facts(record),
    )
    return tuple((name, text) for name, text in pairs if text != ABSENT)


def jobs_facts(record: WorkloadRecord) -> Pairs:
    """What running the launches as jobs of a scheduler cost; nothing where they were none."""
    if record.summary.queued_s_mean is None:
        return ()
    return (
        ("Nodes", count(len(record.nodes))),
        ("From one launch of a stream to the next", seconds(record.summary.harness_s_mean)),
        ("From handing a job in to its launch", seconds(record.summary.queued_s_mean)),
    )


def data_facts(record: WorkloadRecord | None) -> Pairs:
    """The data set of the workload, one plain fact each."""
    pairs = []
    for key, value in (record.data if record and record.data else {}).items():
        if key.endswith("_s") and finite(value) is not None:
            pairs.append((label(key.removesuffix("_s")), seconds(value)))
        elif isinstance(value, str | int | float) and value != "":
            pairs.append((label(key), fact(key, value)))
    return tuple(pairs)
