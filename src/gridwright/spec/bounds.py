"""Bounds on the nodes that a plan may choose, and what is wrong between them and the rest of a spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.spec.hosts import MOST_HOSTS
from gridwright.units import Bytes, UnitError
from gridwright.yamltext.fields import FieldError, Size

_READ = Update(Change.LIVE, "only planning reads it")


class CountBounds(SpecModel):
    """How many nodes a grid may have."""

    least: Annotated[int | None, _READ] = Field(
        default=None, ge=1, le=MOST_HOSTS, description="At least so many."
    )
    most: Annotated[int | None, _READ] = Field(
        default=None, ge=1, le=MOST_HOSTS, description="At most so many."
    )


class CoreBounds(SpecModel):
    """How many physical cores each node may have."""

    least: Annotated[int | None, _READ] = Field(default=None, ge=1, le=4096, description="At least so many.")
    most: Annotated[int | None, _READ] = Field(default=None, ge=1, le=4096, description="At most so many.")


class MemoryBounds(SpecModel):
    """How much memory each node may have."""

    least: Annotated[Size | None, _READ] = Field(
        default=None, description="At least so much, such as 64 GiB."
    )
    most: Annotated[Size | None, _READ] = Field(default=None, description="At most so much, such as 512 GiB.")


class NodeBounds(SpecModel):
    """What nodes a plan may choose."""

    count: Annotated[CountBounds, _READ] = Field(
        default_factory=CountBounds, description="How many nodes the grid may have, such as {most: 20}."
    )
    cores: Annotated[CoreBounds, _READ] = Field(
        default_factory=CoreBounds, description="Physical cores of each node, such as {least: 8, most: 32}."
    )
    memory: Annotated[MemoryBounds, _READ] = Field(
        default_factory=MemoryBounds, description="Memory of each node, such as {least: 64 GiB}."
    )


def bound_problems(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    """What bounds of plain data forbid by themselves, whatever is on sale."""
    requirements = _mapping(data, "requirements")
    bounds = _mapping(requirements, "nodes")
    for name in ("count", "cores", "memory"):
        least, most = (_value(name, _mapping(bounds, name).get(end)) for end in ("least", "most"))
        if least is not None and most is not None and least > most:
            written = _mapping(bounds, name)
            yield (
                ("requirements", "nodes", name, "least"),
                FieldError(
                    f"{written['least']} at least and {written['most']} at most leave nothing",
                    "raise most, or lower least",
                ),
            )
    yield from _too_few_cores(requirements, bounds)
    yield from _groups_outside(data, _mapping(bounds, "count"))


def _too_few_cores(
    requirements: Mapping[str, Any], bounds: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    needed = requirements.get("cores")
    count, cores = (_value(name, _mapping(bounds, name).get("most")) for name in ("count", "cores"))
    if isinstance(needed, int) and count is not None and cores is not None and count * cores < needed:
        yield (
            ("requirements", "nodes", "count", "most"),
            FieldError(
                f"{count} nodes of at most {cores} cores have {count * cores} of the {needed} cores required",
                f"allow {-(-needed // max(cores, 1))} nodes, or nodes of {-(-needed // max(count, 1))} cores",
            ),
        )


def _groups_outside(
    data: Mapping[str, Any], count: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    """Groups of nodes that are given with a number that the bounds forbid."""
    groups = _mapping(data, "nodes")
    given = {
        name: group["count"]
        for name, group in groups.items()
        if isinstance(group, Mapping) and _value("count", group.get("count")) is not None
    }
    least, most = (_value("count", count.get(end)) for end in ("least", "most"))
    total = sum(given.values())
    whole = len(given) == len(groups)
    for name in list(given)[:1]:
        if most is not None and total > most:
            bound = f"at most {most}"
        elif least is not None and whole and total < least:
            bound = f"at least {least}"
        else:
            continue
        yield (
            ("nodes", str(name), "count"),
            FieldError(
                f"the groups have {total} nodes, and requirements.nodes.count asks for {bound}",
                "change one of the two",
            ),
        )


def _value(name: str, written: object) -> int | None:
    """A bound as a number; None where none is written, or none that can be read."""
    if name != "memory":
        return written if isinstance(written, int) and not isinstance(written, bool) else None
    try:
        return None if written is None else int(Bytes.parse(written))
    except UnitError:
        return None


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}
