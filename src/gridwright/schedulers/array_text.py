"""How the indices of an array are written: 1-100, 1-100:2, or 1,5,9."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gridwright.errors import Problem
from gridwright.schedulers.start_limits import MOST_ELEMENTS

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
