"""The types that fields of a grid spec are made of, and what every field declares about itself."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema

from gridwright.units import (
    CORE_RATE_PATTERN,
    HOURS_PER_MONTH,
    Rate,
    UnitError,
)
from gridwright.yamltext.fields import FieldError, Written, matching
from gridwright.yamltext.source import show
from gridwright.yamltext.structure import Section


class Change(StrEnum):
    """What changing a field does to a live grid, from nothing to all."""

    LIVE = "live"
    REMOUNT = "remount"
    ROLLING = "rolling"
    REBUILD = "rebuild"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Update:
    """Metadata of a field: what changing it does to a live grid, and why."""

    change: Change
    because: str

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Carry the policy into the JSON Schema, where editors and other tools can read it."""
        return {**handler(core_schema), "x-update-policy": self.change.value, "x-update-reason": self.because}


class SpecModel(Section):
    """Base of all sections of a grid spec, whose fields each declare what changing them does."""


_BUDGET = r"([0-9]+(?:\.[0-9]+)?)\s*USD/(h|month)"
HOST_PATTERN = r"^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9a-fA-F:]{2,39})$"
NAME_PATTERN = r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"


def check_name(name: str) -> str:
    """A name that can be part of a host name, a directory and a cloud resource.

    Raises FieldError with the nearest name that is allowed.
    """
    if re.fullmatch(NAME_PATTERN, name, re.ASCII):
        return name
    near = re.sub(r"[^a-z0-9]+", "-", name.lower()).lstrip("-0123456789")[:63].rstrip("-")
    allowed = "use a to z, 0 to 9 and -, beginning with a letter, at most 63 characters"
    raise FieldError(
        f"{show(name)} is not a name that can be used",
        f"write {near}, or another name: {allowed}" if near else allowed,
    )


def _core_rate(value: object) -> Rate:
    rate = value if isinstance(value, Rate) else Rate.parse(value, per_core=True)
    if rate.bytes_per_s == 0:
        raise UnitError(
            "a requirement of 0 asks for nothing", "remove the field, or write a rate such as 100 MB/s/core"
        )
    return rate


def _budget(value: object) -> float:
    """USD per hour."""
    match = re.fullmatch(_BUDGET, value.strip(), re.ASCII) if isinstance(value, str) else None
    if match is None:
        raise FieldError(f"{show(value)} is not a budget", "write USD per hour or month, such as 40 USD/h")
    if not float(match[1]) > 0:
        raise FieldError(f"{show(value)} buys nothing", "write a budget above 0, such as 40 USD/h")
    return float(match[1]) / (HOURS_PER_MONTH if match[2] == "month" else 1)


def _directory(value: object, info: ValidationInfo) -> Path:
    """An absolute path; a relative one starts at the directory of the grid spec."""
    text = _path_text(value, "/data/grid")
    if text.startswith("~"):
        raise FieldError(
            "~ is not expanded: it differs from user to user", "write the whole path, such as /home/ann/grid"
        )
    base = info.context.get("base") if isinstance(info.context, Mapping) else None
    if not text.startswith("/") and base is None:
        raise FieldError("a relative path, and the spec is not in a file", "write the whole path, from / on")
    # Lexical on purpose: the path may not exist yet, or only on the nodes.
    path = posixpath.normpath(posixpath.join(str(base or "/"), text))
    if path.strip("/") == "":
        raise FieldError(
            "the root directory cannot be a file system of a grid", "name a directory, such as /data/grid"
        )
    return Path("/" + path.lstrip("/"))


def _subdirectory(value: object) -> str:
    text = _path_text(value, "work")
    path = posixpath.normpath(text)
    if text.startswith(("/", "~")) or path == ".." or path.startswith("../"):
        raise FieldError(
            "outside its file system", "write a path below the path of the file system, such as work"
        )
    return path


def _path_text(value: object, example: str) -> str:
    text = str(value) if isinstance(value, Path) else value
    if not isinstance(text, str) or not text.strip():
        raise FieldError(f"a path is wanted, and {show(value)} is given", f"write a path, such as {example}")
    if found := re.search(r"\$\w+|\$\{\w+\}", text):
        raise FieldError(f"{found[0]} is not expanded", f"write the path itself, such as {example}")
    if any(not char.isprintable() for char in text) or len(text) > 1024:
        raise FieldError("not a path that can be used", f"write a path, such as {example}")
    return text


def _reason(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise FieldError(
        f"a reason is wanted, and {show(value)} is given",
        "write why this finding does not matter here, in a few words",
    )


Name = Annotated[str, AfterValidator(check_name), WithJsonSchema({"type": "string", "pattern": NAME_PATTERN})]
"""Name of a grid, a node group or a file system."""

CoreRate = Annotated[Rate, Written(_core_rate, CORE_RATE_PATTERN, "100 MB/s/core")]
"""A Rate per physical core."""

Budget = Annotated[float, Written(_budget, f"^{_BUDGET}$", "40 USD/h", lambda usd: f"{usd:.12g} USD/h")]
"""USD per hour, above 0."""

Directory = Annotated[
    Path,
    PlainValidator(_directory),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1, "examples": ["/data/grid", "./disk"]}),
]
"""An absolute directory; relative in the spec, it starts at the spec's own directory (context `base`)."""

Subdirectory = Annotated[
    str,
    PlainValidator(_subdirectory),
    WithJsonSchema({"type": "string", "minLength": 1, "examples": ["work"]}),
]
"""A path below that of a file system."""

HostName = Annotated[
    str, matching(HOST_PATTERN, "a host name or an address", "one, such as nfs1 or 10.0.0.1")
]
"""A host name or an address."""

Reason = Annotated[str, PlainValidator(_reason), WithJsonSchema({"type": "string", "minLength": 1})]
"""Why a finding is silenced."""


def mapping_of(data: Any, key: str) -> Mapping[str, Any]:  # noqa: ANN401 - plain data
    """What a mapping of a document has under a key; an empty one where either is none."""
    value = data.get(key) if isinstance(data, Mapping) else None
    return value if isinstance(value, Mapping) else {}
