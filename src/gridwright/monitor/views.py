"""The tables of a picture, of nodes, jobs and targets, for whatever shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gridwright.monitor.frame import Frame
from gridwright.monitor.job_rows import JobLoad
from gridwright.monitor.libraries import LibraryRow, Standing
from gridwright.monitor.rows import DiskRow, NodeRow
from gridwright.monitor.served_rows import (
    MDT_OPERATIONS,
    ServedJob,
    ServedMdt,
    ServedOst,
    by_server,
    mdts_by_server,
    waiting_words,
)
from gridwright.report.table import Cell, Column, Table, TableRow, columns_of, keyed_row
from gridwright.spec.hosts import fold_hosts
from gridwright.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console

_WORDS = {
    Standing.MET: "met",
    Standing.BELOW: "below: cannot tell what binds",
    Standing.NOT_ASKED: "less is asked for",
    Standing.NOT_REQUIRED: "nothing is required",
    Standing.IDLE: "idle",
    Standing.UNKNOWN: "cannot tell",
}
_STYLES = {Standing.MET: "green", Standing.BELOW: "red", Standing.UNKNOWN: "yellow"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a reader has chosen to see of targets."""

    filesystem: str = ""
    """Empty for all."""
    servers: bool = False
    """One row for each server."""

    def has(self, filesystem: str) -> bool:
        """Whether a row of this file system is shown."""
        return self.filesystem in {"", filesystem}


_ALL = Chosen()


def views(frame: Frame, chosen: Chosen = _ALL) -> list[Table]:
    """All tables, those without rows as well, but for those of servers."""
    return [
        Table(
            "Libraries",
            columns_of(("libraries", "on"), _LIBRARY_FIGURES, last_words("what binds")),
            _libraries(frame),
        ),
        Table("Nodes", columns_of(("node",), _NODE_FIGURES), tuple(map(_node, frame.nodes))),
        Table(
            "Disks", columns_of(("disk", "of"), _DISK_FIGURES), tuple(map(_disk, filter(_works, frame.disks)))
        ),
        Table("Mounts", columns_of(("mount", "of", "type"), _MOUNT_FIGURES), _mounts(frame)),
        *served_views(frame, chosen),
        Table("Targets, as their clients count", columns_of(("target",), _TARGET_FIGURES), _targets(frame)),
        Table("Jobs", columns_of(("job", "on"), _JOB_FIGURES, last_words("library")), _jobs(frame)),
    ]


_LIBRARY_FIGURES = ("read MB/s", "write MB/s", "MB/s/core", "required")
_NODE_FIGURES = (
    *("cores", "busy", "user", "system", "iowait", "steal", "memory", "pressure c/i/m"),
    *("in MB/s", "out MB/s", "card"),
)
_DISK_FIGURES = ("read MB/s", "write MB/s", "reads/s", "writes/s", "busy", "in flight")
_MOUNT_FIGURES = ("size", "used", "read MB/s", "write MB/s", "targets")
_TARGET_FIGURES = ("clients", "read MB/s", "write MB/s", "reads/s", "writes/s")
_JOB_FIGURES = ("CPUs", "waits", "memory", "read MB/s", "write MB/s", "processes")


def _libraries(frame: Frame) -> tuple[TableRow, ...]:
    return tuple(
        keyed_row(
            row.filesystem,
            ", ".join(row.libraries),
            row.filesystem,
            megabytes(row.read_bytes_per_s),
            megabytes(row.written_bytes_per_s),
            megabytes(row.per_core),
            megabytes(row.required_per_core),
            Cell(binding(row), style=_STYLES.get(row.standing, "")),
        )
        for row in frame.libraries
    )


def binding(row: LibraryRow) -> str:
    """What binds, or how things stand where nothing does."""
    if not row.binds:
        return _WORDS[row.standing]
    return f"{_WORDS[row.standing].partition(':')[0]}: {'; '.join(row.binds)}"


def _node(row: NodeRow) -> TableRow:
    if row.absent:
        nothing = [""] * (len(_NODE_FIGURES) - 1)
        return keyed_row(row.node, row.node, Cell("away", style="red"), *nothing)
    pressure = (row.cpu_pressure, row.io_pressure, row.memory_pressure)
    cpus = (row.busy_cores, row.user, row.system, row.iowait, row.steal)
    return keyed_row(
        row.node,
        row.node,
        figure(row.cores, 0),
        *map(figure, cpus),
        _share(row.memory_used_bytes, row.memory_bytes),
        Cell("/".join(part(each).text for each in pressure), value=row.io_pressure),
        megabytes(row.received_bytes_per_s),
        megabytes(row.sent_bytes_per_s),
        part(row.network_part),
    )


def _disk(row: DiskRow) -> TableRow:
    return keyed_row(
        f"{row.node} {row.device}",
        row.device,
        row.node,
        megabytes(row.read_bytes_per_s),
        megabytes(row.written_bytes_per_s),
        figure(row.reads_per_s, 0),
        figure(row.writes_per_s, 0),
        part(row.utilisation),
        figure(row.in_flight),
    )


