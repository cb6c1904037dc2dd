"""How fast the verbs of a repository were so far, and so how long one would take at least.

What moves no content, such as a deletion or a new name, takes its time by the piece, whatever its size: each
such kind has a rate of its own. All else has two, which bound one another: of smaller files than were timed
no more bytes pass in a second, and of larger ones no more files.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from gridwright.repository.deletions import DELETED_DIRECTORIES
from gridwright.repository.forecast import TransferLimit
from gridwright.repository.gone import FORGOTTEN
from gridwright.repository.importing import GIVEN, JOINED, REMOVED, REMOVED_DIRECTORIES
from gridwright.repository.scan import Action

if TYPE_CHECKING:
    from gridwright.repository.known import Known
    from gridwright.repository.settings import OpenRepository, RepositoryReport

_SHORTEST_S = 0.5
"""Less work says nothing of a rate."""
_ALONE = 0.9
"""Of all that a command has done: a kind with this share of it has its rate by that."""
_BY_COUNT = frozenset({
    Action.ATTRIBUTES, Action.DELETE, Action.RENAME, DELETED_DIRECTORIES, FORGOTTEN, GIVEN, JOINED,
    REMOVED, REMOVED_DIRECTORIES,
})  # fmt: skip
"""What moves no content."""


def note_rate(opened: OpenRepository, report: RepositoryReport) -> None:
    """Keep the best rates of a verb, in files and bytes per second, of what a command has done alone."""
    seconds, totals = report.worked_s, _totals(report)
    if report.is_dry_run or seconds < _SHORTEST_S:
        return
    most = _ALONE * sum(count for count, _ in totals.values())
    for kind, (count, size) in totals.items():
        if not count or count < most:
            continue
        best = _best(opened.known, report.verb, kind)
        for name, amount in (("files", count), ("bytes", size)):
            if amount / seconds > best.get(f"{name}_per_s", 0.0):
                best |= {f"{name}_per_s": amount / seconds, f"{name}_mean": size / count}
        opened.known.set_fact(_fact(report.verb, kind), json.dumps(best))


def estimate(opened: OpenRepository, report: RepositoryReport) -> None:
    """Say in a dry run how long it would take at least, at the best rates so far; None without any."""
    bounds = list[float]()
    totals = {kind: each for kind, each in _totals(report).items() if each[0]}
    for kind, (count, size) in totals.items():
        best, mean = _best(opened.known, report.verb, kind), size / count
        if best.get("files_per_s"):
            bounds.append(count / best["files_per_s"] if mean >= best.get("files_mean", 0.0) else 0.0)
        if best.get("bytes_per_s"):
            bounds.append(size / best["bytes_per_s"] if mean <= best.get("bytes_mean", math.inf) else 0.0)
    if bounds or not totals:
        report.at_least_s = max(bounds, default=0.0)


def best_limits(known: Known, verb: str, mean: float) -> list[TransferLimit]:
    """What a verb carried at best so far, as a limit of a forecast of files with `mean` bytes.

    Empty where nothing was timed, or smaller files alone.
    """
    best = _best(known, verb)
    rate = best.get("bytes_per_s", 0.0) if mean <= best.get("bytes_mean", math.inf) else 0.0
    return [TransferLimit("the best rate of this repository so far", rate)] if rate > 0 else []


def _fact(verb: str, kind: str) -> str:
    return f"rate {verb}" + (f", {kind}" if kind else "")


def _best(known: Known, verb: str, kind: str = "") -> dict[str, float]:
    try:
        found: Any = json.loads(known.fact(_fact(verb, kind)) or "{}")
        return {str(name): float(value) for name, value in found.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def _totals(report: RepositoryReport) -> dict[str, tuple[int, int]]:
    """How many, and bytes that are moved, by kind; what moves content is one kind, without a name."""
    found = {kind: (each.count, 0) for kind, each in report.done.items() if kind in _BY_COUNT}
    moved = [each for kind, each in report.done.items() if kind not in _BY_COUNT]
    return found | {"": (sum(each.count for each in moved), sum(each.bytes for each in moved))}
