"""What `stop` and `start` of a grid on AWS did, and what that saves; nothing here calls AWS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gridwright.providers.aws.cost_lines import CostLine, bill_lines, bill_values, total


@dataclass(frozen=True, slots=True)
class AwsStopped:
    """What `stop` did."""

    grid: str
    region: str
    changed: bool
    """Whether anything ran before."""
    machines: int
    costs_before: tuple[CostLine, ...]
    costs: tuple[CostLine, ...]
    """Of what stays, and is billed."""
    emptied: tuple[str, ...]
    """File systems on disks of nodes, and machines that are replaced: they are empty after the next start."""
    file: str = ""
    least_before: float | None = None
    """What it cost with the nodes alone that are always on; None where all are."""

    @property
    def saved_usd_per_hour(self) -> float | None:
        """What each hour saves; None where a price is missing. Nodes without a job would be off anyway."""
        before = total(self.costs_before) if self.least_before is None else self.least_before
        now = total(self.costs)
        return None if before is None or now is None else before - now

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "region": self.region,
            "changed": self.changed,
            "machines": self.machines,
            "costs": bill_values(self.costs),
            "saved_usd_per_hour": self.saved_usd_per_hour,
            "emptied": list(self.emptied),
        }

    def text(self) -> str:
        """What was done, what it saves, and how to go on."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.changed:
            yield f"grid {self.grid} is stopped: none of its {self.machines} machines runs"
        else:
            yield f"grid {self.grid} was stopped already"
        yield from bill_lines(self.costs, "What stays costs")
        if self.saved_usd_per_hour is not None:
            least = "" if self.least_before is None else "at least "
            yield f"Each hour saves {least}{self.saved_usd_per_hour:.2f} USD"
        if self.emptied:
            names = ", ".join(self.emptied)
            yield f"Empty after the next start, as their disks went with their machines: {names}"
        spec = f" {self.file}" if self.file else ""
        yield f"Next:\n  gridwright start{spec}\n  gridwright status{spec}"


@dataclass(frozen=True, slots=True)
class AwsStarted:
    """What `start` did."""

    grid: str
    region: str
    changed: bool
    """Whether it was stopped."""
    machines: int
    costs: tuple[CostLine, ...]
    seconds: float
    file: str = ""

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {
            "grid": self.grid,
            "region": self.region,
            "changed": self.changed,
            "machines": self.machines,
            "costs": bill_values(self.costs),
            "seconds": self.seconds,
        }

    def text(self) -> str:
        """What was done, and how to go on."""
        spec = f" {self.file}" if self.file else ""
        first = (
            f"grid {self.grid} runs again, all {self.machines} machines, after {self.seconds / 60:.1f} min"
            if self.changed
            else f"grid {self.grid} was running already"
        )
        return "\n".join([first, *bill_lines(self.costs), "Next:", f"  gridwright status{spec}"])
