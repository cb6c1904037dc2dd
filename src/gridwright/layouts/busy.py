"""Whether a grid is busy, so that moving files should wait: by its scheduler, and by what is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from gridwright.errors import GridwrightError
from gridwright.filesystems.counters import ReadCounts, traffic
from gridwright.units import format_rate

Busy = Callable[[], str | None]
"""Says why jobs should be left in peace; None where nothing speaks against moving."""
BUSY_SHARE = 0.5
"""Of the rate that a rebalance may have: who moves more than that beside it would feel it."""
SPAN_S = 1.0
"""How long is counted: requests of some MiB come and go within tens of milliseconds."""


def first_of(*asked: Busy) -> Busy:
    """The first reason of several."""
    return lambda: next((why for each in asked if (why := each()) is not None), None)


def jobs_run(states: Callable[[], Sequence[Any]]) -> Callable[[], str | None]:
    """What asks whether jobs run: nodes as a scheduler sees them, with cores and free cores."""

    def ask() -> str | None:
        try:
            busy = [state for state in states() if state.free_cores < state.cores]
        except GridwrightError as error:
            return f"nobody tells whether jobs run ({error.problems[0].what})"
        cores = sum(state.cores - state.free_cores for state in busy)
        return f"jobs use {cores} cores on {len(busy)} nodes" if busy else None

    return ask


def traffic_beside(
    read: ReadCounts | None, above_bytes_per_s: float, *, pause: Callable[[float], None] = time.sleep
) -> Busy:
    """What measures how much this client moves beside the rebalance: it is asked while no file is moved.

    `read` counts what the client moved; None, and counters that nobody may read, speak against nothing. Other
    clients are not seen.
    """

    def ask() -> str | None:
        try:
            before = read() if read else {}
            if not read or not before:
                return None
            pause(SPAN_S)
            moved = traffic(before, read())
        except GridwrightError:
            return None
        rate = sum((each.read_bytes + each.written_bytes) / each.seconds for each in moved)
        if rate <= above_bytes_per_s:
            return None
        return f"this machine moves {format_rate(rate)} to and from it, over {format_rate(above_bytes_per_s)}"

    return ask
