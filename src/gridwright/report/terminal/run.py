"""Tables on the terminal, out of the same records as the report.

The nodes of a throughput test side by side, on the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console

from gridwright.errors import GRAVEST_FIRST
from gridwright.report.figures import ABSENT, against, age, count, megabytes, plain, seconds_since
from gridwright.report.iotest_nodes import node_phases, slowest
from gridwright.report.marks import Mark, mark_of, mark_of_repeats
from gridwright.report.run_summary import KINDS, summarize
from gridwright.report.table import Cell, Column, Table, columns_of, rows_table
from gridwright.report.tables import (
    LAYOUT_TITLES,
    REPEAT_NOTE,
    REPEAT_TITLES,
    layout_row,
    layouts_note,
    percent,
    repeats_rows,
)
from gridwright.report.terminal.frame import framed, print_findings, printed
from gridwright.report.terminal.stream_sweep import sweep_text
from gridwright.report.terminal.workload import workload_text
from gridwright.report.verdict import verdict_in_words
from gridwright.runs.compare import Comparison
from gridwright.runs.directory import LoadedRun
from gridwright.runs.phase_record import METHOD, NodePhaseRecord, PhaseRecord, Steady, SweepPoint
from gridwright.runs.records import IotestRecord, LibraryRecord, NodeCheck
from gridwright.runs.repeats import RepeatedFigure
from gridwright.runs.verdict import JUDGED
from gridwright.trusted import user_name

MOST_NODES = 24
"""Rows of a table on the terminal; the report has more, the record all."""


def nodes_table(library: LibraryRecord) -> Table | None:
    """A row per node with the figures of each phase, and one of all nodes together."""
    phases = node_phases(library)
    if not phases:
        return None
    names = slowest(phases, MOST_NODES)
    total = len(phases[0].nodes)
    of = f", the {len(names)} slowest of {total}" if len(names) < total else ""
    heads = [head for phase in phases for head in _heads(phase)]
    by_name = [{node.node: node for node in phase.nodes} for phase in phases]
    rows: list[list[str | Cell]] = []
    for name in names:
        found = [nodes.get(name) for nodes in by_name]
        cells = [cell for phase, node in zip(phases, found, strict=True) for cell in _of_node(phase, node)]
        failed = any(node is None or node.status == "failed" for node in found)
        disturbed = any(node is not None and node.disturbed for node in found)
        state = Cell("failed", "failed") if failed else "disturbed" if disturbed else ""
        rows.append([name, *cells, state])
    cells = [cell for phase in phases for cell in _figures(phase.op, phase)]
    columns = columns_of(["node"], [*heads, "state"])
    return rows_table(f"{library.library} by node{of}", columns, rows, [["together", *cells, ""]])


def _heads(phase: PhaseRecord) -> list[str]:
    return ["metadata op/s"] if phase.op == "metadata" else [f"{phase.op} MB/s", "per core", "p99 ms"]


def _of_node(phase: PhaseRecord, node: NodePhaseRecord | None) -> list[str]:
    if node is None or node.status == "failed":
        return [ABSENT] * len(_heads(phase))
    return _figures(phase.op, node)


def _figures(op: str, figures: PhaseRecord | NodePhaseRecord) -> list[str]:
    if op == "metadata":
        return [count(figures.ops_per_s)]
    p99 = figures.latency_us.p99
    return [
        megabytes(figures.rate_last_bytes_per_s),
        megabytes(figures.per_core_bytes_per_s),
        plain(p99 / 1000) if p99 is not None else ABSENT,
    ]


@printed
def iotest_text(console: Console, record: IotestRecord) -> None:
    """Print one table of all libraries, then what only some of them have, then the findings."""
    if any(library.phases for library in record.libraries):
        console.print(framed(_phases(record)))
    if any(library.repeats for library in record.libraries):
        console.print(framed(_repeats(record)))
        console.print(REPEAT_NOTE, style="dim")
    compared = [each for each in record.libraries if each.layouts is not None and each.layouts.figures]
    for library in compared:
        _print_layouts(console, library)
    if compared:
        console.print(METHOD, style="dim")
    for library in record.libraries:
        if (nodes := nodes_table(library)) is not None:
            console.print(framed(nodes))
        for table in _extras(library):
            console.print(framed(table))
    print_findings(console, record.findings)


def _phases(record: IotestRecord) -> Table:
    figures = ("streams", "MB/s", "MB/s per core", "required", "met", "p99 ms", "cached")
    libraries = (
        [
            *(_phase_row(library, phase) for phase in library.phases),
            *(
                _phase_row(library, phase, chosen=True)
                for phase in (library.layouts.phases if library.layouts else ())
            ),
        ]
        for library in record.libraries
    )
    return rows_table("Throughput (MB = 10^6 bytes)", columns_of(("library", "op"), figures), *libraries)


def _phase_row(library: LibraryRecord, phase: PhaseRecord, *, chosen: bool = False) -> list[str | Cell]:
    judged = phase.op in JUDGED and not chosen
    required = library.requires_bytes_per_s_per_core if judged else None
    p99 = phase.latency_us.p99
    rate = phase.rate_last_bytes_per_s
    return [
        library.library,
        f"{_named(phase)}, chosen" if chosen else _named(phase),
        str(phase.used.streams),
        f"{count(phase.ops_per_s)} op/s" if phase.op == "metadata" else megabytes(rate),
        against(phase.per_core_bytes_per_s, required),
        megabytes(required),
        _met(phase, required),
        plain(p99 / 1000) if p99 is not None else ABSENT,
        f"{phase.cached_fraction:.0%}" if phase.cached_fraction is not None else ABSENT,
    ]


def _named(phase: PhaseRecord) -> str:
    """The operation, and how it went where it did not go well."""
    state = phase.status if phase.status != "complete" else "disturbed" if phase.disturbed else ""
    named = f"{phase.op} {phase.repeat}" if phase.repeat else phase.op
    return f"{named} ({state})" if state else named


def _repeats(record: IotestRecord) -> Table:
    columns = columns_of(("library", "op", "figure"), [*(title.lower() for title in REPEAT_TITLES), "met"])
    rows = (
        [library.library, *row, _met_by_repeats(library, figure)]
        for library in record.libraries
        for figure, row in zip(library.repeats, repeats_rows(library.repeats), strict=True)
    )
    return rows_table("Repeats", columns, rows)


def _print_layouts(console: Console, library: LibraryRecord) -> None:
    """Print the figures in both layouts, and what they tell, a sentence for each operation."""
    layouts = library.layouts
    if layouts is None:
        return
    columns = columns_of(("op", "figure"), [title.lower() for title in LAYOUT_TITLES])
    rows = (layout_row(figure)[:-1] for figure in layouts.figures)
    console.print(framed(rows_table(f"{library.library}: two layouts of files", columns, rows)))
    console.print(f"Layouts: {layouts_note(layouts)}.", markup=False)
    for figure in layouts.figures:
        console.print(f"{figure.of}: {figure.verdict}.", style="bold", markup=False)


_WORDS: dict[Mark, str] = {
    "met": "yes",
    "missed": "no",
    "cached": "does not count",
    "partial": "not proven",
    "disturbed": "not proven",
    "untold": "cannot tell",
}


def _met_by_repeats(library: LibraryRecord, figure: RepeatedFigure) -> str | Cell:
    required = library.requires_bytes_per_s_per_core if figure.of in JUDGED else None
    if required is None or figure.of is None:
        return ABSENT
    return _met_word(mark_of_repeats(library, figure.of, judged=True))


def _met(phase: PhaseRecord, required: float | None) -> str | Cell:
    return ABSENT if required is None else _met_word(mark_of(phase, required, judged=True))


def _met_word(mark: Mark) -> str | Cell:
    return Cell(_WORDS[mark], mark) if mark in _WORDS else ABSENT


def _extras(library: LibraryRecord) -> list[Table]:
    tables = []
    for phase in library.phases:
        if phase.operations:
            columns = columns_of(["operation"], ["count", "seconds", "op/s"])
            rows = (
                (name, count(figures.count), plain(figures.seconds), count(figures.ops_per_s))
                for name, figures in phase.operations.items()
            )
            tables.append(rows_table(f"{library.library}: {_named(phase)}", columns, rows))
        if phase.steady:
            tables.append(_steady(library, phase, phase.steady))
    for sweep in library.sweeps:
        title = f"{library.library}: {sweep.op} by streams, knee at {sweep.knee_streams or ABSENT}"
        columns = columns_of((), ["streams", "MB/s", "MB/s per core", "of peak"])
        rows = (
            (
                str(point.streams),
                megabytes(point.rate_bytes_per_s),
                megabytes(point.per_core_bytes_per_s),
                _share(point, sweep.peak_bytes_per_s),
            )
            for point in sweep.points
        )
        tables.append(rows_table(title, columns, rows))
    return tables


def _share(point: SweepPoint, peak: float | None) -> str:
    return f"{point.rate_bytes_per_s / peak:.0%}" if point.rate_bytes_per_s and peak else ABSENT


def _steady(library: LibraryRecord, phase: PhaseRecord, steady: Steady) -> Table:
    row = (
        "yes" if steady.steady else "no",
        megabytes(steady.peak_bytes_per_s),
        plain(steady.peak_lasted_s),
        megabytes(steady.steady_bytes_per_s),
        ", ".join(plain(point) for point in steady.change_points_s) or ABSENT,
    )
    columns = columns_of(["steady"], ["peak MB/s", "lasted s", "steady MB/s", "changes at s"])
    return rows_table(f"{library.library}: {phase.op} until steady", columns, [row])


@printed
def checks_text(console: Console, checks: Sequence[NodeCheck]) -> None:
    """Print what was found wrong with nodes, the gravest first; nothing where nothing was."""
    print_findings(console, sorted(checks, key=lambda check: GRAVEST_FIRST[check.level]))


@printed
def verdict_text(console: Console, loaded: LoadedRun) -> None:
    """Print the verdict of a run as the report words it."""
    verdict = verdict_in_words(loaded.run, loaded.iotest, loaded.workload)
    style = {"met": "bold green", "missed": "bold red", "failed": "bold red"}.get(
        verdict.colour_key, "bold yellow"
    )
    console.print(f"verdict: {verdict.headline}", style=style, markup=False)
    console.print(verdict.sentence, markup=False)
    if verdict.not_shown:
        console.print(verdict.not_shown, markup=False)


def run_text(loaded: LoadedRun) -> str:
    """What one run measured and how it ended."""
    if loaded.sweep is not None:
        return f"{_head_text(loaded)}{sweep_text(loaded.sweep)}"
    iotest = iotest_text(loaded.iotest) if loaded.iotest else ""
    workload = workload_text(loaded.workload) if loaded.workload else ""
    return f"{_head_text(loaded)}{iotest}{workload}{verdict_text(loaded)}"


@printed
def _head_text(console: Console, loaded: LoadedRun) -> None:
    run = loaded.run
    console.print(f"run: {loaded.path}", markup=False)
    console.print(
        f"started {run.started}, finished {run.finished or ABSENT}, {run.status}, on {run.host.hostname} "
        f"({run.host.physical_cores} cores, {run.host.kernel})",
        markup=False,
    )


@printed
def runs_text(console: Console, found: Sequence[LoadedRun], now: datetime) -> None:
    """Print one line per run: its age, how it ended, and the figure closest to its requirement."""
    shared = len({entry.owner for entry in found}) > 1
    owner = ["owner"] if shared else []
    run = Column("run", words=True, wrap="fold")
    columns = columns_of([run, *owner, "age", "verdict", "grade", "required", "figure"])
    console.print(framed(rows_table("", columns, (_run_row(entry, shared, now) for entry in found))))


def _run_row(entry: LoadedRun, shared: bool, now: datetime) -> list[str]:
    summary = summarize(entry)
    return [
        entry.path.name,
        *([user_name(entry.owner)] if shared else []),
        age(seconds_since(entry.run.started, now)),
        KINDS[summary.kind],
        summary.grade or ABSENT,
        summary.requirement_text,
        summary.figure_text,
    ]


_UNITS = {
    "rate_last_bytes_per_s": ("MB/s", 1e6),
    "per_core_bytes_per_s": ("MB/s per core", 1e6),
    "latency_p50_us": ("latency p50 ms", 1e3),
    "latency_p99_us": ("latency p99 ms", 1e3),
    "ops_per_s": ("operations/s", 1.0),
    "cpu_s_per_gb": ("CPU s per GB", 1.0),
    "launch_real_s": ("real s", 1.0),
    "wall_s": ("real s of a repeat", 1.0),
    "launch_cpu_real_ratio": ("CPU/real", 1.0),
}


_OF_REPEATS = (
    "Medians of the repeats that count. Noise: of the repeats of either run, by Student's t. Least change "
    "told: what these repeats would tell in four comparisons out of five; more repeats tell smaller ones."
)


@printed
def comparison_text(console: Console, a: LoadedRun, b: LoadedRun, comparisons: Sequence[Comparison]) -> None:
    """Print the ratio of each figure of two runs with its noise, and what change repeats could tell."""
    repeats = any(entry.least_change is not None for entry in comparisons)
    columns = columns_of(
        ["library", "op", "figure"],
        ["A", "B", "B/A", "noise (95 %)", *(["least change told"] if repeats else []), ""],
    )
    words = {True: "differs", False: "within noise", None: ""}
    rows = []
    for entry in comparisons:
        unit, scale = _UNITS[entry.figure]
        row = [
            entry.library,
            entry.op,
            unit,
            plain(entry.a / scale if entry.a is not None else None),
            plain(entry.b / scale if entry.b is not None else None),
            f"{entry.ratio:.3f}" if entry.ratio is not None else ABSENT,
            f"± {entry.noise:.3f}" if entry.noise is not None else ABSENT,
            *([percent(entry.least_change)] if repeats else []),
            words[entry.differs],
        ]
        rows.append(row)
    console.print(framed(rows_table(f"A: {a.path.name}\nB: {b.path.name}", columns, rows)))
    if repeats:
        console.print(_OF_REPEATS, style="dim")
