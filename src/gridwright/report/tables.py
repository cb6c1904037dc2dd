"""The tables of a throughput test, in plain text cells: each figure of the charts, and the rest.

Repeats and layouts side by side are worded here for terminals, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gridwright.report import figures
from gridwright.report.charts import Timeline, extremes
from gridwright.report.figures import (
    ABSENT,
    GB,
    against,
    binary,
    count,
    duration,
    fact,
    finite,
    label,
    latency,
    listed,
    megabytes,
    part_of,
    plain,
    seconds,
    share,
    volume,
)
from gridwright.report.table import MARKS, Cell, Table, columns_of, mark_of, rows_table, table_of
from gridwright.runs.phase_record import ActualLayout, Latency, LayoutComparison, LayoutFigure, PhaseRecord
from gridwright.runs.records import IotestRecord, LibraryRecord
from gridwright.runs.repeats import RepeatedFigure

STATES = {"interrupted": "interrupted", "failed": "failed", "running": "not ended"}


def _named(phase: PhaseRecord) -> str:
    """The operation, and how it ended where it did not end well."""
    state = STATES.get(phase.status) or ("disturbed" if phase.disturbed else None)
    named = f"{phase.op} {phase.repeat}" if phase.repeat else phase.op
    return f"{named} ({state})" if state else named


def rates(library: LibraryRecord, judged: bool) -> Table | None:
    """What each phase reached, and what was required of it."""
    phases = [phase for phase in library.phases if phase.op != "metadata"]
    required = library.requires_bytes_per_s_per_core
    if not phases:
        return None

    def mark(phase: PhaseRecord) -> Cell:
        state = mark_of(phase, required, judged)
        return Cell(ABSENT) if state == "unjudged" else Cell(MARKS[state], state)

    def bound(phase: PhaseRecord) -> str:
        return figures.required(required) if phase.op in ("write", "read") else ABSENT

    looked = any(phase.steady and phase.steady.steady_bytes_per_s for phase in phases)
    figure = "the steady rate per core is judged where there is one" if looked else "last-done is judged"
    if library.repeats:
        figure = "the median of the repeats is judged"
    return table_of(
        f"Rates in MB/s; {figure}",
        phases,
        {
            "Operation": _named,
            "Streams": lambda p: count(p.used.streams),
            "Data": lambda p: volume(p.bytes),
            "Time": lambda p: seconds(p.seconds_last),
            "First-done": lambda p: megabytes(p.rate_first_bytes_per_s),
            "Last-done": lambda p: megabytes(p.rate_last_bytes_per_s),
            "Per core": lambda p: against(p.per_core_bytes_per_s, required),
            "Required": bound,
            "Cached": lambda p: share(p.cached_fraction),
            "Verdict": mark,
        },
        "Operation|Verdict",
    )


def latencies(library: LibraryRecord) -> Table | None:
    """Latency percentiles of one block."""
    phases = [phase for phase in library.phases if phase.latency_us != Latency()]
    if not phases:
        return None
    return table_of(
        "Latency of one block",
        phases,
        {
            "Operation": _named,
            "p50": lambda p: latency(p.latency_us.p50),
            "p95": lambda p: latency(p.latency_us.p95),
            "p99": lambda p: latency(p.latency_us.p99),
            "p99.9": lambda p: latency(p.latency_us.p99_9),
            "Max": lambda p: latency(p.latency_us.max),
        },
        "Operation",
    )


def _cpu_per_gb(phase: PhaseRecord) -> str:
    if phase.cpu_user_s is None or phase.cpu_system_s is None or not phase.bytes:
        return ABSENT
    return plain((phase.cpu_user_s + phase.cpu_system_s) / (phase.bytes / GB))


def methods(library: LibraryRecord) -> Table | None:
    """How each phase was done, and what it cost in CPU."""
    if not library.phases:
        return None
    return table_of(
        "How it was done",
        library.phases,
        {
            "Operation": _named,
            "Engine": lambda p: p.used.engine,
            "Calls": lambda p: p.used.method,
            "Block": lambda p: binary(p.used.block_bytes),
            "Queue depth": lambda p: count(p.used.queue_depth),
            "Laps": lambda p: count(p.laps),
            "Closing fsync": lambda p: seconds(p.fsync_s),
            "CPU s/GB": _cpu_per_gb,
            "Verified": lambda p: volume(p.verified_bytes),
        },
        "Operation|Engine|Calls",
    )


def mixed(library: LibraryRecord) -> Table | None:
    """How a mixed phase divides into reading and writing."""
    phases = [phase for phase in library.phases if phase.op == "mixed"]
    if not phases:
        return None
    return table_of(
        "Mixed phase: reading and writing at once, in MB/s",
        phases,
        {
            "Operation": _named,
            "Read": lambda p: megabytes(p.read_bytes_per_s),
            "Written": lambda p: megabytes(p.write_bytes_per_s),
            "Data read": lambda p: volume(p.read_bytes),
            "Data written": lambda p: volume(p.written_bytes),
            "Share read": lambda p: part_of(p.read_bytes, p.bytes),
        },
        "Operation",
    )


def metadata(library: LibraryRecord) -> Table | None:
    """Metadata operations by kind."""
    rows = [
        (f"{name} {phase.repeat}" if phase.repeat else name, operation)
        for phase in library.phases
        for name, operation in (phase.operations or {}).items()
    ]
    if not rows:
        return None
    return table_of(
        "Metadata operations",
        rows,
        {
            "Operation": lambda row: row[0],
            "Count": lambda row: count(row[1].count),
            "Time": lambda row: seconds(row[1].seconds),
            "Operations/s": lambda row: plain(row[1].ops_per_s),
        },
        "Operation",
    )


def steady(library: LibraryRecord) -> Table | None:
    """What `--until-steady` found: how long the peak lasted, and what it fell to."""
    phases = [phase for phase in library.phases if phase.steady]
    if not phases:
        return None
    found = [(phase, phase.steady) for phase in phases if phase.steady]
    table = table_of(
        "Until steady, in MB/s",
        found,
        {
            "Operation": lambda row: _named(row[0]),
            "Peak rate": lambda row: megabytes(row[1].peak_bytes_per_s),
            "Peak lasted": lambda row: duration(row[1].peak_lasted_s),
            "Steady rate": lambda row: megabytes(row[1].steady_bytes_per_s),
            "Of the peak": lambda row: part_of(row[1].steady_bytes_per_s, row[1].peak_bytes_per_s),
            "Became steady": lambda row: "yes" if row[1].steady else "no",
            "Rate changed at": lambda row: ", ".join(map(duration, row[1].change_points_s)) or ABSENT,
        },
        "Operation|Became steady|Rate changed at",
    )
    rules = dict.fromkeys(state.rule for _, state in found)
    return replace(table, note=f"Rule: {'; '.join(rules)}")


def sweeps(library: LibraryRecord) -> Table | None:
    """Every step of the sweeps: a row per number of streams, the operations beside each other."""
    by_op = {sweep.op: sweep for sweep in library.sweeps if sweep.points}
    steps = sorted({point.streams for sweep in by_op.values() for point in sweep.points})
    if not steps:
        return None
    columns: dict[str, Callable[[int], str | Cell]] = {"Streams": count}
    for op, sweep in by_op.items():
        points = {point.streams: point for point in sweep.points}
        columns[op.capitalize()] = lambda n, points=points: (  # type: ignore[misc]
            megabytes(points[n].rate_bytes_per_s) if n in points else ABSENT
        )
        columns[f"{op.capitalize()} per core"] = lambda n, points=points: (  # type: ignore[misc]
            megabytes(points[n].per_core_bytes_per_s) if n in points else ABSENT
        )
    knees = {n: listed([op for op, sweep in by_op.items() if sweep.knee_streams == n]) for n in steps}
    columns["Knee"] = lambda n: knees[n]
    return table_of("Sweep over the number of streams, in MB/s", steps, columns, "Knee")


def over_time(line: Timeline) -> Table:
    """The samples of each phase in short: the chart's text, and what the device itself moved."""
    bounds = [
        (segment, extremes(segment.points, "read"), extremes(segment.points, "written"))
        for segment in line.segments
    ]

    def cpu(values: Sequence[float]) -> str:
        return f"{sum(values) / len(values):.0f} %" if values else ABSENT

    return table_of(
        "Samples, one a second; rates in MB/s",
        bounds,
        {
            "Operation": lambda row: row[0].op or ABSENT,
            "Lowest read": lambda row: megabytes(row[1][0]),
            "Mean read": lambda row: megabytes(row[1][1]),
            "Highest read": lambda row: megabytes(row[1][2]),
            "Lowest written": lambda row: megabytes(row[2][0]),
            "Mean written": lambda row: megabytes(row[2][1]),
            "Highest written": lambda row: megabytes(row[2][2]),
            "CPU": lambda row: cpu(row[0].cpu_percent),
            "Device read": lambda row: volume(row[0].device_read),
            "Device written": lambda row: volume(row[0].device_written),
        },
        "Operation",
    )