def _works(row: DiskRow) -> bool:
    """Whether a disk did anything, or cannot be told to have done nothing."""
    return row.utilisation is None or bool(row.reads_per_s or row.writes_per_s or row.utilisation)


def _mounts(frame: Frame) -> tuple[TableRow, ...]:
    return tuple(
        keyed_row(
            f"{row.node} {row.mount_point}",
            row.mount_point,
            row.node,
            Cell(row.silent, style="red") if row.silent else Cell(row.kernel_type),
            size(row.size_bytes),
            part(row.used_part),
            megabytes(row.read_bytes_per_s),
            megabytes(row.written_bytes_per_s),
            figure(row.targets or None, 0),
        )
        for row in frame.mounts
    )


def _targets(frame: Frame) -> tuple[TableRow, ...]:
    return tuple(
        keyed_row(
            row.target,
            row.target,
            figure(row.clients, 0),
            megabytes(row.read_bytes_per_s),
            megabytes(row.written_bytes_per_s),
            figure(row.reads_per_s),
            figure(row.writes_per_s),
        )
        for row in frame.targets
    )


def _jobs(frame: Frame) -> tuple[TableRow, ...]:
    names = frame.library_names
    return tuple(
        keyed_row(
            row.job,
            row.job,
            fold_hosts(row.nodes),
            figure(row.cpus),
            _waits(row),
            size(row.memory_bytes),
            _at_least(megabytes(row.read_bytes_per_s), row),
            _at_least(megabytes(row.written_bytes_per_s), row),
            figure(row.processes, 0),
            ", ".join(names.get(directory, directory) for directory in row.directories) or NOTHING,
        )
        for row in frame.jobs
    )


def _at_least(cell: Cell, row: JobLoad) -> Cell:
    """A rate, with a mark where it may be more: a node has the job in a sum."""
    return replace(cell, text=f"≥{cell.text}") if row.may_be_more and cell.value is not None else cell


def _waits(row: JobLoad) -> Cell:
    """The part of the time, with a mark where it is only as good as the looks at its processes."""
    cell = part(row.waiting)
    return Cell(f"~{cell.text}", value=cell.value) if row.waiting_by == "state" else cell


def notes(frame: Frame, chosen: Chosen = _ALL) -> list[str]:
    """What a reader has to know of the figures."""
    found = [*_recovery_lines(frame, chosen)]
    found += [f"{row.node} is away: {row.absent}" for row in frame.nodes if row.absent]
    found += [line for row in frame.nodes for line in _silent(row)]
    found += [f"{row.filesystem}: {row.note}" for row in frame.libraries if row.note]
    sums = dict.fromkeys(name for row in frame.jobs if row.may_be_more for name in row.more_on)
    if sums:
        hosts, has = fold_hosts(tuple(sums)), "has" if len(sums) == 1 else "have"
        found.append(
            f"{hosts} {has} kept the sum of some jobs alone: a job whose rates begin with ≥ may be in it"
        )
    machines: dict[str, list[str]] = {}
    for node in frame.nodes:
        if not node.absent:
            machines.setdefault(node.machine, []).append(node.node)
    for names in machines.values():
        if len(names) > 1:
            found.append(f"{', '.join(names)} are of one machine: CPUs, memory and disks are the machine's")
    return found


def _silent(row: NodeRow) -> Iterator[str]:
    """What of a node did not answer, beside mounts, which have rows of their own."""
    whys: dict[str, list[str]] = {}
    for name, why in row.silent.items():
        if not name.startswith("/"):
            whys.setdefault(why, []).append(name)
    for why, names in whys.items():
        yield f"{', '.join(names)} of {row.node}: {why}"


def _share(used: float | None, total: float | None) -> Cell:
    known = used is not None and total is not None
    return Cell(f"{size(used).text} of {size(total).text}" if known else NOTHING, value=used)


OSTS, MDTS, SERVED_JOBS = "OSTs", "MDTs", "Jobs, as servers count"
_OST_FIGURES = (
    *("exports", "connects/s", "read MB/s", "write MB/s", "bulk/s", "locks", "grants/s", "cancels/s"),
    *("cpu", "mem", "space"),
)
_MDT_FIGURES = (*(f"{name}/s" for name in MDT_OPERATIONS), "cpu", "mem", "space")
_SERVED_JOB_FIGURES = ("read MB/s", "write MB/s", "reads/s", "writes/s", "operations/s")
_TARGET_STYLES = {"D": "red", "E": "red", "r": "yellow"}


def file_systems(frame: Frame) -> list[str]:
    """The names of file systems whose targets are known, in order."""
    return sorted({row.filesystem for row in frame.osts} | {row.filesystem for row in frame.mdts})


