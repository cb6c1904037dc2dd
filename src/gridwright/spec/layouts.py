"""How the files of a library are laid out over the targets of its file system: the field `layout`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, PlainSerializer
from pydantic_core import CoreSchema

from gridwright.spec.fields import Change, SpecModel, Update
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
