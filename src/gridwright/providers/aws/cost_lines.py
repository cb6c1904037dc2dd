"""The lines of a bill, and their sum."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CostLine:
    """One line of the bill; None where no price is known."""

    what: str
    usd_per_hour: float | None


def total(lines: tuple[CostLine, ...]) -> float | None:
    """The sum of a bill; None where a price is missing."""
    prices = [each.usd_per_hour for each in lines]
    return None if None in prices else sum(each for each in prices if each is not None)
