"""The tables of the mixed workload in plain text cells, published results beside them, and its verdict."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from gridwright.model.workload_figures import TestPrediction
from gridwright.report.figures import ABSENT, GB, count, duration, finite, megabytes, plain, volume
from gridwright.report.table import Cell, Table, table_of
from gridwright.runs.launch_record import LaunchRecord, StepRecord
from gridwright.runs.records import interference_of_launches
from gridwright.runs.workload_events import ImportRefused
from gridwright.runs.workload_judge import JudgedRequirement, ratio_of
from gridwright.runs.workload_record import TestSummary, WorkloadRecord, WorkloadSummary
from gridwright.units import counted


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One published row; figures stand as they were printed, and are empty where none was."""

    fact_id: str
    source: str
    date: str
    title: str
    file_system: str
    counted: str
    """What launches and minutes count: the whole grid, or each node."""
    launches: str
    real_minutes: str
    memory_gb: str
    user_cpu_minutes: str
    system_cpu_minutes: str
    ratio_mean: str
    ratio_stdev: str
    ratio_range: str

    @property
    def ratio_of_sums(self) -> float | None:
        """All CPU minutes over all real minutes; the papers do not print it."""
        real, user, system = (
            finite(float(text)) if text else None
            for text in (self.real_minutes, self.user_cpu_minutes, self.system_cpu_minutes)
        )
        return (user + system) / real if real and user is not None and system is not None else None


def published_workloads() -> list[PublishedRun]:
    """The published rows, in the order of the data file."""
    text = files("gridwright.report").joinpath("data", "published_workloads.csv").read_text(encoding="utf-8")
    return [PublishedRun(**row) for row in csv.DictReader(text.splitlines())]


LONGEST = 40
"""A table of more rows is folded, so that what follows it is found."""
MOST = 500
"""A table of all launches has no more rows, so that the page stays small; the record has all of them."""
_LAUNCH_WORDS = "Test|Class|Bound by|Ended|Node"
_NOT_COMPARED = (
    "The headlines of published test beds, 0.95 to 1.15, are means of the ratios of single launches: compare "
    "them with “Ratio mean”. The ratio of the sums, all CPU time over all real time, is another figure."
)
_PUBLISHED = (
    "As printed; the ratio of the sums is computed here from the printed minutes. Launches and minutes are "
    "of the whole grid, of one host, or of each of three nodes, as the row says, and the tests were others: "
    "only the ratios can be laid beside a run."
)


def ratio(value: object) -> str:
    """A CPU/real ratio, as the papers print it."""
    number = finite(value)
    return ABSENT if number is None else f"{number:,.2f}"


def minutes(value: object) -> str:
    """Seconds as minutes."""
    number = finite(value)
    return ABSENT if number is None else plain(number / 60)


def gigabytes(value: object) -> str:
    """Bytes in GB (10^9)."""
    number = finite(value)
    return ABSENT if number is None else plain(number / GB)


def bound_words(bound: str | None) -> str:
    """What held a launch, as it is said in a sentence."""
    return {"cpu": "CPU", "core": "waiting for a core", "other": "something else"}.get(
        bound or "", bound or ABSENT
    )


def bound_name(bound: str | None) -> str:
    """What held a launch, as records name it."""
    return bound or ABSENT


def ratio_range(summary: WorkloadSummary) -> str:
    """From the least ratio to the greatest."""
    low, high = finite(summary.ratio_min), finite(summary.ratio_max)
    return ABSENT if low is None or high is None else f"{ratio(low)} to {ratio(high)}"


def ratio_width(summary: WorkloadSummary) -> str:
    """The greatest ratio less the least: what the papers call the range."""
    low, high = finite(summary.ratio_min), finite(summary.ratio_max)
    return ABSENT if low is None or high is None else ratio(high - low)


def in_all(summary: WorkloadSummary) -> Table:
    """The workload in one row, in the shape of the published tables."""
    deviation = finite(summary.ratio_stdev)
    table = table_of(
        "In all",
        [summary],
        {
            "Workload": lambda _: "This run",
            "Launches": lambda s: count(s.launches),
            "Real min": lambda s: minutes(s.real_s),
            "Memory GB": lambda s: gigabytes(s.peak_memory_bytes),
            "User CPU min": lambda s: minutes(s.user_s),
            "System CPU min": lambda s: minutes(s.system_s),
            "Ratio mean": lambda s: ratio(s.ratio_mean),
            "Std. deviation": lambda _: ABSENT if deviation is None else f"{deviation:.3f}",
            "Range": ratio_range,
            "Width": ratio_width,
            "Ratio of the sums": lambda s: ratio(s.ratio_of_sums),
        },
    )
    return replace(table, note=_NOT_COMPARED)