def served_views(frame: Frame, chosen: Chosen) -> list[Table]:
    """The tables that have rows."""
    osts = [row for row in frame.osts if chosen.has(row.filesystem)]
    mdts = [row for row in frame.mdts if chosen.has(row.filesystem)]
    if chosen.servers:
        osts, mdts = by_server(osts), mdts_by_server(mdts)
    jobs = [row for row in frame.served_jobs if chosen.has(row.filesystem)]
    stale = last_words("stale")
    found = [
        Table(OSTS, columns_of(("OST", "st", "server"), _OST_FIGURES, stale), tuple(map(_ost, osts))),
        Table(MDTS, columns_of(("MDT", "server"), _MDT_FIGURES, stale), tuple(map(_mdt, mdts))),
        Table(SERVED_JOBS, columns_of(("job", "of", "on"), _SERVED_JOB_FIGURES), tuple(map(_job, jobs))),
    ]
    return [view for view in found if view.rows]


def _recovery_lines(frame: Frame, chosen: Chosen | None = None) -> Iterator[str]:
    """A line for each file system whose targets wait for clients."""
    names = sorted({row.filesystem for row in frame.recovery if chosen is None or chosen.has(row.filesystem)})
    for name in names:
        parts = [
            f"{row.target} on {row.server}: {', '.join(waiting_words(row))}"
            for row in frame.recovery
            if row.filesystem == name
        ]
        yield f"recovery of {name}: {'; '.join(parts)}"


def _ost(row: ServedOst) -> TableRow:
    return keyed_row(
        f"{row.server} {row.target}",
        row.target,
        Cell(row.state or "-", style=_TARGET_STYLES.get(row.state[:1], "")),
        row.server or "(clients)",
        figure(row.exports, 0),
        figure(row.connects_per_s),
        megabytes(row.read_bytes_per_s),
        megabytes(row.written_bytes_per_s),
        figure(row.bulk_per_s),
        figure(row.locks, 0),
        figure(row.grants_per_s),
        figure(row.cancels_per_s),
        part(row.cpu),
        part(row.memory),
        part(row.space),
        Cell(row.stale, style="red"),
    )


def _mdt(row: ServedMdt) -> TableRow:
    return keyed_row(
        f"{row.server} {row.target}",
        row.target,
        row.server,
        *(figure(row.operations[name]) for name in MDT_OPERATIONS),
        part(row.cpu),
        part(row.memory),
        part(row.space),
        Cell(row.stale, style="red"),
    )


def _job(row: ServedJob) -> TableRow:
    return keyed_row(
        f"{row.component} {row.filesystem} {row.job}",
        row.job,
        row.filesystem,
        f"{row.component.upper()}s",
        megabytes(row.read_bytes_per_s),
        megabytes(row.written_bytes_per_s),
        figure(row.reads_per_s),
        figure(row.writes_per_s),
        figure(row.operations_per_s),
    )


NOTHING = "-"
"""Stands for a figure that cannot be told."""


def last_words(title: str) -> Column:
    """The last column of a table, whose words may be many."""
    return Column(title, words=True, wrap="anywhere")


def sorted_rows(view: Table, column: int, tagged: Sequence[str] = ()) -> list[TableRow]:
    """Rows by a column, the largest figure first and words by the alphabet; those that are tagged above."""

    def order(row: TableRow) -> tuple[bool, bool, float, str]:
        cell = row.cells[column]
        return row.key not in tagged, cell.value is None, -(cell.value or 0.0), cell.text

    return sorted(view.rows, key=order)


def proportions(view: Table) -> Table:
    """The same with each rate as a part of the sum of its column; what is no rate stays as it is."""
    columns = [number for number, column in enumerate(view.columns) if column.title.endswith("/s")]
    sums = {
        number: sum(row.cells[number].value or 0.0 for row in view.rows) for number in columns if view.rows
    }

    def shown(number: int, cell: Cell) -> Cell:
        total = sums.get(number)
        if total is None or cell.value is None:
            return cell
        return replace(cell, text=f"{cell.value / total:.0%}" if total > 0 else "0%")

    rows = (
        replace(row, cells=tuple(shown(number, cell) for number, cell in enumerate(row.cells)))
        for row in view.rows
    )
    return replace(view, rows=tuple(rows))


def megabytes(rate: float | None) -> Cell:
    """A rate in MB/s."""
    return figure(None if rate is None else rate / 1e6)


def figure(value: float | None, places: int = 1) -> Cell:
    """A figure; three digits are enough, but for large ones."""
    return Cell(NOTHING if value is None else f"{value:.{0 if value >= 1000 else places}f}", value=value)


def part(value: float | None) -> Cell:
    """A part as percent."""
    return Cell(NOTHING if value is None else f"{value:.0%}", value=value)


def size(value: float | None) -> Cell:
    """Bytes."""
    return Cell(NOTHING if value is None else format_bytes(value), value=value)


def frame_text(frame: Frame) -> str:
    """All tables that have rows, and notes, as this terminal shows them."""
    from gridwright.report.terminal.frame import framed, printed, say

    @printed
    def text(console: Console) -> None:
        for view in views(frame):
            if view.rows:
                console.print(framed(view, console))
        for line in notes(frame):
            say(console, line, "dim")

    return text()
