"""Finds what held a launch up: its real time by cause."""

from __future__ import annotations

from collections.abc import Mapping


def shares_of(
    *,
    real_s: float,
    cpu_s: float,
    core_wait_s: float,
    memory_wait_s: float,
    waits: Mapping[str, tuple[float, float]],
) -> dict[str, float]:
    """Divide a launch's real time by cause, as fractions that add up to 1.

    `waits` are the seconds a launch waited to read and to write, by library. Threads compute and
    wait for cores at the same time: their seconds are divided by how many at once wanted a core
    on average, (CPU + core wait) / real, where that is above 1. Time in which memory stalled it
    (pressure stall information) is taken from the rest, for a refault also waits for a disk.
    """
    if real_s <= 0:
        return {}
    wanted = max(1.0, (cpu_s + core_wait_s) / real_s)
    found = {"cpu": cpu_s / wanted, "core": core_wait_s / wanted}
    for library, (read, write) in waits.items():
        if library == "util":
            found["util"] = read + write
        else:
            found[f"{library} read"] = read
            found[f"{library} write"] = write
    rest = real_s - sum(found.values())
    found["memory"] = min(memory_wait_s, max(0.0, rest))
    found["other"] = max(0.0, rest - found["memory"])
    total = sum(found.values())
    # Clocks of different kinds were read: together they may say a little more than the real time.
    return {cause: round(seconds / total, 4) for cause, seconds in found.items() if seconds > 0.0005 * total}


def bound_by(shares: Mapping[str, float]) -> tuple[str | None, float | None]:
    """The cause with the largest share, and that share."""
    if not shares:
        return None, None
    cause = max(shares, key=lambda each: shares[each])
    return cause, shares[cause]
