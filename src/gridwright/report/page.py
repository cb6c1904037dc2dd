"""The page: the run's values, charts and tables, set into one self-contained HTML file.

What the banner says after the verdict: why a run failed, and what to do next.
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gridwright.atomic import write_atomically
from gridwright.errors import GRAVEST_FIRST, environment_error
from gridwright.handed_files import open_file
from gridwright.refusals import refusal
from gridwright.report import bars, charts, iotest_nodes, tables
from gridwright.report.charts import Timeline, timelines
from gridwright.report.document import ContentsEntry, contents_of, rendered
from gridwright.report.figures import clock, count, duration, moment
from gridwright.report.plot import Chart
from gridwright.report.stream_sweep import sweep_page
from gridwright.report.table import Table, phase_of
from gridwright.report.tables import layouts_table, repeats_table
from gridwright.report.verdict import Verdict, verdict_in_words
from gridwright.report.workload.part import WorkloadPart, data_facts, workload_part
from gridwright.runs.directory import REPORT_FILE, LoadedRun, load_run
from gridwright.runs.phase_record import PhaseRecord
from gridwright.runs.records import FindingRecord, IotestRecord, LibraryRecord, RunRecord, figures_of
from gridwright.runs.samples import SampleRow
from gridwright.runs.verdict import JUDGED_KINDS
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.units import counted

_MAY_NOT = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_LOOK = (
    "gridwright doctor looks for settings that cost throughput, and gridwright predict --explain names what "
    "binds each library; the figures are below."
)


@dataclass(frozen=True, slots=True)
class NextStep:
    """The reason of a failure, empty where nothing failed, and what to do; either is a sentence."""

    reason: str = ""
    step: str = ""
    command: str = ""
    """A command to run, which stands after the step."""


def next_step(
    verdict: Verdict, findings: Sequence[FindingRecord], repeat: str, checks: Sequence[FindingRecord] = ()
) -> NextStep:
    """What to do after a verdict; `findings` are in the order of their gravity, with the `checks` of nodes.

    A run whose requirements are met, or that goes on, needs nothing.
    """
    step = _next_step(verdict, findings, repeat, {check.name for check in checks})
    return replace(step, reason=_sentence(step.reason), step=_sentence(step.step))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _next_step(
    verdict: Verdict, findings: Sequence[FindingRecord], repeat: str, checks: Collection[str]
) -> NextStep:
    errors = [finding for finding in findings if finding.level == "error"]
    grave = [finding for finding in findings if finding.level != "info"]
    # What nodes are like may make a grid slow; it is not what keeps a figure from being judged.
    told = [finding for finding in grave if finding.name not in checks]
    first = next(iter([*told, *grave] if verdict.kind == "unproven" else grave), None)
    if verdict.kind == "failed":
        if errors:
            return NextStep(errors[0].text, errors[0].remedy)
        return NextStep("", "Run it again:", repeat)
    if verdict.kind == "interrupted":
        return NextStep(errors[0].text if errors else "", "Run it again:", repeat)
    if verdict.kind in ("missed", "unproven"):
        if first is not None:
            return NextStep(first.text if first.level == "error" else "", first.remedy)
        return NextStep("", _LOOK) if verdict.kind == "missed" else NextStep()
    return NextStep()


@dataclass(frozen=True, slots=True)
class ReportInput:
    """All that a report is made of; it reads no file and asks no machine.

    `samples` are the rows of `samples.parquet`.
    """

    run: RunRecord
    iotest: IotestRecord | None
    samples: Sequence[SampleRow]
    repeat_command: str
    workload: WorkloadRecord | None = None


@dataclass(frozen=True, slots=True)
class PageSection:
    """One library on the page."""

    name: str
    anchor: str
    place: str
    scale: str
    """Streams, cores and nodes, in words."""
    charts: tuple[Chart, ...]
    tables: tuple[Table, ...]


def render_report(run: ReportInput) -> str:
    """The report of a run as one HTML file that opens offline; verdict first."""
    verdict = verdict_in_words(run.run, run.iotest, run.workload)
    sections = _sections(run, verdict)
    workload = workload_part(run.workload, run.samples) if run.workload else None
    overview = bars.required_chart(verdict.libraries)
    shown = [*([overview] if overview else []), *(chart for section in sections for chart in section.charts)]
    shown += workload.charts if workload else ()
    findings = _findings(run)
    table = tables.requested_and_used(run.iotest)
    entries = _contents(verdict, sections, table is not None, workload is not None)
    return rendered(
        "report.html.j2",
        shown,
        title=f"{verdict.headline} – {run.run.heading.get('title', run.run.name)}",  # noqa: RUF001 - a dash as type has it
        heading=run.run.heading.get("title", ""),
        next_step=next_step(verdict, findings, run.repeat_command, run.run.checks),
        contents=entries,
        verdict=verdict,
        subject=_subject(bool(sections), workload),
        workload=workload,
        run=run.run,
        facts=_run_facts(run.run),
        overview=overview,
        sections=sections,
        findings=findings,
        environment=_environment_facts(run),
        devices=_devices(run.iotest),
        nodes=iotest_nodes.facts_table(run.iotest.nodes) if run.iotest else None,
        asked=table,
        looked_for_steady=_looked_for_steady(run.iotest),
        repeat_command=run.repeat_command,
    )


def _contents(
    verdict: Verdict, sections: Sequence[PageSection], asked: bool, workload: bool
) -> tuple[ContentsEntry, ...]:
    """The parts of the page in its order."""
    entries: list[ContentsEntry | None] = [
        ContentsEntry("Findings", "findings-title"),
        ContentsEntry("Libraries", "scores-title") if verdict.libraries else None,
        *(ContentsEntry(section.name, section.anchor) for section in sections),
        ContentsEntry("Mixed workload", "workload") if workload else None,
        ContentsEntry("Environment", "environment-title"),
        ContentsEntry("How the figures were obtained", "method-title"),
        ContentsEntry("Asked and used", "asked-title") if asked else None,
        ContentsEntry("Repeat this run", "repeat-title"),
    ]
    return contents_of(entries)


def _looked_for_steady(iotest: IotestRecord | None) -> bool:
    return any(phase.steady for record in (iotest.libraries if iotest else []) for phase in record.phases)


def _sections(run: ReportInput, verdict: Verdict) -> list[PageSection]:
    """The libraries in the order of the test, then those of which only samples are left."""
    lines = timelines(run.samples)
    records = run.iotest.libraries if run.iotest else []
    judged = verdict.kind in JUDGED_KINDS
    sections = [
        _section(record, lines.get(record.library), f"library-{i}", judged)
        for i, record in enumerate(records)
    ]
    known = {record.library for record in records}
    rest = [line for library, line in lines.items() if library not in known]
    for i, line in enumerate(rest, start=len(records)):
        chart = charts.time_chart(line, None, [], f"library-{i}")
        what = "interrupted before its figures were complete; only samples are left"
        drawn = (chart,) if chart else ()
        sections.append(PageSection(line.library, f"library-{i}", "", what, drawn, (tables.over_time(line),)))
    return sections


def _section(record: LibraryRecord, line: Timeline | None, anchor: str, judged: bool) -> PageSection:
    required = record.requires_bytes_per_s_per_core
    drawn: list[Chart | None] = []
    if line:
        wanted = required * record.total_cores if required else None
        drawn.append(charts.time_chart(line, wanted, record.phases, anchor))
    drawn.append(charts.latency_chart(_speaking(record), anchor))
    drawn.append(iotest_nodes.nodes_chart(record, anchor))
    drawn.append(charts.sweep_chart(record.sweeps, anchor))
    held = [
        tables.rates(record, judged),
        layouts_table(record),
        repeats_table(record.repeats, "Operation"),
        iotest_nodes.nodes_table(record),
        tables.methods(record),
        tables.steady(record),
        tables.over_time(line) if line else None,
        tables.latencies(record),
        tables.mixed(record),
        tables.metadata(record),
        tables.sweeps(record),
    ]
    return PageSection(
        record.library,
        anchor,
        " · ".join(part for part in (record.path, record.filesystem) if part),
        _scale(record),
        tuple(chart for chart in drawn if chart),
        tuple(table for table in held if table),
    )


def _speaking(record: LibraryRecord) -> list[PhaseRecord]:
    """The phases of a library; of one that was repeated, of each operation the repeat of the median."""
    if not record.repeats:
        return record.phases
    return [phase for repeat in record.repeats if (phase := phase_of(record, repeat.of or ""))]


def _scale(record: LibraryRecord) -> str:
    each = " per node" if record.nodes > 1 else ""
    cores = counted(record.cores, "core") + each
    if record.all_cores is not None:
        cores = f"up to {cores}, {count(record.all_cores)} in all"
    parts = [
        f"{counted(record.streams, 'stream')}{each}",
        cores,
        counted(record.nodes, "node"),
        f"measured for {tables.measured_seconds(record)}",
    ]
    return " · ".join(parts)


def _run_facts(run: RunRecord) -> list[tuple[str, str]]:
    started, finished = moment(run.started), moment(run.finished)
    took = duration((finished - started).total_seconds()) if started and finished else ""
    facts = [
        ("Customer", run.heading.get("customer", "")),
        ("Site", run.heading.get("site", "")),
        ("Run", run.name),
        ("Started", clock(run.started)),
        ("Took", took),
        ("Host", run.host.hostname),
        ("Gridwright", run.software.get("gridwright", "")),
    ]
    return [(name, text) for name, text in facts if text]


def _subject(throughput: bool, workload: WorkloadPart | None) -> str:
    """What the report is on, for its head."""
    if workload is None:
        return "throughput report"
    return "throughput and workload report" if throughput else "workload report"


def _findings(run: ReportInput) -> list[FindingRecord]:
    """Findings of the run and of its parts, once each, the gravest first."""
    parts = [part.findings for part in (run.iotest, run.workload) if part]
    all_of_them = [*run.run.findings, *(finding for findings in parts for finding in findings)]
    once = {(finding.name, finding.text): finding for finding in all_of_them}
    return sorted(once.values(), key=lambda finding: GRAVEST_FIRST[finding.level])


def _environment_facts(run: ReportInput) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    host: dict[str, Any] = run.run.host.model_dump()
    return [
        ("Host", tables.facts(host)),
        ("Software", tables.facts(dict(run.run.software))),
        ("Data set of the workload", data_facts(run.workload)),
    ]


def _devices(iotest: IotestRecord | None) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """What lies below each library; libraries on the same device share one list."""
    shared: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for record in iotest.libraries if iotest else []:
        facts = tables.facts(record.device)
        if facts:
            shared.setdefault(facts, []).append(record.library)
    return [(", ".join(names), facts) for facts, names in shared.items()]


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write `report.html` into the run directory, or to `out`; returns its path.

    Where this user may write nothing beside a run, as beside one of another user's, the report that is there
    and newer than what was measured is the one. Raises GridwrightError if the run cannot be loaded or the
    file cannot be written.
    """
    loaded = load_run(run)
    path = out if out is not None else run / REPORT_FILE
    with figures_of(run):
        page = _page(loaded)
    try:
        write_atomically(path, page)
    except OSError as error:
        if out is None and error.errno in _MAY_NOT and _is_current(path):
            return path
        why = refusal(path, error, "give another place with --out FILE", writes=True)
        raise environment_error(
            f"the report cannot be written: {why.reason}", where=str(path), remedy=why.remedy
        ) from error
    return path


def _is_current(report: Path) -> bool:
    """Whether a report can be read, and nothing of its run was written after it."""
    try:
        with open_file(report, follows=False) as file:
            written = os.fstat(file.fileno()).st_mtime_ns
        rest = [entry.stat() for entry in report.parent.iterdir() if entry.is_file() and entry != report]
    except OSError:
        return False
    return all(each.st_mtime_ns <= written for each in rest)


def _page(loaded: LoadedRun) -> str:
    command = shlex.join(loaded.run.command)
    if loaded.sweep is not None:
        return sweep_page(loaded.sweep, loaded.run, command)
    return render_report(
        ReportInput(
            run=loaded.run,
            iotest=loaded.iotest,
            samples=loaded.samples,
            repeat_command=command,
            workload=loaded.workload,
        )
    )