def requested_and_used(iotest: IotestRecord | None) -> Table | None:
    """The settings that the engine could not use as requested, side by side; None where there are none."""
    rows: list[tuple[str, str, str, str, str, str]] = []
    for library in iotest.libraries if iotest else []:
        for phase in library.phases:
            note = phase.used.note or ""
            differing = _differences(phase)
            if note and not differing:
                differing = [("method", phase.asked.engine, phase.used.method)]
            rows += [(library.library, phase.op, *difference, note) for difference in differing]
    if not rows:
        return None
    titles = ("Library", "Operation", "Setting", "Asked", "Used", "Why")
    # Phases of one library differ in the same way: the reason stands once, then the rows repeat it no more.
    seen: set[str] = set()
    cells = []
    for row in rows:
        why = row[5] if row[5] not in seen else "as above"
        seen.add(row[5])
        cells.append([text or ABSENT for text in (*row[:5], why if row[5] else "")])
    return rows_table("Asked and used, where they differ", columns_of(titles), cells)


def _differences(phase: PhaseRecord) -> list[tuple[str, str, str]]:
    """Setting, asked, used. What was left open (`auto`, null) cannot differ."""
    asked, used = phase.asked, phase.used
    # Metadata operations move no blocks: engine, block and queue depth were never asked of them.
    blocks = phase.op != "metadata"
    found = []
    if blocks and asked.engine not in ("auto", used.engine):
        found.append(("engine", asked.engine, used.engine))
    if blocks and asked.block_bytes != used.block_bytes:
        found.append(("block", binary(asked.block_bytes), binary(used.block_bytes)))
    if blocks and asked.queue_depth not in (None, used.queue_depth):
        found.append(("queue depth", count(asked.queue_depth), count(used.queue_depth)))
    if asked.streams != used.streams:
        found.append(("streams", count(asked.streams), count(used.streams)))
    if asked.seed not in (None, used.seed):
        found.append(("seed", str(asked.seed), str(used.seed)))
    return found


