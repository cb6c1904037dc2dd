"""Fields of Lustre in a grid spec: stripes of files, who root of a client is, when a service maintains it."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field

from gridwright.services.ports import Ports
from gridwright.spec.fields import Change, Update
from gridwright.yamltext.fields import FieldError, Written, matching
from gridwright.yamltext.source import show

MAINTENANCE_PATTERN = r"^(mon|tue|wed|thu|fri|sat|sun):([01][0-9]|2[0-3]):[0-5][0-9]$"

MaintenanceWindow = Annotated[
    str, matching(MAINTENANCE_PATTERN, "a day and a time", "one in UTC, such as sun:03:00")
]
"""A day of the week and a time in UTC: sun:03:00."""


ROOT_SQUASH_PATTERN = r"^[0-9]{1,10}:[0-9]{1,10}$"
NOT_SQUASHED = "none"
"""Root of a client is root of the file system."""
NOBODY = "65534:65534"
"""User and group nobody."""

StripeCount = Annotated[
    int | None,
    Update(Change.LIVE, "setup gives it to directories of libraries; files that are there keep theirs"),
]
"""How many targets a file lies on; -1 is all, None leaves it to the layouts of libraries."""


def stripe_count() -> Any:  # noqa: ANN401 - what pydantic takes for a field
    """The field's default, limits and description."""
    return Field(
        default=None,
        ge=-1,
        le=2_000,
        description="Over how many OSTs a file is striped, as `lfs setstripe -c` has it, in libraries that "
        "have no layout of their own; -1 is all. By default the model chooses for each library.",
    )


def _root_squash(value: object) -> str:
    text = str(value)
    numbers = text.split(":") if re.fullmatch(ROOT_SQUASH_PATTERN, text, re.ASCII) else []
    if numbers and all(0 < int(each) < 2**32 - 1 for each in numbers):
        return text
    # 0 means that root stays root (FSx API reference, LustreRootSquashConfiguration; Lustre
    # Operations Manual, using root squash).
    raise FieldError(
        f"{show(value)} is not UID:GID, neither of them 0", "write two numbers, such as 65534:65534"
    )


def _squashed_or_not(value: object) -> str:
    return NOT_SQUASHED if value == NOT_SQUASHED else _root_squash(value)


RootSquash = Annotated[str, Written(_root_squash, ROOT_SQUASH_PATTERN)]
"""UID:GID."""

SquashedByDefault = Annotated[
    str, Written(_squashed_or_not, rf"{ROOT_SQUASH_PATTERN}|^{NOT_SQUASHED}$", NOBODY)
]
"""UID:GID, or none."""


LNET = (Ports("Lustre", 988, 988), Ports("LustreReserved", 1018, 1023))
"""LNet over TCP: where it listens, and the ports that it calls from (FSx for Lustre User Guide, file system
access control with Amazon VPC)."""