def published() -> Table:
    """Results of published test beds, in the same columns."""

    def shown(name: str) -> Callable[[PublishedRun], str]:
        return lambda row: getattr(row, name) or ABSENT

    table = table_of(
        "Published, for comparison",
        published_workloads(),
        {
            "Published": shown("file_system"),
            "Counted": shown("counted"),
            "Launches": shown("launches"),
            "Real min": lambda row: _grouped(row.real_minutes),
            "Memory GB": shown("memory_gb"),
            "User CPU min": lambda row: _grouped(row.user_cpu_minutes),
            "System CPU min": shown("system_cpu_minutes"),
            "Ratio mean": shown("ratio_mean"),
            "Std. deviation": shown("ratio_stdev"),
            "Width": shown("ratio_range"),
            "Ratio of the sums": lambda row: ratio(row.ratio_of_sums),
        },
        "Counted",
    )
    sources = dict.fromkeys(f"{row.source}: {row.title}, {row.date}" for row in published_workloads())
    return replace(table, note=f"{_PUBLISHED} Sources: {'; '.join(sources)}.")


def _grouped(text: str) -> str:
    return f"{int(text):,}" if text.isdecimal() else text or ABSENT


def tests(summaries: Sequence[TestSummary], bound: Callable[[str | None], str] = bound_words) -> Table | None:
    """One row per test: means over its launches; `bound` words what bound them."""
    if not summaries:
        return None
    table = table_of(
        "Tests: means over the launches that ran to their end",
        summaries,
        {
            "Test": lambda t: t.test,
            "Class": lambda t: t.class_,
            "Launches": lambda t: count(t.launches),
            "Failed": lambda t: Cell(count(t.failed), "failed") if t.failed else "0",
            "Real s": lambda t: plain(t.real_s_mean),
            "User s": lambda t: plain(t.user_s_mean),
            "System s": lambda t: plain(t.system_s_mean),
            "Memory MB": lambda t: megabytes(t.peak_memory_bytes_mean),
            "Ratio mean": lambda t: ratio(t.ratio_mean),
            "Bound by": lambda t: bound(t.bound_by),
        },
        "Test|Class|Bound by",
    )
    return replace(table, folded=len(summaries) > LONGEST)


def predicted_tests(
    summaries: Sequence[TestPrediction], bound: Callable[[str | None], str] = bound_words
) -> Table:
    """One row per test of a predicted workload: means over its launches."""
    return table_of(
        "Tests: means over the launches",
        summaries,
        {
            "Test": lambda t: t.test,
            "Class": lambda t: t.class_,
            "Launches": lambda t: count(t.launches),
            "Real s": lambda t: plain(t.real_s),
            "CPU s": lambda t: plain(t.cpu_s),
            "Ratio": lambda t: ratio(t.ratio),
            "Bound by": lambda t: bound(t.bound_by),
        },
        "Test|Class|Bound by",
    )


def failed(launches: Sequence[LaunchRecord]) -> Table | None:
    """The launches that failed, and why."""
    rows = [launch for launch in launches if not launch.ok]
    if not rows:
        return None
    table = table_of(
        "Failed launches",
        rows,
        {
            "Launch": lambda x: str(x.number),
            "Test": lambda x: x.test,
            "Stream": lambda x: str(x.stream),
            "Real s": lambda x: plain(x.real_s),
            "Exit": _exit,
            "Reason": lambda x: x.reason or "no reason known",
            "Log": lambda x: x.log or ABSENT,
        },
        "Test|Reason|Log",
    )
    return replace(table, folded=len(rows) > LONGEST)


def refused(rows: Sequence[ImportRefused]) -> Table | None:
    """The logs that could not be imported, and why."""
    if not rows:
        return None
    columns = {"Log": lambda x: x.log, "Reason": lambda x: x.reason, "Remedy": lambda x: x.remedy}
    return replace(table_of("Refused logs", rows, columns, "Log|Reason|Remedy"), folded=len(rows) > LONGEST)


def _exit(launch: LaunchRecord) -> str:
    if launch.signal:
        return launch.signal
    return ABSENT if launch.exit_status is None else str(launch.exit_status)


