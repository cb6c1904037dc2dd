"""Lists of nodes as Slurm writes them: compute[1-3,7],login1."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST = 100_000
"""Names of one list; a list that stands for more is no list of a grid."""
_PART = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")


def names_of(text: str) -> list[str]:
    """All names, in order. Raises ValueError for what is no such list."""
    names: list[str] = []
    at = 0
    text = text.strip()
    while at < len(text):
        part = _PART.match(text, at)
        end = part.end() if part else at
        if part is None or not part[0] or (end < len(text) and text[end] != ","):
            raise ValueError(f"{text[:80]!r} is no list of nodes")
        names.extend(_expanded(part[0]))
        at = end + 1
        if len(names) > MOST:
            raise ValueError(f"{text[:80]!r} names more than {MOST} nodes")
    return names


def _expanded(part: str) -> Iterator[str]:
    bracket = _BRACKET.search(part)
    if bracket is None:
        yield part
        return
    before, after = part[: bracket.start()], part[bracket.end() :]
    for each in bracket[1].split(","):
        first, _, last = each.partition("-")
        last = last or first
        if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
            raise ValueError(f"{part[:80]!r} is no list of nodes")
        if int(last) - int(first) > MOST:
            raise ValueError(f"{part[:80]!r} names more than {MOST} nodes")
        for number in range(int(first), int(last) + 1):
            for rest in _expanded(after):
                yield f"{before}{number:0{len(first)}d}{rest}"
