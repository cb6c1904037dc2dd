"""The page of a sweep: the answer first, then the curve, its steps, and how it was found."""

from __future__ import annotations

from gridwright.errors import GRAVEST_FIRST
from gridwright.report.document import rendered
from gridwright.report.figures import clock, count, duration, plain, seconds, share
from gridwright.report.stream_sweep.charts import PARTS, by_part, sweep_charts
from gridwright.report.tables import Cell, Column, Table, facts
from gridwright.runs.records import RunRecord
from gridwright.runs.stream_sweep.record import CurvePoint, StreamSweepRecord, SweepStep
from gridwright.runs.stream_sweep.words import binding_words, jobs


def sweep_page(record: StreamSweepRecord, run: RunRecord | None = None, repeat_command: str = "") -> str:
    """One HTML file that opens offline; `run` is None for a sweep that was predicted."""
    charts = sweep_charts(record)
    subject = "sweep of the workload" if record.command == "workload" else "predicted sweep of the workload"
    return rendered(
        "sweep.html.j2",
        charts,
        title=f"{headline(record)} – {record.grid}",  # noqa: RUF001 - a dash as type has it
        subject=subject,
        heading=run.heading.get("title", "") if run else "",
        look=_look(record),
        headline=headline(record),
        answer=record.answer,
        rule=record.rule,
        facts=_facts(record, run),
        drawn=charts,
        tables=[table for table in (curve_table(record), _times(record), _steps(record)) if table],
        findings=sorted(record.findings, key=lambda finding: GRAVEST_FIRST[finding.level]),
        environment=_environment(run),
        run=run,
        assumptions=record.assumptions,
        predicted=record.command == "predict",
        repeat_command=repeat_command,
    )


def headline(record: StreamSweepRecord) -> str:
    """The answer in a few words."""
    if record.ended_by is None:
        return "Still running"
    if record.carries is None:
        return "Not proven"
    if record.carries == 0:
        return f"Not even one job: {binding_words(record.binds)}"
    return f"{'At least ' if record.at_least else ''}{jobs(record.carries)}"


def _look(record: StreamSweepRecord) -> str:
    """What colour the answer has: nothing is met or missed by a sweep."""
    if record.ended_by is None:
        return "running"
    if record.ended_by in ("interrupted", "failed"):
        return record.ended_by
    if record.carries is None or record.ended_by == "disturbed":
        return "unproven"
    return "missed" if record.carries == 0 else "unrequired" if record.at_least else "answered"


def _facts(record: StreamSweepRecord, run: RunRecord | None) -> list[tuple[str, str]]:
    pairs = [
        ("Grid", record.grid),
        ("Matrix", record.matrix),
        ("Scale", record.scale or ""),
        ("Least CPU/real", "" if record.required_ratio is None else f"{record.required_ratio:.2f}"),
        ("Steps", count(len(record.steps))),
    ]
    if run is not None:
        pairs += [
            ("Customer", run.heading.get("customer", "")),
            ("Site", run.heading.get("site", "")),
            ("Started", clock(run.started)),
            ("Host", run.host.hostname),
            ("Gridwright", run.software.get("gridwright", "")),
        ]
    return [(name, text) for name, text in pairs if text]


def _environment(run: RunRecord | None) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    if run is None:
        return []
    return [("Host", facts(run.host.model_dump())), ("Software", facts(dict(run.software)))]


def curve_table(record: StreamSweepRecord) -> Table | None:
    """Each number of streams, and whether it holds."""
    if not record.curve:
        return None
    words = ("Verdict",)
    titles = ("Streams", "Steps", "CPU/real", "Launches/h", "Wall time", *words)
    return Table(
        "Numbers of streams (medians over their steps)",
        tuple(Column(title, title in words) for title in titles),
        tuple(tuple(Cell(text) for text in curve_row(point)) for point in record.curve),
    )


def curve_row(point: CurvePoint) -> tuple[str, ...]:
    """The cells of a number of streams."""
    return (
        count(point.streams),
        count(point.steps),
        ratio_text(point.ratio),
        plain(point.launches_per_hour),
        duration(point.wall_s),
        verdict_text(point),
    )


def ratio_text(ratio: float | None) -> str:
    """A CPU/real ratio, to three digits: what is required is compared to as many."""
    return plain(None) if ratio is None else f"{ratio:.3f}"


def verdict_text(point: CurvePoint) -> str:
    """Whether a number of streams holds, and why not."""
    word = {True: "holds", False: "too many", None: "not judged"}[point.held]
    return f"{word}: {point.why}" if point.why else word


def _times(record: StreamSweepRecord) -> Table | None:
    """The time of a launch by what it went to."""
    points = [point for point in record.curve if point.waits_s]
    parts = [by_part(point) for point in points]
    names = [name for name in PARTS if any(name in each for each in parts)]
    if not names:
        return None
    return Table(
        "Mean time of a launch by what it went to, in seconds",
        (Column("Streams"), *(Column(PARTS[name][0]) for name in names)),
        tuple(
            (Cell(count(point.streams)), *(Cell(plain(each.get(name, 0.0))) for name in names))
            for point, each in zip(points, parts, strict=True)
        ),
    )


def _steps(record: StreamSweepRecord) -> Table | None:
    """Each step as it was run; those that were predicted are the curve itself."""
    if record.command == "predict" or not record.steps:
        return None
    titles = (
        "Step",
        "Streams",
        "CPU/real",
        "Failed",
        "Wall time",
        "Queued",
        "Largest wait",
        "Disturbed by",
        "Run",
    )
    words = ("Largest wait", "Disturbed by", "Run")
    return Table(
        "Steps in the order in which they were run",
        tuple(Column(title, title in words) for title in titles),
        tuple(
            tuple(Cell(text) for text in (str(number), *_step(step)))
            for number, step in enumerate(record.steps, start=1)
        ),
        note="Run is the step's own run directory, with its report, in that of the sweep.",
    )


def _step(step: SweepStep) -> tuple[str, ...]:
    waited = {cause: part for cause, part in step.shares.items() if cause != "cpu"}
    largest = max(waited, key=lambda cause: waited[cause], default=None)
    return (
        count(step.streams),
        ratio_text(step.ratio),
        count(step.failed),
        duration(step.wall_s),
        seconds(step.queued_s_mean),
        f"{largest} {share(waited[largest])}" if largest else plain(None),
        step.disturbed or plain(None),
        step.run or plain(None),
    )