def launches(rows: Sequence[LaunchRecord], start: float | None) -> Table | None:
    """Every launch, or those that failed or took longest; `start` (Unix time) is when the first began."""
    if not rows:
        return None
    shown = rows
    if len(rows) > MOST:
        longest = sorted(rows, key=lambda x: (x.ok, -(finite(x.real_s) or 0.0)))[:MOST]
        shown = sorted(longest, key=lambda x: x.number)

    def began(launch: LaunchRecord) -> str:
        moment = finite(launch.started)
        return ABSENT if moment is None or start is None else plain(moment - start)

    columns: dict[str, Callable[[LaunchRecord], str | Cell]] = {
        "Launch": lambda x: str(x.number),
        "Test": lambda x: x.test,
        "Class": lambda x: x.class_,
        "Stream": lambda x: str(x.stream),
        "Began s": began,
        "Real s": lambda x: plain(x.real_s),
        "User s": lambda x: plain(x.user_s),
        "System s": lambda x: plain(x.system_s),
        "Memory MB": lambda x: megabytes(x.peak_memory_bytes),
        "Read": lambda x: volume(x.read_bytes),
        "Written": lambda x: volume(x.written_bytes),
        "Cached reads": lambda x: volume(x.cached_read_bytes),
        "Ratio": lambda x: ratio(x.cpu_real_ratio),
        "Bound by": lambda x: bound_words(x.bound_by),
        "Ended": lambda x: "well" if x.ok else Cell("failed", "failed"),
    }
    if len({launch.node for launch in rows}) > 1:
        columns["Node"] = lambda x: x.node
    if len(shown) == len(rows):
        return replace(table_of("All launches", rows, columns, _LAUNCH_WORDS), folded=True)
    note = f"Of {count(len(rows))} those that failed and those that took longest; workload.json has all."
    return replace(table_of("Launches", shown, columns, _LAUNCH_WORDS), note=note, folded=True)


def steps(rows: Sequence[LaunchRecord]) -> Table | None:
    """The steps of SAS logs by procedure, those that took longest first."""
    by_name: dict[str, list[StepRecord]] = defaultdict(list)
    for launch in rows:
        for step in launch.steps:
            by_name[step.procedure].append(step)
    if not by_name:
        return None
    ordered = sorted(by_name.items(), key=lambda item: -(_sum(item[1], "real_s") or 0.0))
    table = table_of(
        "Steps by procedure: sums over all logs",
        ordered,
        {
            "Procedure": lambda row: row[0],
            "Count": lambda row: count(len(row[1])),
            "Real s": lambda row: plain(_sum(row[1], "real_s")),
            "User s": lambda row: plain(_sum(row[1], "user_s")),
            "System s": lambda row: plain(_sum(row[1], "system_s")),
            "Ratio of the sums": lambda row: ratio(_steps_ratio(row[1])),
        },
        "Procedure",
    )
    return replace(table, folded=len(ordered) > LONGEST)


def _sum(rows: Sequence[StepRecord], key: str) -> float | None:
    known = [value for step in rows if (value := finite(getattr(step, key))) is not None]
    return sum(known) if known else None


def _steps_ratio(rows: Sequence[StepRecord]) -> float | None:
    """CPU over real time of the steps that tell all three."""
    whole = [s for s in rows if None not in (s.real_s, s.user_s, s.system_s)]
    real = _sum(whole, "real_s")
    return ((_sum(whole, "user_s") or 0.0) + (_sum(whole, "system_s") or 0.0)) / real if real else None


_LONGEST = 300
"""A reason can hold the whole of a traceback; the table of failed launches has all of it."""


def imported(record: WorkloadRecord) -> bool:
    """Whether it was read from logs: such a run has no matrix, and nobody checked its answers."""
    return record.matrix is None


def first_failed(record: WorkloadRecord) -> LaunchRecord | None:
    """The failed launch that ended first, so the one that a chain of failures began with."""
    failed = [launch for launch in record.launches if not launch.ok]
    return min(failed, key=lambda x: (x.ended is None, x.ended or 0.0, x.number), default=None)


def judged_sentence(record: WorkloadRecord) -> str:
    """What a workload that ran to its end amounts to."""
    launches, failed = record.summary.launches, record.summary.failed
    if not launches:
        return "No test was launched, so there is no workload to judge."
    if failed or first_failed(record) is not None:
        number = failed or sum(not launch.ok for launch in record.launches)
        also = f"{_lost(record)}{_refused(record)}"
        return f"{count(number)} of {counted(launches, 'launch')} failed; {_first(record)}.{also}"
    right = "with the right answer" if launches == 1 else "with right answers"
    ended = "without an error" if imported(record) else right
    return (
        f"{_every(launches)} ended {ended}.{_lost(record)}{_refused(record)} "
        f"{_requirements(record)}{_disturbed(record)}"
    )


