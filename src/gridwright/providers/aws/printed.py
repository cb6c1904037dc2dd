"""What the verbs print of a grid on AWS: its state, its bill, and what changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from gridwright.providers.aws.cost_lines import CostLine, total
from gridwright.report.terminal.frame import framed_table, text_of
from gridwright.spec.hosts import fold_hosts
from gridwright.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from gridwright.providers.aws.changes import FieldChange, ResourceChange
    from gridwright.providers.aws.results import AwsDown, AwsStatus, AwsUp, DownPlan

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


def status_document(status: AwsStatus) -> dict[str, Any]:
    """A status in a document."""
    return {"whole": status.whole, **asdict(status), "costs": bill_values(status.costs)}


def status_text(status: AwsStatus) -> str:
    """A status as tables of stacks, machines, file systems and costs, then all that is lacking."""
    return "".join(f"{each}\n" if isinstance(each, str) else text_of(each) for each in _status_parts(status))


def _status_parts(status: AwsStatus) -> Iterator[str | Table]:
    """Lines and tables."""
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


def _machines(status: AwsStatus) -> Table:
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


def up_document(result: AwsUp) -> dict[str, Any]:
    """What `up` did, in a document."""
    return {
        "grid": result.grid,
        "region": result.region,
        "made": result.made,
        "changed": result.changed,
        "fields": [field_values(each) for each in result.fields],
        "changes": [resource_values(each) for each in result.resources],
        "machines": [asdict(each) for each in result.machines],
        "costs": bill_values(result.costs),
        "kept": list(result.kept),
        "seconds": result.seconds,
    }


def up_lines(result: AwsUp) -> Iterator[str]:
    """What `up` did, and how to go on."""
    if result.made:
        yield f"grid {result.grid} is up in {result.region}, after {result.seconds / 60:.1f} min"
    elif result.changed:
        yield f"grid {result.grid} is changed, after {result.seconds / 60:.1f} min"
    else:
        yield f"grid {result.grid} is up already, as the spec has it: nothing is changed"
    missing = [each.name for each in result.machines if each.state == "missing"]
    if missing:
        yield f"not there yet: {fold_hosts(missing)}"
    for each in result.kept:
        yield f"kept, and billed: {each}"
    yield from bill_lines(result.costs)
    yield "Next:"
    yield from _next(result)


def _next(result: AwsUp) -> Iterator[str]:
    login = next((each for each in result.machines if each.role == "login"), None)
    if login is not None and login.instance is not None:
        address = login.public_address or login.address
        if result.user is not None:
            yield f"  ssh {result.user}@{address}"
        yield f"  aws ssm start-session --region {result.region} --target {login.instance}"
    spec = f" {result.file}" if result.file else ""
    yield f"  gridwright status{spec}"
    yield f"  gridwright down{spec}"


def question(plan: DownPlan) -> Iterator[str]:
    """What `down` tells before it asks; nothing where there is nothing to ask."""
    if not plan.goes:
        return
    yield f"gridwright down of grid {plan.grid} removes:"
    yield from (f"  {each}" for each in plan.goes)
    if plan.stays:
        yield "and keeps:"
        yield from (f"  {each}" for each in plan.stays)
        yield from _cost(plan.staying_usd_per_hour)


def _cost(usd_per_hour: float | None) -> Iterator[str]:
    if usd_per_hour is None:
        yield "  what that costs is not known here"
    else:
        yield f"  at {usd_per_hour:.2f} USD an hour, {usd_per_hour * HOURS_PER_MONTH:.0f} USD a month"


def down_lines(result: AwsDown) -> Iterator[str]:
    """What `down` removed, and what is kept."""
    if not result.was_up:
        yield f"grid {result.grid} was not up: nothing of it is in {result.region}"
    elif not result.kept:
        yield f"grid {result.grid} is down: nothing of it is left in {result.region}"
    else:
        yield f"grid {result.grid} is down; kept, and billed:"
        yield from (f"  {each}" for each in result.kept)
        yield from _cost(result.kept_usd_per_hour)
        yield "  gridwright down --delete-data NAME removes one with all its data"
