"""A library of a grid spec: a role for data, its file system, the layout there, and what cores need of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, PlainSerializer
from pydantic_core import CoreSchema

from gridwright.spec.fields import Change, CoreRate, SpecModel, Subdirectory, Update
from gridwright.yamltext.fields import FieldError, Size
from gridwright.yamltext.source import show

AUTO = "auto"
"""The model chooses."""
_NEW_FILES = Update(Change.LIVE, "new files have it; `gridwright layout rebalance` moves old ones")
MOST_STRIPES = 2_000
"""LOV_MAX_STRIPE_COUNT of Lustre."""


class LayoutPart(SpecModel):
    """A part of each file, and how it is striped."""

    until: Annotated[Size | None, _NEW_FILES] = Field(
        default=None, description="Where the part ends, such as 256 MiB. By default at the end of the file."
    )
    stripes: Annotated[int | None, _NEW_FILES] = Field(
        default=None,
        ge=-1,
        le=MOST_STRIPES,
        description="Over how many OSTs it goes, as `lfs setstripe -c` has it; -1 is all.",
    )
    stripe_size: Annotated[Size | None, _NEW_FILES] = Field(
        default=None,
        description="How much goes to one OST before the next, such as 4 MiB. By default the servers' own.",
    )
    pool: Annotated[str | None, _NEW_FILES] = Field(
        default=None, pattern=r"^[A-Za-z0-9_-]{1,15}$", description="The pool of OSTs that it lies in."
    )
    where: Annotated[Literal["osts", "mdt"], _NEW_FILES] = Field(
        default="osts",
        description="osts, or mdt: the first bytes of each file lie on the metadata server, for many small "
        "files; it fills with them.",
    )


def _parts(value: object) -> object:
    """The parts that a layout is written for: none for auto, one for a stripe count or a single part."""
    if value == AUTO:
        return []
    if isinstance(value, int) and not isinstance(value, bool):
        return [{"stripes": value}]
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, list) and value:
        return value
    raise FieldError(
        f"{show(value)} is no layout",
        "write auto, a stripe count such as 4, or parts such as [{until: 1 GiB, stripes: 1}, {stripes: -1}]",
    )


def _written(parts: list[LayoutPart]) -> object:
    """What a person would write for it."""
    if not parts:
        return AUTO
    short = [part.model_dump(exclude_none=True, exclude_defaults=True) for part in parts]
    (first, *more) = short
    return first["stripes"] if not more and list(first) == ["stripes"] else short


class _OneOfThree:
    """Metadata of a layout in the JSON Schema: what `_parts` takes."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        parts = handler(core_schema)
        count = {"type": "integer", "minimum": -1, "maximum": MOST_STRIPES}
        return {"anyOf": [{"const": AUTO}, count, parts["items"], {**parts, "minItems": 1}]}


Layout = Annotated[
    list[LayoutPart],
    BeforeValidator(_parts),
    PlainSerializer(_written),
    _OneOfThree(),
]
"""Parts of each file, from its start on; none where the model chooses."""


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
