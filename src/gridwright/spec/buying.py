"""How the nodes of a group are bought: as spot instances, in capacity that was reserved, or on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.spec.provider import ProviderKind
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
