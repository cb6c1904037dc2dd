"""What a grid must reach, beside the rates of its libraries: what `gridwright plan` reads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gridwright.spec.bounds import NodeBounds
from gridwright.spec.fields import Budget, Change, SpecModel, Update
from gridwright.yamltext.fields import Duration, Size

_READ = Update(Change.LIVE, "only planning reads it")


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