def _requirements(record: WorkloadRecord) -> str:
    """How the workload stands against what is required; what was missed first, and what held it back."""
    held = f" {record.summary.diagnosis}" if record.summary.diagnosis else ""
    missed = [_with_repeats(requirement) for requirement in record.requirements if requirement.met is False]
    others = [
        _with_repeats(requirement) for requirement in record.requirements if requirement.met is not False
    ]
    if not record.requires_something:
        ratio = ratio_of(record.launches)
        measured = f"; its CPU/real ratio was {plain(ratio)}" if ratio is not None else ""
        others = [f"no requirement on the workload{measured}"]
    said = " ".join(f"{each[0].upper()}{each[1:]}." for each in [*missed, *others])
    return f"{said}{held if missed or not record.requires_something else ''}"


def _with_repeats(requirement: JudgedRequirement) -> str:
    """One requirement and what was measured, of repeats the median."""
    said = _measured(requirement)
    if requirement.repeats is None or requirement.measured is None:
        return said
    said += f" (median of {requirement.repeats} repeats)"
    untold = ", but so few repeats of so much spread cannot tell it from that"
    return f"{said}{untold if requirement.met is None else ''}"


def _measured(requirement: JudgedRequirement) -> str:
    """One requirement and what was measured, as `CPU/real was 0.16 where 0.9 is required`."""
    if requirement.figure == "bytes_per_s_per_core":
        required = plain(requirement.required / 1e6)
        rates = f"{plain((requirement.measured or 0) / 1e6)} MB/s per core and requires {required}"
        share = f"{(requirement.waited_share or 0):.0%}".replace("%", " %")
        return f"launches waited for {requirement.of} {share} of their time, which delivered {rates}"
    if requirement.figure == "real_s":
        limit = f"where at most {duration(requirement.required)} are required"
        return f"it took {duration(requirement.measured)} {limit}"
    of = f" of {requirement.of}" if requirement.of else ""
    if requirement.measured is None:
        return f"the CPU/real ratio{of} was not measured, and {plain(requirement.required)} is required"
    required = plain(requirement.required)
    return f"the CPU/real ratio{of} was {plain(requirement.measured)} where {required} is required"


def unjudged_sentence(record: WorkloadRecord, opening: str = "") -> str:
    """How far a workload came that did not run to its end."""
    launches, failed = record.summary.launches, record.summary.failed
    also = f", {count(failed)} of which failed" if failed else ""
    if opening:
        ended = f"{counted(launches, 'launch') if launches else 'no launch'} had ended{also}"
        return f"{opening}, so the workload is not judged; until then {ended}."
    return f"{counted(launches, 'launch') if launches else 'No launch'} of the workload had ended{also}."


def _disturbed(record: WorkloadRecord) -> str:
    """What disturbed launches, and whether they are judged all the same; empty if nothing did."""
    said = interference_of_launches(record.launches, most=1)
    if not said:
        return ""
    if record.doubtful:
        return f" {said}, so that times prove nothing."
    return f" Judged although {said}." if record.allow_disturbed else f" {said}; their repeats do not count."


def _lost(record: WorkloadRecord) -> str:
    """The nodes that were lost under launches which then ran elsewhere; empty if none was."""
    again = sum(launch.restarts > 0 for launch in record.launches)
    if not again:
        return ""
    nodes = sorted({node for launch in record.launches for node in launch.lost_on})
    where = f" after {', '.join(nodes)} {'was' if len(nodes) == 1 else 'were'} lost" if nodes else ""
    return f" {counted(again, 'launch')} had to be started again{where}."


def _refused(record: WorkloadRecord) -> str:
    """The logs that are not among the launches; empty if there are none."""
    number = len(record.refused)
    if not number:
        return ""
    return f" {counted(number, 'log')} could not be read; the first: {record.refused[0].reason}."


def _first(record: WorkloadRecord) -> str:
    launch = first_failed(record)
    if launch is None:
        return "the reason is not known"
    reason = (launch.reason or "no reason known").strip().rstrip(".")
    short = reason if len(reason) <= _LONGEST else f"{reason[: _LONGEST - 1]}…"
    return f"the first, {launch.test or ABSENT} (launch {launch.number}): {short}"


def _every(number: int) -> str:
    return "The only launch" if number == 1 else f"All {counted(number, 'launch')}"
