"""The type of a field that only local file systems have."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from gridwright.units import SIZE_PATTERN, Bytes
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

SMALLEST_CHUNK, LARGEST_CHUNK = 4 * 2**10, 64 * 2**20


def _chunk(value: object) -> Bytes:
    """A chunk as md takes it: a power of two (mdadm(8), --chunk), of at least a page."""
    size = Bytes.parse(value)
    if SMALLEST_CHUNK <= size <= LARGEST_CHUNK and size & (size - 1) == 0:
        return size
    raise FieldError(
        f"{show(value)} is not a chunk that an array can have",
        f"write a power of two from {Bytes(SMALLEST_CHUNK)} to {Bytes(LARGEST_CHUNK)}, such as 512 KiB",
    )


ChunkSize = Annotated[
    Bytes,
    PlainValidator(_chunk),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": ["string", "integer"], "pattern": SIZE_PATTERN, "examples": ["512 KiB"]}),
]
"""How much of a stripe is on one disk of an array."""
