"""What `gridwright status` prints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import singledispatch

import typer

from gridwright.cli.build.cloud_show import bill_values, cloud_lines
from gridwright.providers.aws.results import AwsStatus
from gridwright.providers.lab.status import FileSystemStatus, LabStatus, NodeStatus
from gridwright.report.terminal.frame import framed_table, terminal_console

_STANDING = {"not-up": "is not up", "half-made": "is half made: run gridwright up or down", "up": "is up"}


@singledispatch
def print_json(status: object) -> None:
    """Print one JSON document."""
    raise NotImplementedError(type(status))


@singledispatch
def print_tables(status: object) -> None:
    """Print tables of nodes and file systems, then all that is lacking."""
    raise NotImplementedError(type(status))


@print_json.register
def _(status: LabStatus) -> None:
    document = {"schema": 1, "command": "status", "whole": status.whole, **asdict(status)}
    typer.echo(json.dumps(document, indent=2))


@print_json.register
def _(status: AwsStatus) -> None:
    document = {"schema": 1, "command": "status", "whole": status.whole, **asdict(status)}
    document["costs"] = bill_values(status.costs)
    typer.echo(json.dumps(document, indent=2))


@print_tables.register
def _(status: AwsStatus) -> None:
    for line in cloud_lines(status):
        if isinstance(line, str):
            typer.echo(line)
        else:
            terminal_console().print(line)


@print_tables.register
def _(status: LabStatus) -> None:
    typer.echo(f"lab {status.lab} {_STANDING[status.state]}")
    if not status.nodes:
        return
    console = terminal_console()
    nodes = framed_table(f"Nodes ({status.network})", ["node", "role", "address", "state", "services"], [])
    for node in status.nodes:
        nodes.add_row(node.name, node.role, node.address, node.state, _services(node))
    console.print(nodes)
    if status.filesystems:
        table = framed_table("File systems", ["name", "type", "path", "state"], ["size", "free"])
        for each in status.filesystems:
            table.add_row(each.name, each.type, each.path, each.condition.value, *_sizes(each))
        console.print(table)
    for line in _lacking(status):
        typer.echo(line)


def _services(node: NodeStatus) -> str:
    return ", ".join(
        each.service if each.lacking is None else f"{each.service} (NOT OK)" for each in node.services
    )


def _sizes(filesystem: FileSystemStatus) -> list[str]:
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
