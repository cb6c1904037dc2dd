"""What `down` of a grid on AWS would do, and what it did; nothing here calls AWS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gridwright.providers.aws.cost_lines import kept_lines


@dataclass(frozen=True, slots=True)
class DownPlan:
    """What `down` would remove, and what it would keep."""

    grid: str
    there: bool
    """Whether there is anything."""
    goes: tuple[str, ...]
    stays: tuple[str, ...]
    staying_usd_per_hour: float | None

    def question(self) -> Iterator[str]:
        """What is told before it is asked; nothing where there is nothing to ask."""
        if not self.goes:
            return
        yield f"gridwright down of grid {self.grid} removes:"
        yield from (f"  {each}" for each in self.goes)
        if self.stays:
            yield "and keeps:"
            yield from (f"  {each}" for each in self.stays)
            yield from kept_lines(self.staying_usd_per_hour)


@dataclass(frozen=True, slots=True)
class AwsDown:
    """What `down` did."""

    grid: str
    region: str
    was_up: bool
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    kept_usd_per_hour: float | None

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "region": self.region,
            "was_up": self.was_up,
            "removed": list(self.removed),
            "kept": list(self.kept),
            "kept_usd_per_hour": self.kept_usd_per_hour if self.kept else 0.0,
            "left": [],
        }

    def text(self) -> str:
        """See Result."""
        return "\n".join(_lines(self))


def _lines(result: AwsDown) -> Iterator[str]:
    if not result.was_up:
        yield f"grid {result.grid} was not up: nothing of it is in {result.region}"
    elif not result.kept:
        yield f"grid {result.grid} is down: nothing of it is left in {result.region}"
    else:
        yield f"grid {result.grid} is down; kept, and billed:"
        yield from (f"  {each}" for each in result.kept)
        yield from kept_lines(result.kept_usd_per_hour)
        yield "  gridwright down --delete-data NAME removes one with all its data"
