"""Types of fields that only NFS has."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

EXPORT_PATTERN = r"^/[A-Za-z0-9._/@+-]{0,1023}$"


def _version_text(value: object) -> object:
    """4.2 and 3 of YAML as text. What is no version is refused by the type."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _export_path(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(EXPORT_PATTERN, value, re.ASCII):
        return value
    raise FieldError(
        f"{show(value)} is not an absolute directory of a server", "write one, such as /export/grid"
    )


NfsVersion = Annotated[
    Literal["4.2", "4.1", "4.0", "3"],
    BeforeValidator(_version_text),
    WithJsonSchema({"enum": ["4.2", "4.1", "4.0", "3", 4.2, 4.1, 4.0, 3]}),
]
"""A version of NFS as nfs(5) has it; unquoted it is a number in YAML."""


ExportPath = Annotated[
    str, PlainValidator(_export_path), WithJsonSchema({"type": "string", "pattern": EXPORT_PATTERN})
]
"""A directory that an NFS server exports."""
