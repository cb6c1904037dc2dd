"""What `status` prints of a lab: tables of nodes and file systems, then all that is lacking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.table import Table

from gridwright.report.terminal.frame import framed_table, text_of

if TYPE_CHECKING:
    from gridwright.providers.lab.status import LabFileSystemStatus, LabStatus, NodeStatus

_STANDING = {"not-up": "is not up", "half-made": "is half made: run gridwright up or down", "up": "is up"}


def status_text(status: LabStatus) -> str:
    """The tables as text."""
    lines = [f"lab {status.lab} {_STANDING[status.state]}"]
    if status.nodes:
        lines += [text_of(*_tables(status)).rstrip("\n"), *_lacking(status)]
    return "\n".join(lines)


def _tables(status: LabStatus) -> Iterator[Table]:
    nodes = framed_table(f"Nodes ({status.network})", ["node", "role", "address", "state", "services"], [])
    for node in status.nodes:
        nodes.add_row(node.name, node.role, node.address, node.state, _services(node))
    yield nodes
    if status.filesystems:
        table = framed_table("File systems", ["name", "type", "path", "state"], ["size", "free"])
        for each in status.filesystems:
            table.add_row(each.name, each.type, each.path, each.condition.value, *_sizes(each))
        yield table


def _services(node: NodeStatus) -> str:
    return ", ".join(
        each.service if each.lacking is None else f"{each.service} (NOT OK)" for each in node.services
    )


def _sizes(filesystem: LabFileSystemStatus) -> list[str]:
    sizes = (filesystem.total_bytes, filesystem.free_bytes)
    return ["" if size is None else f"{size / 1e9:.1f} GB" for size in sizes]


def _lacking(status: LabStatus) -> Iterable[str]:
    for node in status.nodes:
        for each in node.services:
            if each.lacking is not None:
                yield f"{node.name}: {each.service}: {each.lacking}"
    for filesystem in status.filesystems:
        if filesystem.lacking is not None:
            yield f"file system {filesystem.name}: {filesystem.lacking}"
        for finding in filesystem.health.findings if filesystem.health else ():
            yield f"{finding.level}: file system {filesystem.name}: {finding.text}"
            yield f"  {finding.remedy}"
