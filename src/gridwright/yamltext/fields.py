"""Values that fields of a YAML file hold, read from what people write, and the error that refuses one."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from gridwright.units import (
    DURATION_PATTERN,
    RATE_PATTERN,
    SIZE_PATTERN,
    Bytes,
    Rate,
    UnitError,
    parse_duration,
)
from gridwright.yamltext.source import show


class FieldError(ValueError):
    """A value that a field refuses: `text` says why, `remedy` what to write instead."""

    def __init__(self, text: str, remedy: str) -> None:
        super().__init__(f"{text}; {remedy}")
        self.text = text
        self.remedy = remedy


def read_total_rate(value: object) -> Rate:
    """A rate in all, above 0. Raises UnitError."""
    rate = value if isinstance(value, Rate) else Rate.parse(value)
    if rate.per_core or rate.bytes_per_s == 0:
        raise UnitError(f"{show(str(rate))} is not a rate in all, above 0", "write a rate such as 500 MB/s")
    return rate


def read_size(value: object) -> Bytes:
    """A size above 0 bytes. Raises UnitError."""
    size = Bytes.parse(value)
    if size == 0:
        raise UnitError("a capacity of 0 holds nothing", "remove the field, or write a size such as 12 TiB")
    return size


def read_duration(value: object) -> float:
    """Seconds above 0. Raises UnitError or FieldError."""
    seconds = float(value) if isinstance(value, float) else parse_duration(str(value))
    if not seconds > 0:
        raise FieldError(f"{show(value)} is no length of time", "write a time such as 8h, 30m or 90s")
    return seconds


TotalRate = Annotated[
    Rate,
    PlainValidator(read_total_rate),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": RATE_PATTERN, "examples": ["500 MB/s"]}),
]
"""A Rate in all, above 0."""

Size = Annotated[
    Bytes,
    PlainValidator(read_size),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": ["string", "integer"], "pattern": SIZE_PATTERN, "examples": ["12 TiB"]}),
]
"""A size above 0 bytes."""

Duration = Annotated[
    float,
    PlainValidator(read_duration),
    PlainSerializer(lambda seconds: f"{seconds:.12g}s", return_type=str),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "examples": ["8h"]}),
]
"""Seconds above 0."""
