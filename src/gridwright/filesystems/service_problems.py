"""What the figures of a service contradict in a grid spec, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.yamltext.fields import FieldError


def service_problems(fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    """Prices by a capacity that nobody names, and limits that contradict each other.

    `fields` are plain and unchecked: whatever has the wrong type is passed over.
    """
    if fields.get("storage_price") is not None and fields.get("capacity") is None:
        yield (
            ("storage_price",),
            FieldError("a price by capacity, and no capacity", "add capacity: 12 TiB"),
        )
    if isinstance(limits := fields.get("limits"), Mapping):
        yield from _contradictions(limits)


def _contradictions(limits: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    if limits.get("separate") is not True:
        return
    if limits.get("budget") is not None:
        yield (
            ("limits", "separate"),
            FieldError(
                "reads and writes have a budget together, so they are not separate", "remove one line"
            ),
        )
    if limits.get("burst") is not None and limits.get("budget") is None:
        yield (
            ("limits", "burst"),
            FieldError(
                "a burst lifts the budget of reads and writes, and separate says that they have none",
                "remove the burst, or separate: true",
            ),
        )
