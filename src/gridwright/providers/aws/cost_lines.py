"""The lines of a bill, their sum, and how they are told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gridwright.units import HOURS_PER_MONTH


@dataclass(frozen=True, slots=True)
class CostLine:
    """One line of the bill; None where no price is known."""

    what: str
    usd_per_hour: float | None


def total(lines: tuple[CostLine, ...]) -> float | None:
    """The sum of a bill; None where a price is missing."""
    prices = [each.usd_per_hour for each in lines]
    return None if None in prices else sum(each for each in prices if each is not None)


def bill_lines(
    costs: tuple[CostLine, ...], what: str = "It costs", *, least: float | None = None
) -> Iterator[str]:
    """The sum of a bill in one line, and what has no price; `least` where nodes come and go."""
    hourly = total(costs)
    if hourly is not None and least is not None:
        yield f"{what} {least:.2f} USD an hour with the nodes always on, {hourly:.2f} with all of them"
    elif hourly is not None:
        yield f"{what} {hourly:.2f} USD an hour, {hourly * HOURS_PER_MONTH:.0f} USD a month"
    for each in costs:
        if each.usd_per_hour is None:
            yield f"no price is known for: {each.what}"


def bill_values(costs: tuple[CostLine, ...]) -> dict[str, Any]:
    """The bill in a document."""
    hourly = total(costs)
    return {
        "currency": "USD",
        "usd_per_hour": hourly,
        "lines": [{"what": each.what, "usd_per_hour": each.usd_per_hour} for each in costs],
    }


def retained_cost_lines(usd_per_hour: float | None) -> Iterator[str]:
    """One line with the price of what is retained, to stand below its list."""
    if usd_per_hour is None:
        yield "  what that costs is not known here"
    else:
        yield f"  at {usd_per_hour:.2f} USD an hour, {usd_per_hour * HOURS_PER_MONTH:.0f} USD a month"
