"""What `gridwright down` asks and prints: one printer for each provider."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from gridwright.providers.aws.results import AwsDown, DownPlan
from gridwright.providers.lab.provider import LabDown
from gridwright.units import HOURS_PER_MONTH


@singledispatch
def question(plan: object) -> Iterator[str]:
    """What is told before it is asked; nothing where there is nothing to ask."""
    raise NotImplementedError(type(plan))


@singledispatch
def document(result: object) -> dict[str, Any]:
    """The one document of --json."""
    raise NotImplementedError(type(result))


@singledispatch
def lines(result: object) -> Iterator[str]:
    """What is printed without --json."""
    raise NotImplementedError(type(result))


@question.register
def _(plan: DownPlan) -> Iterator[str]:
    if not plan.goes:
        return
    yield f"gridwright down of grid {plan.grid} removes:"
    yield from (f"  {each}" for each in plan.goes)
    if plan.stays:
        yield "and keeps:"
        yield from (f"  {each}" for each in plan.stays)
        yield from _cost(plan.staying_usd_per_hour)


def _cost(usd_per_hour: float | None) -> Iterator[str]:
    if usd_per_hour is None:
        yield "  what that costs is not known here"
    else:
        yield f"  at {usd_per_hour:.2f} USD an hour, {usd_per_hour * HOURS_PER_MONTH:.0f} USD a month"


@document.register
def _(result: LabDown) -> dict[str, Any]:
    return {"schema": 1, "command": "down", "lab": result.lab, "was_up": result.was_up, "left": []}


@lines.register
def _(result: LabDown) -> Iterator[str]:
    lab = result.lab
    yield f"lab {lab} is down: nothing is left" if result.was_up else f"lab {lab} was not up"


@document.register
def _(result: AwsDown) -> dict[str, Any]:
    return {
        "schema": 1,
        "command": "down",
        "grid": result.grid,
        "region": result.region,
        "was_up": result.was_up,
        "removed": list(result.removed),
        "kept": list(result.kept),
        "kept_usd_per_hour": result.kept_usd_per_hour if result.kept else 0.0,
        "left": [],
    }


@lines.register
def _(result: AwsDown) -> Iterator[str]:
    if not result.was_up:
        yield f"grid {result.grid} was not up: nothing of it is in {result.region}"
    elif not result.kept:
        yield f"grid {result.grid} is down: nothing of it is left in {result.region}"
    else:
        yield f"grid {result.grid} is down; kept, and billed:"
        yield from (f"  {each}" for each in result.kept)
        yield from _cost(result.kept_usd_per_hour)
        yield "  gridwright down --delete-data NAME removes one with all its data"
