"""How a grid comes by the nodes of a group: how they are bought, and whether jobs power them on.

What the fields do, and what they go with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from gridwright.spec.fields import Change, SpecModel, Update, mapping_of
from gridwright.spec.provider import ProviderKind
from gridwright.spec.scheduler import scheduler_kind_in
from gridwright.units import UnitError, parse_duration
from gridwright.yamltext.fields import FieldError, matching
from gridwright.yamltext.structure import Refused

BOUGHT = Update(Change.ROLLING, "nodes are replaced one at a time")

Reservation = Annotated[
    str,
    matching(
        r"^(?:open|none|cr-[0-9a-f]{8,17}|"
        r"arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:[0-9]{12}:group/[A-Za-z0-9._-]{1,127})$",
        "a capacity reservation",
        "its ID (cr-...), the ARN of a resource group of reservations, open or none",
        "cr-0123456789abcdef0",
    ),
]


class MaxPrice(SpecModel):
    """Spot instances, and the most that is paid for one."""

    max_price: Annotated[float, BOUGHT] = Field(
        gt=0,
        description="USD per hour of one node; above it a node is taken back, or not started. By default the "
        "price on demand, which is what AWS advises.",
    )


def buying_problems(data: Mapping[str, Any], provider: ProviderKind) -> Iterator[Refused]:
    """What groups with `spot` or `reservation` have wrong; `data` is the plain data of a spec."""
    groups = data.get("nodes")
    groups = groups if isinstance(groups, Mapping) else {}
    spot: list[str] = []
    for name, group in groups.items():
        if not isinstance(group, Mapping):
            continue
        for field in ("spot", "reservation"):
            if group.get(field) not in (None, False) and not provider.market.buys_capacity:
                yield (
                    ("nodes", name, field),
                    FieldError(
                        f"nodes of provider {provider.name} are not bought so", "remove the line; aws has it"
                    ),
                )
        if group.get("spot") not in (None, False):
            spot.append(name)
            if group.get("reservation") not in (None, "none"):
                yield (
                    ("nodes", name, "reservation"),
                    FieldError(
                        "spot instances do not run in reserved capacity",
                        "remove it, or spot: EC2 takes one of both",
                    ),
                )
    if provider.market.buys_capacity:
        yield from _queues_that_know(data, spot)


def _queues_that_know(data: Mapping[str, Any], spot: list[str]) -> Iterator[Refused]:
    """A job must not land on a machine that may be taken away where nobody said that it may."""
    scheduler = data.get("scheduler")
    queues = scheduler.get("queues") if isinstance(scheduler, Mapping) else None
    if not isinstance(queues, Mapping):
        for name in spot:
            yield (
                ("nodes", name, "spot"),
                FieldError(
                    "jobs of the only queue, batch, would run on machines that may be taken away",
                    "add a queue that allows it: scheduler: {type: slurm, queues: {cheap: "
                    f"{{nodes: [{name}], spot: true}}}}}}",
                ),
            )
        return
    for queue, fields in queues.items():
        if not isinstance(fields, Mapping) or fields.get("spot") is True:
            continue
        chosen = fields.get("nodes")
        hit = [name for name in spot if not isinstance(chosen, list) or name in chosen]
        if hit:
            yield (
                ("scheduler", "queues", queue),
                FieldError(
                    f"its jobs would run on spot instances, those of {', '.join(hit)}, which it does not "
                    "allow",
                    "write spot: true, or name other groups in nodes",
                ),
            )


POWERED = Update(Change.LIVE, "the scheduler starts anew with it, jobs and machines go on")
IDLE_S = 600.0
"""Longer than a machine of a cloud takes to start: shorter pauses of a workload do not pay a start each."""
SHORTEST_IDLE_S = 5.0


def power_problems(data: Mapping[str, Any], provider: ProviderKind) -> Iterator[Refused]:
    """What groups with `min` and `idle` have wrong; `data` is the plain data of a spec."""
    groups = {name: each for name, each in mapping_of(data, "nodes").items() if isinstance(each, Mapping)}
    for name, group in groups.items():
        yield from _group_problems(name, group, provider)
    powered = [name for name, group in groups.items() if group.get("min") is not None]
    if not powered or not provider.powers_nodes:
        return
    scheduler = scheduler_kind_in(data)
    if scheduler is not None and not scheduler.spec_model.powers_nodes:
        yield (
            ("nodes", powered[0], "min"),
            FieldError(
                "this scheduler has no nodes powered on and off",
                "write scheduler: {type: slurm}, or remove min",
            ),
        )
    if mapping_of(data, "scheduler").get("backup_controller") is True:
        yield (
            ("scheduler", "backup_controller"),
            FieldError(
                "only the controller can have nodes powered on, and none would be while its backup serves",
                f"remove it, or min of {', '.join(powered)}",
            ),
        )
    yield from _queues_of_one_idle(data, groups)


def _group_problems(name: str, group: Mapping[str, Any], provider: ProviderKind) -> Iterator[Refused]:
    path = ("nodes", name)
    if group.get("min") is None:
        if group.get("idle") is not None:
            yield (
                (*path, "idle"),
                FieldError("all nodes of this group are always on", "add min: 0, or remove idle"),
            )
        return
    if not provider.powers_nodes:
        yield (
            (*path, "min"),
            FieldError(
                f"nodes of provider {provider.name} are powered on and off by nobody",
                "remove the line; providers aws and lab have such nodes",
            ),
        )
        return
    least, count = group["min"], group.get("count", 1)
    if isinstance(least, int) and isinstance(count, int) and least > count:
        yield (
            (*path, "min"),
            FieldError(f"{least} nodes cannot be always on of {count}", f"write a number from 0 to {count}"),
        )
    idle = _seconds(group.get("idle"))
    if idle is not None and 0 < idle < SHORTEST_IDLE_S:
        yield (
            (*path, "idle"),
            FieldError("nodes would go between two jobs", f"write {SHORTEST_IDLE_S:.0f}s or more"),
        )


def _queues_of_one_idle(
    data: Mapping[str, Any], groups: Mapping[str, Mapping[str, Any]]
) -> Iterator[Refused]:
    """Slurm has one SuspendTime for each partition, and of several that a node is in the longest."""
    queues = mapping_of(mapping_of(data, "scheduler"), "queues") or {"batch": {}}
    for name, queue in queues.items():
        chosen = queue.get("nodes") if isinstance(queue, Mapping) else None
        required = chosen if isinstance(chosen, list) else [*groups]
        idles = {
            group: _seconds(groups[group].get("idle")) or IDLE_S
            for group in required
            if group in groups and groups[group].get("min") is not None
        }
        if len(set(idles.values())) > 1:
            told = ", ".join(f"{group}: {idle:.0f} s" for group, idle in idles.items())
            yield (
                ("scheduler", "queues", name)
                if name in mapping_of(mapping_of(data, "scheduler"), "queues")
                else (
                    "nodes",
                    next(reversed(idles)),
                    "idle",
                ),
                FieldError(
                    f"queue {name} has groups with several times until idle nodes go ({told})",
                    "write the same idle for these groups, or give each a queue of its own by nodes: [GROUP]",
                ),
            )


def _seconds(written: object) -> float | None:
    try:
        return None if written is None else parse_duration(written)
    except UnitError:
        return None
