"""Limits of the model with what passes them now: what clients measured, times what each byte takes (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gridwright.monitor.causes.use import FULL, ResourceSort, ResourceUse, StatedLimit
from gridwright.units import format_rate

Flows = Mapping[str, Mapping[str, tuple[float, float]]]
"""By file system and node, bytes per second that were read and written there; only what is known."""
BEYOND = 1.1
"""What passes so many times what is said to pass shows that the statement is too low, and no limit."""
LASTING = 0.1
"""A rate this near to what lasts, of a resource that can burst, is the lasting one."""


def stated_uses(filesystem: str, limits: Mapping[str, Sequence[StatedLimit]], flows: Flows,
                busy_cores: float | None) -> Iterator[ResourceUse]:  # fmt: skip
    """Each limit on the way to a file system, with what all file systems that share it take of it."""
    for limit in limits.get(filesystem, ()):
        sharing = [
            (flows.get(other, {}), each)
            for other, those in limits.items()
            for each in those
            if each.resource == limit.resource and each.scope == limit.scope and each.nodes == limit.nodes
        ]
        if limit.scope == "stream":
            yield from _of_streams(limit, flows.get(filesystem, {}), busy_cores)
        elif limit.scope == "node":
            nodes = {node for flow, _ in sharing for node in flow if not limit.nodes or node in limit.nodes}
            for node in sorted(nodes):
                yield _use(limit, node, sum(_taken(each, flow.get(node)) for flow, each in sharing))
        elif any(flow for flow, _ in sharing):
            total = sum(_taken(each, moved) for flow, each in sharing for moved in flow.values())
            yield _use(limit, "", total)


def _taken(limit: StatedLimit, moved: tuple[float, float] | None) -> float:
    read, written = moved or (0.0, 0.0)
    return read * limit.read + written * limit.write


def _use(limit: StatedLimit, node: str, used: float) -> ResourceUse:
    most = max(limit.bytes_per_s, limit.burst_bytes_per_s or 0.0)
    part = used / most if most > 0 else None
    lasting = (
        most > limit.bytes_per_s > 0 and abs(used / limit.bytes_per_s - 1) <= LASTING and part is not None
    )
    of = f" of {node}" if node else ""
    text = f"{limit.what}{of}: {format_rate(used)} pass it, {part or 0.0:.0%} of what it is said to deliver"
    if lasting:
        text = f"{limit.what}{of}: {format_rate(used)} pass it, what it delivers when its burst is spent"
    beyond = part is not None and part > BEYOND
    if beyond:
        text = f"{limit.what}{of}: {format_rate(used)} pass it, more than it is said to deliver"
    return ResourceUse(
        sort=ResourceSort.STATED,
        name=f"{limit.resource}{of}",
        node=node,
        used=used,
        capacity=limit.bytes_per_s if lasting else most,
        part=used / limit.bytes_per_s if lasting else part,
        binds=not beyond and (lasting or (part is not None and part >= FULL)),
        text=text,
        source="what clients moved, times what the model says each byte takes",
        capacity_source=limit.source,
    )


def _of_streams(
    limit: StatedLimit, flow: Mapping[str, tuple[float, float]], busy_cores: float | None
) -> Iterator[ResourceUse]:
    """What each stream can have, as far as every busy core has one."""
    total = sum(_taken(limit, moved) for moved in flow.values())
    if busy_cores is None or busy_cores < 1 or limit.bytes_per_s <= 0:
        return
    each = total / busy_cores
    part = each / limit.bytes_per_s
    yield ResourceUse(
        sort=ResourceSort.STATED,
        name=limit.resource,
        used=each,
        capacity=limit.bytes_per_s,
        part=part,
        binds=FULL <= part <= BEYOND,
        text=f"a stream moves {format_rate(each)} for each busy core, {part:.0%} of what it can have of "
        f"{limit.what}",
        source="what clients moved, for each busy core",
        capacity_source=limit.source or "the model",
    )
