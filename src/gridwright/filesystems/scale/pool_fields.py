"""Storage pools beside `system`, and where files go in them, as the grid spec names both.

What Scale knows of pools is IBM's (IBM Storage Scale 5.2, storage pools and policies, looked up 2026-11-28).
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.spec.filesystem import Disks
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

_LONGEST = 63
"""Scale takes 255 characters; volumes of a cloud have grid, file system and pool in their names of 255."""
_PATTERN = rf"^[A-Za-z][A-Za-z0-9]{{0,{_LONGEST - 1}}}$"
_RULES = Update(Change.LIVE, "rules change at once; files stay where they are until one moves them")


def check_pool_name(name: str) -> str:
    """A pool's name: letters and digits. Raises FieldError with the nearest name that is allowed."""
    if re.fullmatch(_PATTERN, name, re.ASCII):
        return name
    near = re.sub(r"[^A-Za-z0-9]+", "", name).lstrip("0123456789")[:_LONGEST]
    allowed = f"letters and digits, beginning with a letter, at most {_LONGEST} of them"
    raise FieldError(
        f"{show(name)} is not a name of a storage pool",
        f"write {near}, or another name: {allowed}" if near else f"write {allowed}",
    )


PoolName = Annotated[
    str, AfterValidator(check_pool_name), WithJsonSchema({"type": "string", "pattern": _PATTERN})
]


class StoragePool(SpecModel):
    """Further disks of the same servers, which hold data alone."""

    disks: Annotated[Disks, Update(Change.REBUILD, "disks are added; those that go are emptied by hand")] = (
        Field(
            description="The disks that each server is the first one of, such as {type: lower-cost, "
            "count: 4, size: 4 TiB}. Its pair takes them over."
        )
    )


class PoolMigration(SpecModel):
    """Files that leave a pool when it fills, those first that were not read for the longest time."""

    to: Annotated[PoolName, _RULES] = Field(description="The pool that they go to.")
    above: Annotated[int, _RULES] = Field(
        default=85, ge=1, le=100, description="The percentage in use at which files begin to leave."
    )
    until: Annotated[int, _RULES] = Field(
        default=70, ge=0, le=99, description="The percentage in use at which that ends; below `above`."
    )
