"""Indices of an array, as users and schedulers write them: 1-100, 1-100:2, or 1,5,9."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gridwright.errors import Problem
from gridwright.schedulers.start_limits import MOST_ELEMENTS


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


_PART = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18})(?::([0-9]{1,18}))?)?", re.ASCII)
_REMEDY = "write the first and the last index, such as 1-100, with a step 1-100:2, or each: 1,5,9"


def parse_array(text: str, where: str = "--array") -> Sequence[int] | Problem:
    """The indices, ascending; or what is wrong with the text.

    One range is kept as it is, however long: its scheduler says how many elements it takes.
    """
    spans: list[range] = []
    for part in text.split(","):
        span = _span(part.strip(), where)
        if isinstance(span, Problem):
            return span
        spans.append(span)
    if len(spans) == 1:
        return spans[0]
    if (count := sum(map(len, spans))) > MOST_ELEMENTS:
        what = f"the array has {count} elements, and one array has at most {MOST_ELEMENTS}"
        return Problem(what=what, where=where, remedy="split it")
    indices: set[int] = set()
    for span in spans:
        if twice := indices.intersection(span):
            what = f"index {min(twice)} is there twice"
            return Problem(what=what, where=where, remedy="write each index once")
        indices.update(span)
    return sorted(indices)


def _span(part: str, where: str) -> range | Problem:
    match = _PART.fullmatch(part)
    if match is None:
        return Problem(what=f"{part!r} is no range of indices", where=where, remedy=_REMEDY)
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    step = 1 if match[3] is None else int(match[3])
    if last < first:
        remedy = f"write {last}-{first}"
        return Problem(what=f"{part} ends before it begins", where=where, remedy=remedy)
    if step == 0:
        return Problem(what=f"{part} has a step of 0", where=where, remedy=f"write {first}-{last}")
    return range(first, last + 1, step)
