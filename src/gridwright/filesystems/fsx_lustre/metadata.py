"""Metadata operations of FSx for Lustre: automatic, none, or a number that is on offer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import PlainValidator, WithJsonSchema

from gridwright.errors import nearest
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

ON_OFFER = (1_500, 3_000, 6_000, 12_000)
"""Operations per second, and multiples of the last (FSx API reference, LustreMetadataConfiguration)."""
MOST = 192_000
_WORDS = ("automatic", "none")
_OFFERED = "1500, 3000, 6000, and multiples of 12000 up to 192000"


def nearest_on_offer(iops: int) -> int:
    """The number on offer that is nearest to one; the larger of two as near."""
    step = ON_OFFER[-1]
    whole = min(max((iops + step // 2) // step, 1) * step, MOST)
    return min((*ON_OFFER, whole), key=lambda each: (abs(each - iops), -each))


def _metadata(value: object) -> object:
    if isinstance(value, str) and value in _WORDS:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        near = nearest_on_offer(value)
        if near == value:
            return value
        raise FieldError(
            f"{show(value)} metadata operations are not offered", f"write {near}, the nearest of {_OFFERED}"
        )
    word = nearest(value, _WORDS) if isinstance(value, str) else None
    hint = f"did you mean {word}? " if word else ""
    raise FieldError(
        f"{show(value)} is no number of metadata operations", f"{hint}write automatic, none, or {_OFFERED}"
    )


MetadataOperations = Annotated[
    Literal["automatic", "none"] | int,
    PlainValidator(_metadata),
    WithJsonSchema({"anyOf": [{"enum": list(_WORDS)}, {"type": "integer", "minimum": ON_OFFER[0]}]}),
]
"""Metadata operations per second."""
