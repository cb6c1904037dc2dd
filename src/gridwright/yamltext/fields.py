"""Values that fields of a YAML file hold, read from what people write, and the error that refuses one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

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


@dataclass(frozen=True, slots=True)
class Written:
    """Metadata of a field: how its value is read from what people write, and written again as text."""

    read: Callable[[Any], object]
    """Raises FieldError or UnitError for what it does not take."""
    pattern: str
    example: str | None = None
    write: Callable[[Any], str] = str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read in validation, write in serialization."""
        text = core_schema.plain_serializer_function_ser_schema(
            self.write, return_schema=core_schema.str_schema()
        )
        return core_schema.no_info_plain_validator_function(self.read, serialization=text)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """A text of this pattern."""
        shown = {"examples": [self.example]} if self.example else {}
        return {"type": "string", "pattern": self.pattern, **shown}


def matching(pattern: str, what: str, instead: str, example: str | None = None) -> Written:
    """Metadata of a field of text that matches a pattern; what does not is not `what`: write `instead`."""

    def read(value: object) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII):
            return value
        raise FieldError(f"{show(value)} is not {what}", f"write {instead}")

    return Written(read, pattern, example)


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


TotalRate = Annotated[Rate, Written(read_total_rate, RATE_PATTERN, "500 MB/s")]
"""A Rate in all, above 0."""
Size = Annotated[Bytes, Written(read_size, SIZE_PATTERN, "12 TiB")]
"""A size above 0 bytes."""
Duration = Annotated[
    float, Written(read_duration, DURATION_PATTERN, "8h", lambda seconds: f"{seconds:.12g}s")
]
"""Seconds above 0."""
