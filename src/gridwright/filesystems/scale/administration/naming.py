"""Names and values, which commands print in more than one way. Nodes run this with Python 3.9."""

from __future__ import annotations

from collections.abc import Iterable

_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class NodeNames:
    """The names that the grid has for nodes: commands print some with their domain, and some without."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = tuple(known)

    def __call__(self, printed: str) -> str:
        """The grid's name for a printed one; the printed one itself where the grid has none."""
        if printed in self._known:
            return printed
        alike = [each for each in self._known if short(each) == short(printed)]
        return alike[0] if len(alike) == 1 else printed


def short(name: str) -> str:
    """A name without its domain."""
    return name.partition(".")[0]


def same_value(one: str, other: str) -> bool:
    """Whether two values of an attribute are the same: 16M is 16777216."""
    return _plain(one) == _plain(other)


def _plain(value: str) -> str:
    text = value.strip()
    number, unit = text[:-1], text[-1:].upper()
    if unit in _UNITS and number.isascii() and number.isdecimal():
        return str(int(number) * _UNITS[unit])
    return text.lower()
