"""What a grid must reach, beside the rates of its libraries: `requirements` and `workload` of the grid spec.

`gridwright plan` also reads bounds on the nodes that it may choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from gridwright.spec.fields import Budget, Change, SpecModel, Update, mapping_of
from gridwright.spec.hosts import MOST_HOSTS
from gridwright.units import Bytes, UnitError
from gridwright.yamltext.fields import Duration, FieldError, Size

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
    requirements = mapping_of(data, "requirements")
    bounds = mapping_of(requirements, "nodes")
    for name in ("count", "cores", "memory"):
        least, most = (_value(name, mapping_of(bounds, name).get(end)) for end in ("least", "most"))
        if least is not None and most is not None and least > most:
            written = mapping_of(bounds, name)
            yield (
                ("requirements", "nodes", name, "least"),
                FieldError(
                    f"{written['least']} at least and {written['most']} at most leave nothing",
                    "raise most, or lower least",
                ),
            )
    yield from _too_few_cores(requirements, bounds)
    yield from _groups_outside(data, mapping_of(bounds, "count"))


def _too_few_cores(
    requirements: Mapping[str, Any], bounds: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    needed = requirements.get("cores")
    count, cores = (_value(name, mapping_of(bounds, name).get("most")) for name in ("count", "cores"))
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
    groups = mapping_of(data, "nodes")
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


_JUDGED = Update(Change.LIVE, "only proofs read it")
Ratio = Annotated[float, Field(gt=0, le=1)]
"""CPU time over real time: 1 where a core was never kept waiting."""


class WorkloadRequires(SpecModel):
    """What launches of the workload must reach, beside right answers."""

    ratio: Annotated[Ratio | None, _JUDGED] = Field(
        default=None,
        description="The CPU/real ratio of all launches, such as 0.9: both the mean of single launches and "
        "that of the sums must reach it. A launch on several cores counts as 1 at most.",
    )
    tests: Annotated[Mapping[str, Ratio], _JUDGED] = Field(
        default_factory=dict,
        description="The CPU/real ratio of single tests, by their names, such as regression: 0.95.",
    )
    real_time: Annotated[Duration | None, _JUDGED] = Field(
        default=None,
        description="The time from the start of the first launch of the matrix to the end of the last, at "
        "most, such as 4h.",
    )


class Workload(SpecModel):
    """The mixed workload of a grid."""

    requires: Annotated[WorkloadRequires | None, _JUDGED] = Field(
        default=None,
        description="What the workload must reach. Without it a run of it says how far it came, and "
        "nothing is proven of it.",
    )


class FamilyFilter(SpecModel):
    """FamilyFilter of instance types to use, or not to."""

    allow: Annotated[list[str], _READ] = Field(
        default_factory=list,
        description="Nodes of only these families, such as [m5n, r5n]. By default all without accelerators "
        "and processor credits. Servers of file systems may be of others.",
    )
    forbid: Annotated[list[str], _READ] = Field(
        default_factory=list, description="Not these families, for nodes and servers."
    )


class Availability(SpecModel):
    """What may be lost when a machine is."""

    lose_data_with_server: Annotated[bool, _READ] = Field(
        default=False, description="Whether data may be lost with a server of its file system."
    )
    lose_work_with_node: Annotated[bool, _READ] = Field(
        default=True, description="Whether work and util may be lost with a node, as on an instance store."
    )
    interrupt_nodes: Annotated[bool, _READ] = Field(
        default=False,
        description="Whether nodes may be taken away at two minutes' notice. With true, prices of spot "
        "instances are shown, too; up buys none.",
    )


class Requirements(SpecModel):
    """What a grid must reach; rates and capacities stand with each library."""

    cores: Annotated[int | None, _READ] = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Physical cores that the nodes must have in all. With `jobs` and `finish_within` "
        "it may be left out.",
    )
    memory_per_core: Annotated[Size | None, _READ] = Field(
        default=None, description="Memory that each physical core needs, such as 8 GB."
    )
    budget: Annotated[Budget | None, _READ] = Field(
        default=None, description="The most it may cost, such as 40 USD/h or 30000 USD/month."
    )
    peak_factor: Annotated[float | None, _READ] = Field(
        default=None,
        gt=0,
        le=1,
        description="Which part of the sum of all libraries' rates must be there at the same time: libraries "
        "do not all peak together. By default 0.357, out of paper 4632-2020.",
    )
    nodes: Annotated[NodeBounds, _READ] = Field(
        default_factory=NodeBounds,
        description="Bounds on the nodes that a plan may choose: their number, cores and memory.",
    )
    architecture: Annotated[Literal["x86_64", "arm64"] | None, _READ] = Field(
        default=None,
        description="The processor architecture of the nodes: x86_64 or arm64. By default either.",
    )
    families: Annotated[FamilyFilter, _READ] = Field(
        default_factory=FamilyFilter, description="Families of instance types to use, or not to."
    )
    availability: Annotated[Availability, _READ] = Field(
        default_factory=Availability, description="What may be lost when a machine is."
    )
    jobs: Annotated[str | None, _READ] = Field(
        default=None,
        min_length=1,
        description="The jobs of a night, for a plan by deadline: a matrix, such as mixed-30, a "
        "file of imported profiles (*.json) or a table of jobs (*.parquet).",
    )
    finish_within: Annotated[Duration | None, _READ] = Field(
        default=None,
        description="The time from the start of the first of `jobs` to the end of the last, at most, such "
        "as 4h.",
    )
