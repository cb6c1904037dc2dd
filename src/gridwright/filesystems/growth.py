"""New storage that needs more room in a year: what it begins with, what it becomes, and how it gets there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gridwright.spec.fields import Change, Update
from gridwright.spec.structure import field_at

IN_PLACE = frozenset({Change.LIVE, Change.REMOUNT, Change.ROLLING})
"""What may be done to a file system that keeps its data: by the update policies of its fields."""
_NAME = "new"


@dataclass(frozen=True, slots=True)
class Growth:
    """What becomes of new storage in 12 months; costs in USD per hour.

    `in_place`: it begins small and grows by fields whose update policies keep its data; `because` names them.
    Where that would be a rebuild, for the reason in `because`, it is bought at its later size, and both
    costs are the same. `later` is what it is then, in words, and `plain` as a section of a grid spec.
    """

    later: str
    usd_now: float
    usd_later: float
    in_place: bool
    because: str
    plain: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mean_usd(self) -> float:
        """The mean of 12 months, where it grows evenly."""
        return (self.usd_now + self.usd_later) / 2


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Update]]:
    """The fields that differ between two sections of a file system, each with its update policy."""
    whole = {"filesystems": {_NAME: dict(after)}}
    return [(".".join(path), update) for path, update in _differing(before, after, (), whole, None)]


def _differing(
    old: Any,  # noqa: ANN401 - plain values
    new: Any,  # noqa: ANN401
    path: tuple[str, ...],
    whole: Mapping[str, Any],
    above: Update | None,
) -> Iterator[tuple[tuple[str, ...], Update]]:
    if old == new:
        return
    info = field_at(("filesystems", _NAME, *path), whole)
    declared = next((each for each in info.metadata if isinstance(each, Update)), None) if info else None
    update = declared or above or Update(Change.REBUILD, "nothing says how it changes")
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*new, *old)):
            yield from _differing(old.get(name), new.get(name), (*path, name), whole, update)
        return
    yield path, update
