"""A library of a grid spec: a role for data, the file system it lives on, and what cores need of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gridwright.spec.fields import Change, CoreRate, SpecModel, Subdirectory, Update
from gridwright.spec.layouts import Layout
from gridwright.yamltext.fields import Size


class Library(SpecModel):
    """A role for data: where it lives, and what each core needs of it."""

    filesystem: Annotated[
        str, Update(Change.REBUILD, "the data have to be copied to the other file system")
    ] = Field(
        default="",
        description="The name, under filesystems, of the file system it lives on. By default the only one.",
    )
    requires: Annotated[CoreRate | None, Update(Change.LIVE, "only planning and proofs read it")] = Field(
        default=None,
        description="The rate that each physical core needs, such as 100 MB/s/core. "
        "Without one nothing is proven.",
    )
    path: Annotated[
        Subdirectory, Update(Change.REMOUNT, "jobs look for it at the new place; data stay at the old one")
    ] = Field(
        default="", description="Its directory, below the path of the file system. By default its own name."
    )
    capacity: Annotated[Size | None, Update(Change.LIVE, "only planning and checks read it")] = Field(
        default=None, description="The room it needs in all, such as 12 TiB."
    )
    capacity_in_12_months: Annotated[Size | None, Update(Change.LIVE, "only planning reads it")] = Field(
        default=None,
        description="The room it will need in all a year from now, such as 24 TiB: a plan says what that "
        "costs, and whether its file system grows in place.",
    )
    layout: Annotated[
        Layout | None,
        Update(Change.LIVE, "new files have it; `gridwright layout rebalance` moves old ones"),
    ] = Field(
        default=None,
        description="On Lustre, over how many OSTs its files are striped: auto has the model choose, a "
        "number is a stripe count (-1 is all), and a list has parts of each file. By default the "
        "stripe_count of its file system where that is given, else auto.",
    )
