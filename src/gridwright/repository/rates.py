"""How fast the verbs of a repository were so far, and so how long one would take at least."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gridwright.repository.forecast import TransferLimit

if TYPE_CHECKING:
    from gridwright.repository.known import Known
    from gridwright.repository.settings import OpenRepository, RepositoryReport

_SHORTEST_S = 0.5
"""Less says how long a command takes to begin, and nothing of a rate."""


def note_rate(opened: OpenRepository, report: RepositoryReport) -> None:
    """Keep the best rates of a verb, in files and bytes per second, of what a command has done."""
    if report.is_dry_run or report.seconds < _SHORTEST_S:
        return
    best = _best(opened.known, report.verb)
    count, size = _total(report)
    best["files_per_s"] = max(best.get("files_per_s", 0.0), count / report.seconds)
    best["bytes_per_s"] = max(best.get("bytes_per_s", 0.0), size / report.seconds)
    opened.known.set_fact(f"rate {report.verb}", json.dumps(best))


def estimate(opened: OpenRepository, report: RepositoryReport) -> None:
    """Say in a dry run how long it would take at least, at the best rates so far; None without any."""
    best, (count, size) = _best(opened.known, report.verb), _total(report)
    if not count:
        report.at_least_s = 0.0
    elif best.get("files_per_s"):
        by_bytes = size / best["bytes_per_s"] if best.get("bytes_per_s") else 0.0
        report.at_least_s = max(count / best["files_per_s"], by_bytes)


def best_limits(known: Known, verb: str) -> list[TransferLimit]:
    """What a verb carried at best so far, as a limit of a forecast; empty where nothing was timed."""
    rate = _best(known, verb).get("bytes_per_s", 0.0)
    return [TransferLimit("the best rate of this repository so far", rate)] if rate > 0 else []


def _best(known: Known, verb: str) -> dict[str, float]:
    try:
        found: Any = json.loads(known.fact(f"rate {verb}") or "{}")
        return {str(name): float(value) for name, value in found.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def _total(report: RepositoryReport) -> tuple[int, int]:
    return sum(each.count for each in report.done.values()), sum(each.bytes for each in report.done.values())
