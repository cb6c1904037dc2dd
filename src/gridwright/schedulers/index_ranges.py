"""Indices of an array, as schedulers write them: 1-4,7."""

from __future__ import annotations

from collections.abc import Iterable


def index_ranges(indices: Iterable[int]) -> list[str]:
    """Each range of indices that follow each other: 1-4, 7."""
    parts: list[list[int]] = []
    for index in sorted(set(indices)):
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return [str(low) if low == high else f"{low}-{high}" for low, high in parts]


def fold_indices(indices: Iterable[int]) -> str:
    """All of them in one text, as the options of sbatch and bsub have it."""
    return ",".join(index_ranges(indices))


def expand_indices(text: str) -> tuple[int, ...]:
    """The indices that a scheduler folded: [4-1000%10], 5-6,9-30:3. Raises ValueError for other text."""
    found: list[int] = []
    for part in filter(None, text.strip("[]").partition("%")[0].split(",")):
        span, _, step = part.partition(":")
        low, _, high = span.partition("-")
        found += range(int(low), int(high or low) + 1, int(step or 1))
    return tuple(found)
