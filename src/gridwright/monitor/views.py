"""The tables of a picture, for whatever shows them (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gridwright.monitor.frame import Frame
from gridwright.monitor.job_rows import JobLoad
from gridwright.monitor.libraries import LibraryRow, Standing
from gridwright.monitor.rows import DiskRow, NodeRow
from gridwright.monitor.served_views import Chosen, recovery_lines, served_views
from gridwright.monitor.table_cells import (
    NOTHING,
    figure,
    last_words,
    megabytes,
    part,
    size,
)
from gridwright.report.table import Cell, Table, TableRow, columns_of, keyed_row
from gridwright.spec.hosts import fold_hosts

_WORDS = {
    Standing.MET: "met",
    Standing.BELOW: "below: cannot tell what binds",
    Standing.NOT_ASKED: "less is asked for",
    Standing.NOT_REQUIRED: "nothing is required",
    Standing.IDLE: "idle",
    Standing.UNKNOWN: "cannot tell",
}
_STYLES = {Standing.MET: "green", Standing.BELOW: "red", Standing.UNKNOWN: "yellow"}


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
    found = [*recovery_lines(frame, chosen)]
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
