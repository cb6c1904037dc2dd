"""Runs on the terminal, out of the same records as the report: throughput, workload, and a sweep of streams.

The classic results block of iotest.sh is there so that figures can be compared with those of papers. That
script prints, per stream: the size of its file, the average time of the streams, and the one divided by the
other. Its megabytes are MiB (2^20), see 003's results in paper OCI 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from gridwright.errors import GRAVEST_FIRST
from gridwright.report.figures import (
    ABSENT,
    against,
    age,
    count,
    duration,
    megabytes,
    plain,
    seconds,
    seconds_since,
)
from gridwright.report.iotest_nodes import node_phases, slowest
from gridwright.report.stream_sweep import curve_row
from gridwright.report.table import (
    Cell,
    Column,
    Mark,
    Table,
    columns_of,
    mark_of,
    mark_of_repeats,
    phase_of,
    rows_table,
)
from gridwright.report.tables import (
    LAYOUT_TITLES,
    REPEAT_NOTE,
    REPEAT_TITLES,
    layout_row,
    layouts_note,
    percent,
    repeats_rows,
)
from gridwright.report.terminal.frame import framed, print_findings, printed, say
from gridwright.report.verdict import KINDS, summarize, verdict_in_words
from gridwright.report.workload.nodes import side_by_side
from gridwright.report.workload.tables import (
    bound_name,
    gigabytes,
    minutes,
    ratio,
    ratio_range,
    ratio_width,
    tests,
)
from gridwright.runs.compare import Comparison
from gridwright.runs.directory import LoadedRun
from gridwright.runs.phase_record import METHOD, NodePhaseRecord, PhaseRecord, Steady, SweepPoint
from gridwright.runs.profiles import ReplayedJob
from gridwright.runs.records import IotestRecord, LibraryRecord, NodeCheck
from gridwright.runs.repeats import RepeatedFigure
from gridwright.runs.stream_sweep import CurvePoint, StreamSweepRecord, streams_text
from gridwright.runs.verdict import JUDGED
from gridwright.runs.workload_record import WorkloadRecord, WorkloadSummary
from gridwright.trusted import user_name
from gridwright.units import format_bytes

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
    "falling": "falling",
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


_FAILED_SHOWN = 5
_TESTS: dict[str, str | Column] = {
    "Test": Column("test", words=True, wrap="fold"),
    "Class": "class",
    "Bound by": "bound by",
    "Launches": "launches",
    "Failed": "failed",
    "Real s": "real s",
    "User s": "user s",
    "System s": "sys s",
    "Memory MB": "memory MB",
    "Ratio mean": "CPU/real",
}
_NODES: dict[str, str | Column] = {
    "Node": Column("node", words=True, wrap="fold"),
    "Bound by": "bound by",
    "Launches": "launches",
    "Failed": "failed",
    "Lost under": "lost",
    "Real min": "real min",
    "User CPU min": "user min",
    "System CPU min": "sys min",
    "CPU": "CPU",
    "Ratio mean": "ratio mean",
    "Ratio of the sums": "of sums",
}
_IN_ALL = (
    "launches", "failed", "real min", "user min", "sys min", "memory GB",
    "ratio mean", "stdev", "range", "width", "of sums",
)  # fmt: skip


@printed
def workload_text(console: Console, record: WorkloadRecord) -> None:
    """Print a table of all tests, the workload in all, failed launches, the diagnosis, the findings."""
    if (table := tests(record.tests, bound_name)) is not None:
        title = "Tests (means over launches that ran to their end; MB = 10^6 bytes)"
        console.print(framed(table.only(_TESTS, title)))
    if len(record.nodes) > 1:
        nodes = side_by_side(record.nodes, bound_name)
        console.print(framed(nodes.only(_NODES, nodes.caption)))
    console.print(framed(_in_all(record.summary)))
    console.print(_extent(record), markup=False)
    if record.repeats:
        console.print(framed(_workload_repeats(record)))
        console.print(REPEAT_NOTE, style="dim")
    _print_failed(console, record)
    _print_refused(console, record)
    if record.summary.diagnosis:
        console.print(record.summary.diagnosis, markup=False)
    print_findings(console, record.findings)


def _in_all(summary: WorkloadSummary) -> Table:
    figures = (
        count(summary.launches),
        Cell(count(summary.failed), "failed" if summary.failed else None),
        minutes(summary.real_s),
        minutes(summary.user_s),
        minutes(summary.system_s),
        gigabytes(summary.peak_memory_bytes),
        ratio(summary.ratio_mean),
        ratio(summary.ratio_stdev),
        ratio_range(summary),
        ratio_width(summary),
        ratio(summary.ratio_of_sums),
    )
    title = "In all (CPU/real: of single launches, and of the sums)"
    return rows_table(title, columns_of((), _IN_ALL), [figures])


def _workload_repeats(record: WorkloadRecord) -> Table:
    test = Column("test", words=True, wrap="fold")
    columns = columns_of((test, "figure"), [title.lower() for title in REPEAT_TITLES])
    return rows_table("Repeats", columns, repeats_rows(record.repeats))


def _extent(record: WorkloadRecord) -> str:
    """How the workload was run, in a line; what is not known is left out."""
    summary = record.summary
    parts = [
        ("matrix", record.matrix or ABSENT),
        ("scale", record.scale or ABSENT),
        ("seed", ABSENT if record.seed is None else str(record.seed)),
        ("blocks", ABSENT if record.block_bytes is None else format_bytes(record.block_bytes)),
        ("streams", count(record.streams)),
        ("wall time", duration(summary.wall_s)),
        ("at once until the tail", plain(summary.mean_concurrency_until_tail)),
    ]
    if summary.cached_read_bytes is not None:
        parts.append(("read from the page cache", format_bytes(summary.cached_read_bytes)))
    if summary.queued_s_mean is not None:
        parts.append(("launch to launch", seconds(summary.harness_s_mean)))
        parts.append(("of that from job to launch", seconds(summary.queued_s_mean)))
    return ", ".join(f"{name} {text}" for name, text in parts if text != ABSENT)


def _print_failed(console: Console, record: WorkloadRecord) -> None:
    failed = [launch for launch in record.launches if not launch.ok]
    for launch in failed[:_FAILED_SHOWN]:
        reason = launch.reason or "no reason known"
        log = f" (log: {launch.log})" if launch.log else ""
        console.print(
            f"failed: {launch.test} (launch {launch.number}): {reason}{log}", style="red", markup=False
        )
    if len(failed) > _FAILED_SHOWN:
        console.print(f"{len(failed) - _FAILED_SHOWN} more failed; the report names them", style="red")


def _print_refused(console: Console, record: WorkloadRecord) -> None:
    for each in record.refused:
        console.print(f"refused: {each.log}: {each.reason}\n  {each.remedy}", style="red", markup=False)


@printed
def replay_text(console: Console, jobs: Sequence[ReplayedJob]) -> None:
    """Print a row for each job: how long it took, and how long its replay."""
    columns = columns_of(
        [Column("job", words=True, wrap="fold")],
        ["launches", "job real s", "replay real s", "replay CPU s", "replay / job"],
    )
    rows = (
        (
            job.test,
            count(job.launches),
            plain(job.job_real_s),
            plain(job.real_s),
            plain(job.cpu_s),
            ratio(job.ratio),
        )
        for job in jobs
    )
    title = "Replay (medians over launches that ran to their end)"
    console.print(framed(rows_table(title, columns, rows)))


_WIDTH = 20
"""Characters of a bar that is as long as a ratio of 1."""
_VERDICTS = {
    True: Cell("holds", "met"),
    False: Cell("too many", "missed"),
    None: Cell("not judged"),
}


@printed
def sweep_text(console: Console, record: StreamSweepRecord) -> None:
    """Print each number of streams in order, why some do not hold, the answer, and findings."""
    say(
        console, f"sweep of {record.matrix}{f', scale {record.scale}' if record.scale else ''}: {record.rule}"
    )
    if record.curve:
        columns = columns_of(
            ["", "largest wait", "verdict"], ["streams", "steps", "CPU/real", "launches/h", "wall time"]
        )
        title = "Numbers of streams (medians over their steps)"
        console.print(framed(rows_table(title, columns, map(_row, record.curve))))
    for point in record.curve:
        if point.why and point.streams != record.falls_at:
            say(console, f"{streams_text(point.streams)}: {point.why}", indent=2)
    if record.required_ratio is not None:
        of = "required" if record.required_by == "spec" else "0.9 of that of one stream alone"
        say(console, f"CPU/real {record.required_ratio:.3f} is the least ({of})")
    style = "bold green" if record.ended_by == "knee" and record.carries else "bold yellow"
    console.print(Text(record.answer, style=style))
    if record.assumptions:
        say(console, "Assumed:")
    for line in record.assumptions:
        say(console, line, indent=2)
    print_findings(console, record.findings)


def _row(point: CurvePoint) -> list[str | Cell]:
    waits = {cause: seconds for cause, seconds in point.waits_s.items() if cause != "cpu"}
    largest = max(waits, key=lambda cause: waits[cause], default=None)
    return [
        "#" * round(_WIDTH * min(1.0, point.ratio or 0.0)),
        f"{largest} {plain(waits[largest])} s" if largest else ABSENT,
        _VERDICTS[point.held],
        *curve_row(point)[:-1],
    ]


MIB = 2**20
_RULE = "*" * 79


def classic_blocks(record: IotestRecord, invocation: str) -> str:
    """One block per library; absent figures print as `n/a`."""
    return "\n".join(_block(library, invocation) for library in record.libraries)


def _block(library: LibraryRecord, invocation: str) -> str:
    lines = [_RULE, "RESULTS", "-------", _line("INVOCATION", invocation), "", "TARGET DETAILS"]
    lines.append(_line("  directory", library.path))
    device = library.device or {}
    lines.append(_line("  df -k", _df(device)))
    lines.append(
        _line(
            "  mount point",
            "{} on {} type {} ({})".format(
                *(device.get(key, "n/a") for key in ("source", "mount_point", "filesystem_type", "options"))
            ),
        )
    )
    file_mib = next((size for op in ("write", "read") if (size := _file_mib(_phase(library, op)))), None)
    lines.append(_line("  filesize", f"{file_mib:.2f} megabytes" if file_mib else "n/a"))
    lines += ["", "STATISTICS"]
    for op in ("read", "write"):
        seconds, rate = _stream_figures(_phase(library, op))
        lines.append(_line(f"  average {op} time", f"{seconds:.2f} seconds per stream" if seconds else "n/a"))
        lines.append(
            _line(
                f"  average {op} throughput rate",
                f"{rate:.2f} megabytes/second per stream" if rate else "n/a",
            )
        )
    lines += ["", f"(megabytes are 2^20 bytes; {library.streams} streams at once)", _RULE]
    return "\n".join(lines) + "\n"


def _line(name: str, value: str) -> str:
    return f"{name + ':':<33}{value}"


def _phase(library: LibraryRecord, op: str) -> PhaseRecord | None:
    """The last phase of an operation; of a test that was repeated, that of the median."""
    if library.repeats:
        return phase_of(library, op)
    return next((phase for phase in reversed(library.phases) if phase.op == op), None)


def _file_mib(phase: PhaseRecord | None) -> float | None:
    if phase is None or not phase.bytes or not phase.per_stream_seconds:
        return None
    return phase.bytes / len(phase.per_stream_seconds) / MIB


def _stream_figures(phase: PhaseRecord | None) -> tuple[float | None, float | None]:
    size = _file_mib(phase)
    if phase is None or size is None or phase.cached:
        return None, None
    seconds = sum(phase.per_stream_seconds) / len(phase.per_stream_seconds)
    return seconds, size / seconds if seconds else None


def _df(device: Mapping[str, object]) -> str:
    """Sizes when the test began, as `df -k` prints them: 1K-blocks, used, available, use."""
    sizes = [device.get(key) for key in ("total_bytes", "used_bytes", "available_bytes")]
    total, used, available = (size / 1024 if isinstance(size, int) else None for size in sizes)
    if total is None or used is None or available is None:
        return "n/a"
    share = used / (used + available) if used + available else 0.0
    return f"{total:.0f} {used:.0f} {available:.0f} {share:.0%}"
