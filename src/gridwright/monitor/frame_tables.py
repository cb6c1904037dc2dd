"""The tables of a picture for terminals."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from gridwright.monitor.frame import Frame
from gridwright.monitor.libraries import LibraryRow, Standing
from gridwright.monitor.rows import DiskRow, NodeRow
from gridwright.report.terminal.frame import framed_table, printed
from gridwright.report.terminal.spelling import cell, say
from gridwright.units import format_bytes

NOTHING = "-"
"""Stands for a figure that cannot be told."""
_WORDS = {
    Standing.MET: "met",
    Standing.BELOW: "below: cannot tell what binds",
    Standing.NOT_ASKED: "less is asked for",
    Standing.NOT_REQUIRED: "nothing is required",
    Standing.IDLE: "idle",
    Standing.UNKNOWN: "cannot tell",
}
_STYLES = {Standing.MET: "green", Standing.BELOW: "red", Standing.UNKNOWN: "yellow"}


@printed
def frame_text(console: Console, frame: Frame) -> None:
    """Print all tables that have rows."""
    for table in (
        _libraries(console, frame),
        _nodes(console, frame.nodes),
        _disks(console, frame),
        _mounts(console, frame),
        _targets(console, frame),
        _jobs(console, frame),
    ):
        if table.row_count:
            console.print(table)
    for line in notes(frame):
        say(console, line, "dim")


def _libraries(console: Console, frame: Frame) -> Table:
    table = framed_table(
        "Libraries", ["libraries", "on"], ["read MB/s", "write MB/s", "MB/s/core", "required"]
    )
    table.add_column("what binds", overflow="fold")
    for row in frame.libraries:
        table.add_row(
            cell(console, ", ".join(row.libraries)),
            cell(console, row.filesystem),
            megabytes(row.read_bytes_per_s),
            megabytes(row.written_bytes_per_s),
            megabytes(row.per_core),
            megabytes(row.required_per_core),
            cell(console, binding(row), _STYLES.get(row.standing, "")),
        )
    return table


def binding(row: LibraryRow) -> str:
    """What binds, or how things stand where nothing does."""
    if not row.binds:
        return _WORDS[row.standing]
    return f"{_WORDS[row.standing].partition(':')[0]}: {'; '.join(row.binds)}"


def _nodes(console: Console, rows: Iterable[NodeRow]) -> Table:
    heads = ["cores", "busy", "user", "system", "iowait", "steal", "memory", "pressure c/i/m"]
    table = framed_table("Nodes", ["node"], [*heads, "in MB/s", "out MB/s", "card"])
    for row in rows:
        if row.absent:
            table.add_row(cell(console, row.node), cell(console, "away", "red"))
            continue
        pressure = (row.cpu_pressure, row.io_pressure, row.memory_pressure)
        table.add_row(
            cell(console, row.node),
            str(row.cores),
            *(figure(each) for each in (row.busy_cores, row.user, row.system, row.iowait, row.steal)),
            share(row.memory_used_bytes, row.memory_bytes),
            "/".join(part(each) for each in pressure),
            megabytes(row.received_bytes_per_s),
            megabytes(row.sent_bytes_per_s),
            part(row.network_part),
        )
    return table


def _disks(console: Console, frame: Frame) -> Table:
    heads = ["read MB/s", "write MB/s", "reads/s", "writes/s", "busy", "in flight"]
    table = framed_table("Disks", ["disk", "of"], heads)
    for row in filter(_works, frame.disks):
        table.add_row(
            cell(console, row.device),
            cell(console, row.node),
            megabytes(row.read_bytes_per_s),
            megabytes(row.written_bytes_per_s),
            figure(row.reads_per_s, 0),
            figure(row.writes_per_s, 0),
            part(row.utilisation),
            figure(row.in_flight),
        )
    return table


def _works(row: DiskRow) -> bool:
    """Whether a disk did anything, or cannot be told to have done nothing."""
    return row.utilisation is None or bool(row.reads_per_s or row.writes_per_s or row.utilisation)


def _mounts(console: Console, frame: Frame) -> Table:
    heads = ["size", "used", "read MB/s", "write MB/s", "targets"]
    table = framed_table("Mounts", ["mount", "of", "type"], heads)
    for row in frame.mounts:
        table.add_row(
            cell(console, row.mount_point),
            cell(console, row.node),
            cell(console, row.kernel_type if not row.silent else row.silent, "red" if row.silent else ""),
            NOTHING if row.size_bytes is None else format_bytes(row.size_bytes),
            part(row.used_part),
            megabytes(row.read_bytes_per_s),
            megabytes(row.written_bytes_per_s),
            str(row.targets or NOTHING),
        )
    return table


def _targets(console: Console, frame: Frame) -> Table:
    heads = ["clients", "read MB/s", "write MB/s", "reads/s", "writes/s"]
    table = framed_table("Targets, as their clients count", ["target"], heads)
    for row in frame.targets:
        table.add_row(
            cell(console, row.target),
            str(row.clients),
            megabytes(row.read_bytes_per_s),
            megabytes(row.written_bytes_per_s),
            figure(row.reads_per_s),
            figure(row.writes_per_s),
        )
    return table


def _jobs(console: Console, frame: Frame) -> Table:
    heads = ["CPUs", "memory", "read MB/s", "write MB/s", "processes"]
    table = framed_table("Jobs", ["job", "on"], heads)
    for row in frame.jobs:
        table.add_row(
            cell(console, row.job),
            cell(console, ", ".join(row.nodes)),
            figure(row.cpus),
            format_bytes(row.memory_bytes),
            megabytes(row.read_bytes_per_s),
            megabytes(row.written_bytes_per_s),
            str(row.processes),
        )
    return table


def notes(frame: Frame) -> list[str]:
    """What a reader has to know of the figures."""
    found = [f"{row.node} is away: {row.absent}" for row in frame.nodes if row.absent]
    found += [f"{row.filesystem}: {row.note}" for row in frame.libraries if row.note]
    machines: dict[str, list[str]] = {}
    for node in frame.nodes:
        if not node.absent:
            machines.setdefault(node.machine, []).append(node.node)
    for names in machines.values():
        if len(names) > 1:
            found.append(f"{', '.join(names)} are of one machine: CPUs, memory and disks are the machine's")
    return found


def megabytes(rate: float | None) -> str:
    """A rate in MB/s."""
    return figure(None if rate is None else rate / 1e6)


def figure(value: float | None, places: int = 1) -> str:
    """A figure; three digits are enough, but for large ones."""
    return NOTHING if value is None else f"{value:.{0 if value >= 1000 else places}f}"


def part(value: float | None) -> str:
    """A part as percent."""
    return NOTHING if value is None else f"{value:.0%}"


def share(used: float | None, total: float | None) -> str:
    """Used of total."""
    return NOTHING if used is None or total is None else f"{format_bytes(used)} of {format_bytes(total)}"
