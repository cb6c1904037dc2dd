"""`gridwright usage`: who used how much of a grid."""

from __future__ import annotations

import csv
import io
import time
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridwright.cli.arguments import Json, Reader, Reads, one_of, read_flags, read_path, verb
from gridwright.cli.output import LazyResult, Output, check_output, write_output
from gridwright.cli.spec_file import GridFile, open_grid
from gridwright.cli.verbosity import say
from gridwright.cli.verbs import plain_app
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.foreign_text import spreadsheet_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gridwright.report.table import Table
    from gridwright.schedulers.usage import JobUsage, UsageGroup
    from gridwright.spec import GridSpec

_BY = ("user", "account", "queue", "job-name")
_DASH = "–"  # noqa: RUF001 - an en dash is what an absent figure prints as
_GB = 1e9
_MOMENT_S = 60.0
_MOST_USERS = 5
"""Users that a note names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFlags:
    """The flags of `gridwright usage`, as they were typed."""

    grid: GridFile = None
    since: Annotated[
        str,
        typer.Option(metavar="WHEN", help="Jobs that ended since: so long ago, or a day: 2027-01-31."),
        Reads(Reader.moment),
    ] = "30d"
    until: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="And until, likewise.  [default: now]"),
        Reads(Reader.moment),
    ] = None
    by: Annotated[
        str, typer.Option(metavar="|".join(_BY), help="What to sum by."), Reads(one_of(*_BY), instead="user")
    ] = "user"
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False
    chart: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=read_path, help="Also write a page with a chart, which opens offline."
        ),
    ] = None
    json: Json = False


def run_usage(flags: UsageFlags) -> ExitStatus:
    """Show who used how much of a grid: core-hours, CPU/real, memory, waiting, bytes, cost.

    Example: gridwright usage --since 30d --by queue
    """
    from gridwright.schedulers.usage import usage_group, usage_groups

    reader = Reader()
    values = read_flags(flags, reader)
    since, until = values["since"] or 0.0, values["until"] or time.time()
    if flags.csv and flags.json:
        reader.problem("--csv and --json exclude each other", "--csv", "leave out one")
    if since >= until:
        reader.problem("the time ends before it begins", "--until", "write one that is later than --since")
    check_output(reader, "--chart", flags.chart)
    reader.finish(values)
    grid = open_grid(flags.grid)
    found = grid.usage(since, until)
    jobs, refused = [each for each in found if not each.refused], [each for each in found if each.refused]
    for note in (_forgotten(grid.spec, since), _forgeable(jobs), _refused(refused)):
        if note:
            say(note)
    price = _prices(grid.spec)
    groups = usage_groups(jobs, values["by"], price)
    total = usage_group(None, jobs, price)
    if flags.chart is not None:
        page = _page(grid.spec.name, values["by"], jobs, [*groups, total], (since, until))
        write_output(flags.chart, page)
    output = Output("usage", json=flags.json)
    if flags.csv:
        output.write(_csv(values["by"], groups))
        return ExitStatus.DONE
    output.show(
        LazyResult(
            document=lambda: {
                "since": since,
                "until": until,
                "by": values["by"],
                "groups": [asdict(group) for group in groups],
                "total": asdict(total),
                "forgeable": any(job.forgeable for job in jobs),
                "refused": [
                    {"id": each.id, "user": each.user, "core_hours": each.core_s / 3600} for each in refused
                ],
            },
            text=lambda: _table(values["by"], groups, total),
        ),
        following=str(flags.chart) if flags.chart is not None else "",
    )
    return ExitStatus.DONE


def _forgotten(spec: GridSpec, since: float) -> str:
    """That jobs may be missing, where the scheduler remembers them for a shorter time than is asked for."""
    remembered = spec.scheduler.remembers_jobs_s
    # The days that are asked for by default were counted a moment ago.
    if remembered is None or since >= time.time() - remembered - _MOMENT_S:
        return ""
    return (
        f"note: scheduler {spec.scheduler.type} remembers a job for {remembered / 86_400:.0f} days after its "
        "end; of those before, some or all are missing here"
    )


def _forgeable(jobs: Sequence[JobUsage]) -> str:
    if not any(job.forgeable for job in jobs):
        return ""
    return (
        "note: these figures are from Slurm's file of ended jobs, into which every user can write lines for "
        "any other; nobody can with slurmdbd (scheduler.accounting)"
    )


def _refused(refused: Sequence[JobUsage]) -> str:
    if not refused:
        return ""
    from gridwright.cli.work.jobs import printable

    users = ", ".join(
        printable(each) for each in sorted({each.user or _DASH for each in refused})[:_MOST_USERS]
    )
    hours = sum(each.core_s for each in refused) / 3600
    return (
        f"note: {len(refused)} lines of that file ({hours:,.1f} core-hours, for {users}) are not counted: "
        "they contradict others, or cannot be; somebody may have forged them"
    )


usage = plain_app()
usage.command()(verb(run_usage))


def _prices(spec: GridSpec) -> Callable[[JobUsage], float | None] | None:
    """What a core of a job's node costs; None where no node has a price."""
    from gridwright.model.costs import core_prices

    try:
        price = core_prices(spec)
    except GridwrightError:
        return None
    return None if price is None else lambda job: price(job.node)


