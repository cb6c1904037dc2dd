"""The field of the grid spec that says what nodes mount of a Lustre."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

_NID = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}@(?:tcp|o2ib|kfi)[0-9]{0,3}"
LUSTRE_SOURCE_PATTERN = rf"^{_NID}(?:[,:]{_NID}){{0,15}}:/[A-Za-z0-9_-]{{1,8}}(?:/[A-Za-z0-9._/-]*)?$"
"""NIDs of management servers and the name of the file system, of at most 8 characters (mount.lustre(8))."""


def _lustre_source(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(LUSTRE_SOURCE_PATTERN, value, re.ASCII):
        return value
    raise FieldError(
        f"{show(value)} is not what a Lustre client mounts",
        "write the address of the management server, its network and the file system's name, "
        "such as 10.0.0.1@tcp:/scratch",
    )


LustreSource = Annotated[
    str,
    PlainValidator(_lustre_source),
    WithJsonSchema(
        {"type": "string", "pattern": LUSTRE_SOURCE_PATTERN, "examples": ["10.0.0.1@tcp:/scratch"]}
    ),
]
"""What a Lustre client mounts."""