def facts(values: dict[str, object] | None) -> tuple[tuple[str, str], ...]:
    """Facts of the environment as label and text; what is not known is left out."""
    shown = ((label(key), fact(key, value)) for key, value in (values or {}).items())
    return tuple((name, text) for name, text in shown if text != ABSENT)


def measured_seconds(library: LibraryRecord) -> str:
    """How long the phases of a library took together."""
    known = [value for phase in library.phases if (value := finite(phase.seconds_last)) is not None]
    return duration(sum(known)) if known else ABSENT


LAYOUT_TITLES = ("Pairs", "Default", "Chosen", "Ratio", "95 % interval", "Of single pairs")
_VERDICT = "Verdict"
_LAYOUT_UNITS = {"per_core_bytes_per_s": "MB/s per core", "ops_per_s": "operations/s"}


def layouts_table(library: LibraryRecord) -> Table | None:
    """A row for each operation; None where the library's own layout alone was tested."""
    layouts = library.layouts
    if layouts is None or not layouts.figures:
        return None
    columns = columns_of(("Operation", "Figure"), LAYOUT_TITLES, _VERDICT)
    rows = map(layout_row, layouts.figures)
    return rows_table(f"Layouts: {layouts_note(layouts)}", columns, rows, note=layouts.method)


def layouts_note(layouts: LayoutComparison) -> str:
    """The two layouts that were compared: as requested, and as files really had them."""
    default, chosen = _actual_text(layouts.default_found), _actual_text(layouts.chosen_found)
    return f"default, {default}; chosen {layouts.text}, {chosen}"