_FIGURES = (
    *("jobs", "completed", "core-hours", "CPU/real", "peak memory", "wait, mean", "longest"),
    *("read, GB", "written, GB", "USD"),
)


def _cells(group: UsageGroup, name: str) -> list[str]:
    from gridwright.cli.work.jobs import duration, printable
    from gridwright.units import format_bytes

    def shown(value: float | None, text: Callable[[Any], str]) -> str:
        return _DASH if value is None else text(value)

    return [
        printable(name),
        str(group.jobs),
        str(group.completed),
        f"{group.core_hours:,.2f}",
        shown(group.cpu_real, lambda ratio: f"{ratio:.2f}"),
        shown(group.memory_peak_bytes, format_bytes),
        shown(group.wait_mean_s, duration),
        shown(group.wait_longest_s, duration),
        shown(group.read_bytes, lambda size: f"{size / _GB:,.1f}"),
        shown(group.written_bytes, lambda size: f"{size / _GB:,.1f}"),
        shown(group.cost_usd, lambda usd: f"{usd:,.2f}"),
    ]


def _usage_table(by: str, groups: Sequence[UsageGroup], total: UsageGroup) -> Table:
    """A row for each group, and below a line that of all."""
    from gridwright.report.table import columns_of, rows_table

    words = by.replace("-", " ")
    rows = [_cells(group, group.name or _DASH) for group in groups]
    columns = columns_of([words], _FIGURES)
    return rows_table(f"Usage by {words}", columns, rows, [_cells(total, "all")])


def _table(by: str, groups: Sequence[UsageGroup], total: UsageGroup) -> str:
    from gridwright.report.terminal.frame import text_of

    if not groups:
        return "no job ended in this time"
    table = _usage_table(by, groups, total)
    # What nobody knows of any job takes no room.
    unknown = [
        column.title
        for at, column in enumerate(table.columns)
        if at and all(row.cells[at].text == _DASH for row in table.rows)
    ]
    return text_of(replace(table.without(*unknown), caption=""))


def _csv(by: str, groups: Sequence[UsageGroup]) -> str:
    text = io.StringIO()
    rows = [{by.replace("-", "_"): spreadsheet_cell(group.name or "")} | _plain(group) for group in groups]
    names = [by.replace("-", "_"), *_plain_names()]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _plain(group: UsageGroup) -> dict[str, Any]:
    return {name: "" if (value := getattr(group, name)) is None else value for name in _plain_names()}


def _plain_names() -> list[str]:
    from dataclasses import fields

    from gridwright.schedulers.usage import UsageGroup

    return [field.name for field in fields(UsageGroup) if field.name != "name"]


def _day(moment: float) -> date:
    """The day of a moment where this machine is."""
    return datetime.fromtimestamp(moment).astimezone().date()


def _page(
    name: str,
    by: str,
    jobs: Sequence[JobUsage],
    groups: Sequence[UsageGroup],
    period: tuple[float, float],
) -> str:
    from gridwright.report.usage_page import usage_page
    from gridwright.schedulers.usage import core_hours_by_day

    by_day = core_hours_by_day(jobs, lambda moment: _day(moment).isoformat(), by)
    ended = [job.ended for job in jobs if job.ended is not None]
    first = _day(max(period[0], min(ended, default=period[0])))
    last = _day(period[1])
    days = [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]
    *parts, total = groups
    return usage_page(
        grid=name,
        by=by,
        period=" to ".join(time.strftime("%Y-%m-%d %H:%M", time.localtime(each)) for each in period),
        days=days,
        core_hours={part.name or _DASH: by_day.get(part.name, {}) for part in parts},
        table=_usage_table(by, parts, total),
    )
