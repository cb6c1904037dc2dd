"""The types that fields of a grid spec are made of, and what every field declares about itself."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
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
    SIZE_PATTERN,
    TEBIBYTE_RATE_PATTERN,
    Bytes,
    Rate,
    UnitError,
)
from gridwright.yamltext.fields import Duration as Duration  # noqa: PLC0414
from gridwright.yamltext.fields import FieldError as FieldError  # noqa: PLC0414
from gridwright.yamltext.fields import Size as Size  # noqa: PLC0414
from gridwright.yamltext.fields import TotalRate as TotalRate  # noqa: PLC0414
from gridwright.yamltext.fields import read_size, read_total_rate
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


FSX_STEP_GIB = 1200
"""AWS sells FSx for Lustre in multiples of it (CreateFileSystem API reference, StorageCapacity)."""
SMALLEST_CHUNK, LARGEST_CHUNK = 4 * 2**10, 64 * 2**20
_BUDGET = r"([0-9]+(?:\.[0-9]+)?)\s*USD/(h|month)"
_NID = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}@(?:tcp|o2ib|kfi)[0-9]{0,3}"
LUSTRE_SOURCE_PATTERN = rf"^{_NID}(?:[,:]{_NID}){{0,15}}:/[A-Za-z0-9_-]{{1,8}}(?:/[A-Za-z0-9._/-]*)?$"
"""NIDs of management servers and the name of the file system, of at most 8 characters (mount.lustre(8))."""
HOST_PATTERN = r"^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9a-fA-F:]{2,39})$"
EXPORT_PATTERN = r"^/[A-Za-z0-9._/@+-]{0,1023}$"
ROOT_SQUASH_PATTERN = r"^[0-9]{1,10}:[0-9]{1,10}$"
MAINTENANCE_PATTERN = r"^(mon|tue|wed|thu|fri|sat|sun):([01][0-9]|2[0-3]):[0-5][0-9]$"
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


def _tebibyte_rate(value: object) -> int:
    """Whole bytes per second for each TiB."""
    example = "write what each TiB delivers, such as 200 MB/s/TiB"
    text = value.strip() if isinstance(value, str) else ""
    rate, slash, unit = text.rpartition("/")
    if not slash or unit.strip() != "TiB":
        raise UnitError(f"{show(value)} is not a rate per TiB", example)
    return read_total_rate(rate).bytes_per_s


def _budget(value: object) -> float:
    """USD per hour."""
    found = re.fullmatch(_BUDGET, value.strip(), re.ASCII) if isinstance(value, str) else None
    if found is None:
        raise FieldError(f"{show(value)} is not a budget", "write USD per hour or month, such as 40 USD/h")
    if not float(found[1]) > 0:
        raise FieldError(f"{show(value)} buys nothing", "write a budget above 0, such as 40 USD/h")
    return float(found[1]) / (HOURS_PER_MONTH if found[2] == "month" else 1)


def _fsx_capacity(value: object) -> Bytes:
    """A size, where `2.4 TiB` is what AWS calls 2400 GiB.

    AWS sells FSx for Lustre in GiB and names sizes in TiB of 1000 GiB; nothing that it sells is a
    whole number of real TiB below 75, so the two are not confused.
    """
    text = value.strip() if isinstance(value, str) else ""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*TiB", text, re.ASCII)
    if found and (Fraction(found[1]) * 1000) % FSX_STEP_GIB == 0 and Fraction(found[1]) > 0:
        return Bytes(Fraction(found[1]) * 1000 * 2**30)
    # What lies between two steps is refused with both of them where the catalogue is known.
    return Bytes(math.ceil(Fraction(found[1]) * 2**40)) if found else read_size(value)


def _chunk(value: object) -> Bytes:
    """A chunk as md takes it: a power of two (mdadm(8), --chunk), of at least a page."""
    size = Bytes.parse(value)
    if SMALLEST_CHUNK <= size <= LARGEST_CHUNK and size & (size - 1) == 0:
        return size
    raise FieldError(
        f"{show(value)} is not a chunk that an array can have",
        f"write a power of two from {Bytes(SMALLEST_CHUNK)} to {Bytes(LARGEST_CHUNK)}, such as 512 KiB",
    )


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


def _lustre_source(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(LUSTRE_SOURCE_PATTERN, value, re.ASCII):
        return value
    raise FieldError(
        f"{show(value)} is not what a Lustre client mounts",
        "write the address of the management server, its network and the file system's name, "
        "such as 10.0.0.1@tcp:/scratch",
    )


def _host_name(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(HOST_PATTERN, value, re.ASCII):
        return value
    raise FieldError(f"{show(value)} is not a host name or an address", "write one, such as nfs1 or 10.0.0.1")


def _version_text(value: object) -> object:
    """4.2 and 3 of YAML as text. What is no version is refused by the type."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _export_path(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(EXPORT_PATTERN, value, re.ASCII):
        return value
    raise FieldError(
        f"{show(value)} is not an absolute directory of a server", "write one, such as /export/grid"
    )


