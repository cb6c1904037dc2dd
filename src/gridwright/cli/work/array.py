"""How the indices of an array are written: 1-100, 1-100:2, or 1,5,9."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gridwright.errors import Problem

if TYPE_CHECKING:
    from gridwright.cli.arguments import Reader

LONGEST = 1_000_000
"""Elements of one array."""
_PART = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?", re.ASCII)
_REMEDY = "write the first and the last index, such as 1-100, with a step 1-100:2, or each: 1,5,9"


def read_array(reader: Reader, _flag: str, text: str) -> list[int] | None:
    """The indices as `parse_array` reads them; what is wrong is noted in `reader`."""
    read = parse_array(text)
    if isinstance(read, Problem):
        reader.add([read])
        return None
    return read


def parse_array(text: str) -> list[int] | Problem:
    """The indices, ascending; or what is wrong with the text."""
    indices: set[int] = set()
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            return Problem(what=f"{part!r} is no range of indices", where="--array", remedy=_REMEDY)
        first = int(found[1])
        last = first if found[2] is None else int(found[2])
        step = 1 if found[3] is None else int(found[3])
        if last < first:
            remedy = f"write {last}-{first}"
            return Problem(what=f"{part} ends before it begins", where="--array", remedy=remedy)
        if step == 0:
            return Problem(what=f"{part} has a step of 0", where="--array", remedy=f"write {first}-{last}")
        span = range(first, last + 1, step)
        if twice := indices.intersection(span):
            what = f"index {min(twice)} is there twice"
            return Problem(what=what, where="--array", remedy="write each index once")
        indices.update(span)
        if len(indices) > LONGEST:
            what = f"the array has more than {LONGEST} elements"
            return Problem(what=what, where="--array", remedy="split it")
    return sorted(indices)
