"""What the verbs print of a grid in a cloud: its bill, and what changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gridwright.providers.aws.changes import FieldChange, ResourceChange
from gridwright.providers.aws.results import AwsStatus, CostLine, total
from gridwright.report.terminal.frame import framed_table
from gridwright.units import HOURS_PER_MONTH

_STANDING = {
    "up": "is up",
    "not-up": "is not up",
    "storage-only": "has its file systems, and no machine",
    "half-made": "is not whole",
}


def bill_lines(costs: tuple[CostLine, ...], what: str = "It costs") -> Iterator[str]:
    """The sum of a bill in one line, and what has no price."""
    hourly = total(costs)
    if hourly is not None:
        yield f"{what} {hourly:.2f} USD an hour, {hourly * HOURS_PER_MONTH:.0f} USD a month"
    for each in costs:
        if each.usd_per_hour is None:
            yield f"no price is known for: {each.what}"


def bill_values(costs: tuple[CostLine, ...]) -> dict[str, Any]:
    """The bill in a document."""
    hourly = total(costs)
    return {
        "currency": "USD",
        "usd_per_hour": hourly,
        "lines": [{"what": each.what, "usd_per_hour": each.usd_per_hour} for each in costs],
    }


def field_values(change: FieldChange) -> dict[str, Any]:
    """A changed field of the spec in a document."""
    return {
        "field": ".".join(change.path),
        "old": change.old,
        "new": change.new,
        "policy": change.update.change.value,
        "because": change.update.because,
    }


def resource_values(change: ResourceChange) -> dict[str, Any]:
    """A changed resource in a document."""
    return {
        "stack": change.stack,
        "resource": change.logical_id,
        "type": change.type,
        "action": change.action,
        "properties": list(change.properties),
        "holds_data_of": change.filesystem,
    }


def cloud_lines(status: AwsStatus) -> Iterator[Any]:
    """A status as lines of text and tables."""
    yield f"grid {status.grid} {_STANDING[status.state]} in {status.region}"
    yield from (f"kept, and billed: {each}" for each in status.kept)
    if status.state == "not-up":
        return
    stacks = framed_table("Stacks", ["stack", "state"], [])
    for stack in status.stacks:
        stacks.add_row(stack.name, stack.state or "not there")
    yield stacks
    if status.machines:
        yield _machines(status)
    if status.filesystems:
        table = framed_table("File systems", ["name", "type", "id", "state", "servers"], [])
        for each in status.filesystems:
            servers = ", ".join(f"{one.name} {one.owner or '-'}" for one in each.claims)
            table.add_row(each.name, each.type, each.id or "", each.state, servers)
        yield table
    if status.costs:
        bill = framed_table("Costs", ["what"], ["USD/h"])
        for line in status.costs:
            bill.add_row(line.what, "?" if line.usd_per_hour is None else f"{line.usd_per_hour:.4f}")
        yield bill
    yield from bill_lines(status.costs)
    if status.usd_so_far is not None:
        yield f"So far {status.usd_so_far:.2f} USD, by list prices, in {status.hours:.1f} h"
    yield from _lacking(status)


def _machines(status: AwsStatus) -> Any:  # noqa: ANN401 - a table of rich
    table = framed_table("Machines", ["machine", "role", "type", "address", "instance", "state"], [])
    for each in status.machines:
        address = f"{each.address} ({each.public_address})" if each.public_address else each.address
        table.add_row(each.name, each.role, each.type, address, each.instance or "", each.state)
    return table


def _lacking(status: AwsStatus) -> Iterator[str]:
    for stack in status.stacks:
        if stack.remedy is not None:
            yield f"{stack.name} is in {stack.state}: {stack.reason or 'AWS names no reason'}"
            yield f"  {stack.remedy}"
    for machine in status.machines:
        if not machine.running:
            yield f"{machine.name}: {machine.state}"
    for filesystem in status.filesystems:
        if filesystem.lacking is not None:
            yield f"file system {filesystem.name}: {filesystem.lacking}"
    if status.expired:
        yield (
            f"warning: the grid was needed until {status.expires}: take it down, or write a later aws.expires"
        )