def _root_squash(value: str) -> str:
    numbers = value.split(":") if re.fullmatch(ROOT_SQUASH_PATTERN, value, re.ASCII) else []
    if numbers and all(0 < int(each) < 2**32 - 1 for each in numbers):
        return value
    # 0 means that root stays root (FSx API reference, LustreRootSquashConfiguration).
    raise FieldError(
        f"{show(value)} is not UID:GID, neither of them 0", "write two numbers, such as 65534:65534"
    )


def _maintenance(value: str) -> str:
    if re.fullmatch(MAINTENANCE_PATTERN, value, re.ASCII):
        return value
    raise FieldError(f"{show(value)} is not a day and a time", "write one in UTC, such as sun:03:00")


def _reason(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise FieldError(
        f"a reason is wanted, and {show(value)} is given",
        "write why this finding does not matter here, in a few words",
    )


Name = Annotated[str, AfterValidator(check_name), WithJsonSchema({"type": "string", "pattern": NAME_PATTERN})]
"""Name of a grid, a node group or a file system."""

CoreRate = Annotated[
    Rate,
    PlainValidator(_core_rate),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": CORE_RATE_PATTERN, "examples": ["100 MB/s/core"]}),
]
"""A Rate per physical core."""

TebibyteRate = Annotated[
    int,
    PlainValidator(_tebibyte_rate),
    PlainSerializer(lambda rate: f"{Rate(rate)}/TiB", return_type=str),
    WithJsonSchema({"type": "string", "pattern": TEBIBYTE_RATE_PATTERN, "examples": ["200 MB/s/TiB"]}),
]
"""Bytes per second that each TiB of a file system delivers."""

Budget = Annotated[
    float,
    PlainValidator(_budget),
    PlainSerializer(lambda usd: f"{usd:.12g} USD/h", return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_BUDGET}$", "examples": ["40 USD/h"]}),
]
"""USD per hour, above 0."""

ChunkSize = Annotated[
    Bytes,
    PlainValidator(_chunk),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": ["string", "integer"], "pattern": SIZE_PATTERN, "examples": ["512 KiB"]}),
]
"""How much of a stripe is on one disk of an array."""

FsxCapacity = Annotated[
    Bytes,
    PlainValidator(_fsx_capacity),
    PlainSerializer(lambda size: f"{size // 2**30} GiB" if size % 2**30 == 0 else str(size), return_type=str),
    WithJsonSchema({"type": ["string", "integer"], "pattern": SIZE_PATTERN, "examples": ["2400 GiB"]}),
]
"""Storage capacity of FSx for Lustre: 2400 GiB, or 2.4 TiB as AWS calls it."""

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

LustreSource = Annotated[
    str,
    PlainValidator(_lustre_source),
    WithJsonSchema(
        {"type": "string", "pattern": LUSTRE_SOURCE_PATTERN, "examples": ["10.0.0.1@tcp:/scratch"]}
    ),
]
"""What a Lustre client mounts."""

HostName = Annotated[
    str, PlainValidator(_host_name), WithJsonSchema({"type": "string", "pattern": HOST_PATTERN})
]
"""A host name or an address."""

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

RootSquash = Annotated[
    str, AfterValidator(_root_squash), WithJsonSchema({"type": "string", "pattern": ROOT_SQUASH_PATTERN})
]
"""UID:GID."""

MaintenanceWindow = Annotated[
    str, AfterValidator(_maintenance), WithJsonSchema({"type": "string", "pattern": MAINTENANCE_PATTERN})
]
"""A day of the week and a time in UTC: sun:03:00."""

Reason = Annotated[str, PlainValidator(_reason), WithJsonSchema({"type": "string", "minLength": 1})]
"""Why a finding is silenced."""