def layout_row(figure: LayoutFigure) -> list[str]:
    """The cells of an operation."""
    written = count if figure.figure == "ops_per_s" else megabytes
    return [
        figure.of,
        _LAYOUT_UNITS.get(figure.figure, figure.figure),
        f"{len(figure.default)} of {figure.ran}",
        written(figure.default_median),
        written(figure.chosen_median),
        _layout_ratio(figure.ratio),
        _layout_span(figure.low, figure.high),
        _layout_span(figure.lowest, figure.highest),
        figure.verdict,
    ]


def _actual_text(layout: ActualLayout | None) -> str:
    return f"of which a file had {layout.text}" if layout is not None else "of which no file was looked at"


def _layout_ratio(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3g}"


def _layout_span(low: float | None, high: float | None) -> str:
    return ABSENT if low is None or high is None else f"{low:.3g} to {high:.3g}"


REPEAT_TITLES = ("Counted", "Median", "Spread", "Lowest", "Highest", "Least change told")
REPEAT_NOTE = (
    "The median is judged. Spread: standard deviation, as a part of the median. Least change told: by how "
    "much another run of as many repeats must differ for a comparison to tell it, four times out of five."
)
_BEYOND = 10
_NAMES = {
    "per_core_bytes_per_s": "MB/s per core",
    "ops_per_s": "operations/s",
    "wall_s": "real time",
    "real_s": "real time",
    "ratio": "CPU/real",
}


def repeats_table(figures: Sequence[RepeatedFigure], of: str) -> Table | None:
    """A row for each figure; `of` heads the column of what has it. None where nothing was repeated."""
    if not figures:
        return None
    return rows_table(
        "Repeats", columns_of((of, "Figure"), REPEAT_TITLES), repeats_rows(figures), note=REPEAT_NOTE
    )


def repeats_rows(figures: Sequence[RepeatedFigure]) -> list[list[str]]:
    """The cells of each figure."""
    return [
        [
            figure.of or "all",
            _NAMES.get(figure.figure, figure.figure),
            f"{len(figure.values)} of {figure.ran}",
            _value(figure, figure.median),
            percent(figure.spread),
            _value(figure, figure.lowest),
            _value(figure, figure.highest),
            percent(figure.least_change),
        ]
        for figure in figures
    ]


def percent(part: float | None) -> str:
    """A small part of a whole: 0.4 %, 12 %; what is ten times the whole tells nothing more."""
    if part is None:
        return ABSENT
    return f"{plain(part * 100)} %" if part < _BEYOND else f">{_BEYOND * 100:,d} %"


def _value(of: RepeatedFigure, value: float | None) -> str:
    match of.figure:
        case "per_core_bytes_per_s":
            return megabytes(value)
        case "ops_per_s":
            return count(value)
        case "wall_s" | "real_s":
            return seconds(value)
    return plain(value)
