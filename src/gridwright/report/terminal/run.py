"""Tables on the terminal, out of the same records as the report."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from gridwright.report.figures import ABSENT, against, count, megabytes, plain
from gridwright.report.terminal.frame import framed_table, print_findings, printed
from gridwright.report.terminal.nodes import nodes_table
from gridwright.report.terminal.workload import workload_text
from gridwright.report.verdict import Mark, judge, mark_of
from gridwright.runs.compare import Comparison
from gridwright.runs.directory import LoadedRun
from gridwright.runs.judge import JUDGED
from gridwright.runs.records import IotestRecord, LibraryRecord, NodeCheck, PhaseRecord, Steady, SweepPoint


@printed
def iotest_text(console: Console, record: IotestRecord) -> None:
    """Print one table of all libraries, then what only some of them have, then the findings."""
    if any(library.phases for library in record.libraries):
        console.print(_phases(record))
    for library in record.libraries:
        if (nodes := nodes_table(library)) is not None:
            console.print(nodes)
        for table in _extras(library):
            console.print(table)
    print_findings(console, record.findings)


def _phases(record: IotestRecord) -> Table:
    table = framed_table(
        "Throughput (MB = 10^6 bytes)",
        ["library", "op"],
        ["streams", "MB/s", "MB/s per core", "required", "met", "p99 ms", "cached"],
    )
    for library in record.libraries:
        for phase in library.phases:
            table.add_row(*_phase_row(library, phase))
        table.add_section()
    return table


def _phase_row(library: LibraryRecord, phase: PhaseRecord) -> list[str]:
    judged = phase.op in JUDGED
    required = library.requires_bytes_per_s_per_core if judged else None
    p99 = phase.latency_us.p99
    rate = phase.rate_last_bytes_per_s
    return [
        library.library,
        phase.op if phase.status == "complete" else f"{phase.op} ({phase.status})",
        str(phase.used.streams),
        f"{count(phase.ops_per_s)} op/s" if phase.op == "metadata" else megabytes(rate),
        against(phase.per_core_bytes_per_s, required),
        megabytes(required),
        _met(phase, required),
        plain(p99 / 1000) if p99 is not None else ABSENT,
        f"{phase.cached_fraction:.0%}" if phase.cached_fraction is not None else ABSENT,
    ]


_WORDS: dict[Mark, str] = {
    "met": "[green]yes[/]",
    "missed": "[bold red]no[/]",
    "cached": "does not count",
    "partial": "not proven",
}


def _met(phase: PhaseRecord, required: float | None) -> str:
    return ABSENT if required is None else _WORDS.get(mark_of(phase, required, judged=True), ABSENT)


def _extras(library: LibraryRecord) -> list[Table]:
    tables = []
    for phase in library.phases:
        if phase.operations:
            table = framed_table(f"{library.library}: metadata", ["operation"], ["count", "seconds", "op/s"])
            for name, figures in phase.operations.items():
                table.add_row(name, count(figures.count), plain(figures.seconds), count(figures.ops_per_s))
            tables.append(table)
        if phase.steady:
            tables.append(_steady(library, phase, phase.steady))
    for sweep in library.sweeps:
        title = f"{library.library}: {sweep.op} by streams, knee at {sweep.knee_streams or ABSENT}"
        table = framed_table(title, [], ["streams", "MB/s", "MB/s per core", "of peak"])
        for point in sweep.points:
            table.add_row(
                str(point.streams),
                megabytes(point.rate_bytes_per_s),
                megabytes(point.per_core_bytes_per_s),
                _share(point, sweep.peak_bytes_per_s),
            )
        tables.append(table)
    return tables


def _share(point: SweepPoint, peak: float | None) -> str:
    return f"{point.rate_bytes_per_s / peak:.0%}" if point.rate_bytes_per_s and peak else ABSENT


def _steady(library: LibraryRecord, phase: PhaseRecord, found: Steady) -> Table:
    table = framed_table(
        f"{library.library}: {phase.op} until steady",
        ["steady"],
        ["peak MB/s", "lasted s", "steady MB/s", "changes at s"],
    )
    table.add_row(
        "yes" if found.steady else "no",
        megabytes(found.peak_bytes_per_s),
        plain(found.peak_lasted_s),
        megabytes(found.steady_bytes_per_s),
        ", ".join(plain(point) for point in found.change_points_s) or ABSENT,
    )
    return table


@printed
def checks_text(console: Console, checks: Sequence[NodeCheck]) -> None:
    """Print what was found wrong with nodes, the gravest first; nothing where nothing was."""
    order = {"error": 0, "warning": 1, "info": 2}
    print_findings(console, sorted(checks, key=lambda check: order[check.level]))


@printed
def verdict_text(console: Console, loaded: LoadedRun) -> None:
    """Print the verdict of a run as the report words it."""
    verdict = judge(loaded.run, loaded.iotest, loaded.workload)
    style = {"met": "bold green", "missed": "bold red", "failed": "bold red"}.get(verdict.kind, "bold yellow")
    console.print(f"verdict: {verdict.headline}", style=style, markup=False)
    console.print(verdict.sentence, markup=False)


def run_text(loaded: LoadedRun) -> str:
    """What one run measured and how it ended."""
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
def runs_text(console: Console, found: Sequence[LoadedRun]) -> None:
    """Print one line per run."""
    table = framed_table("", ["run", "started", "status", "met"], [])
    words = {True: "yes", False: "no", None: ABSENT}
    for entry in found:
        table.add_row(entry.path.name, entry.run.started, entry.run.status, words[entry.run.met])
    console.print(table)


_UNITS = {
    "rate_last_bytes_per_s": ("MB/s", 1e6),
    "per_core_bytes_per_s": ("MB/s per core", 1e6),
    "latency_p50_us": ("latency p50 ms", 1e3),
    "latency_p99_us": ("latency p99 ms", 1e3),
    "ops_per_s": ("operations/s", 1.0),
    "cpu_s_per_gb": ("CPU s per GB", 1.0),
    "launch_real_s": ("real s", 1.0),
    "launch_cpu_real_ratio": ("CPU/real", 1.0),
}


@printed
def comparison_text(console: Console, a: LoadedRun, b: LoadedRun, comparisons: Sequence[Comparison]) -> None:
    """Print the ratio of each figure of two runs with its noise."""
    table = framed_table(
        f"A: {a.path.name}\nB: {b.path.name}",
        ["library", "op", "figure"],
        ["A", "B", "B/A", "noise (95 %)", ""],
    )
    words = {True: "differs", False: "within noise", None: ""}
    for entry in comparisons:
        unit, scale = _UNITS[entry.figure]
        table.add_row(
            entry.library,
            entry.op,
            unit,
            plain(entry.a / scale if entry.a is not None else None),
            plain(entry.b / scale if entry.b is not None else None),
            f"{entry.ratio:.3f}" if entry.ratio is not None else ABSENT,
            f"± {entry.noise:.3f}" if entry.noise is not None else ABSENT,
            words[entry.differs],
        )
    console.print(table)
