"""The health line: whether all is well, and if not, what is wrong, the gravest first (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gridwright.monitor.causes.verdict import is_slow, why_untold
from gridwright.monitor.frame import Frame
from gridwright.monitor.libraries import LibraryRow
from gridwright.monitor.rows import MountRow
from gridwright.monitor.views import binding
from gridwright.spec.hosts import fold_hosts

STALE_S = 30.0
"""From this age on a picture is not what is now."""
FULL_SPACE = 0.95
"""A file system that is fuller slows down, or refuses writes soon."""
HealthState = Literal["well", "warning", "wrong", "unknown"]
_GRAVEST: Sequence[HealthState] = ("wrong", "warning", "unknown", "well")


@dataclass(frozen=True, slots=True)
class HealthPart:
    """One thing that a viewer should know; `view` and `only` say where the page tells more of it."""

    state: HealthState
    text: str
    view: str
    only: str = ""


@dataclass(frozen=True, slots=True)
class HealthLine:
    """The state of all, and the parts that are not well."""

    state: HealthState
    text: str
    parts: tuple[HealthPart, ...]


def health_of(frame: Frame, now_s: float | None) -> HealthLine:
    """The health that a picture shows; `now_s` is None for a picture of the past, which cannot be stale."""
    parts = [*_stale(frame, now_s), *_away(frame), *_silent(frame), *_slow(frame), *_full(frame)]
    parts.sort(key=lambda each: _GRAVEST.index(each.state))
    if not frame.nodes:
        return HealthLine("unknown", "Nothing is known of any node.", ())
    if parts:
        return HealthLine(parts[0].state, _sentence(parts), tuple(parts))
    count = len(frame.nodes)
    nodes = "The node answers" if count == 1 else f"All {count} nodes answer"
    if not frame.libraries:
        return HealthLine("well", f"{nodes}. Without a grid spec nothing is required of it.", ())
    return HealthLine(
        "well", f"{nodes}, and nobody waits for a library that gives less than is required.", ()
    )


def _sentence(parts: Sequence[HealthPart]) -> str:
    first = parts[0].text
    more = len(parts) - 1
    return f"{first}." if not more else f"{first}, and {more} more."


def _stale(frame: Frame, now_s: float | None) -> list[HealthPart]:
    if now_s is None or not frame.time:
        return []
    age = now_s - frame.time
    if age < STALE_S + frame.seconds:
        return []
    return [HealthPart("warning", f"The last sample is {age:.0f} s old: this is not what is now", "nodes")]


def _away(frame: Frame) -> list[HealthPart]:
    away = [row for row in frame.nodes if row.absent]
    if not away:
        return []
    reasons = list(dict.fromkeys(row.absent for row in away))
    names = fold_hosts([row.node for row in away])
    only = away[0].node if len(away) == 1 else ""
    said = reasons[0] if len(reasons) == 1 else f"{len(reasons)} reasons"
    return [HealthPart("wrong", f"{names} {'is' if len(away) == 1 else 'are'} away: {said}", "nodes", only)]


def _silent(frame: Frame) -> list[HealthPart]:
    return [
        HealthPart("wrong", f"{row.mount_point} of {row.node} does not answer: {row.silent}", "storage")
        for row in frame.mounts
        if row.silent
    ][:20]


def _slow(frame: Frame) -> list[HealthPart]:
    """Libraries that are slow, or of which that cannot be told, by the judge of `explain-slow`."""
    return [
        HealthPart(
            "warning" if slow else "unknown",
            f"{', '.join(row.libraries)} on {row.filesystem}: {binding(row) if slow else _untold(row)}",
            "storage",
            row.filesystem,
        )
        for row in frame.libraries
        if (slow := is_slow(row)) is not False
    ]


def _untold(row: LibraryRow) -> str:
    return f"cannot tell {why_untold(row)}"


def _full(frame: Frame) -> list[HealthPart]:
    """File systems that are nearly full, each with the nodes that say so."""
    found: dict[tuple[str, str], list[MountRow]] = {}
    for row in frame.mounts:
        if row.used_part is not None and row.used_part >= FULL_SPACE:
            found.setdefault((row.source, row.mount_point), []).append(row)
    return [
        HealthPart(
            "warning",
            f"{point} of {fold_hosts([row.node for row in rows])} is "
            f"{max(row.used_part or 0.0 for row in rows):.0%} full",
            "space",
        )
        for (_, point), rows in found.items()
    ][:20]
