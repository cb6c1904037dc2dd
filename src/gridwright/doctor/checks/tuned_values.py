"""Whether what a setting holds is what the tuning table has for it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gridwright.setup.tuning import Compare, Value

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_UNLIMITED = ("unlimited", "infinity")


def shown(value: Value) -> str:
    """A value as people read it."""
    return " or ".join(map(str, value)) if isinstance(value, list) else str(value)


def fits(found: str, value: Value, compare: Compare) -> bool:
    """Judge what was found; where several places differ (`performance, powersave`), each must fit."""
    return all(_fits(each, value, compare) for each in found.split(", "))


def _fits(found: str, value: Value, compare: Compare) -> bool:
    if compare == "one-of":
        allowed = value if isinstance(value, list) else [value]
        return any(_same(found, str(each)) for each in allowed)
    wanted = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    if compare == "equal":
        return _same(found, wanted)
    has, bounds = _numbers(found), _numbers(wanted)
    if has is None or bounds is None or len(has) != len(bounds):
        return _same(found, wanted)
    pairs = zip(has, bounds, strict=True)
    return (
        all(one >= two for one, two in pairs)
        if compare == "at-least"
        else all(one <= two for one, two in pairs)
    )


def _same(found: str, wanted: str) -> bool:
    if found.split() == wanted.split():
        return True
    numbers = _numbers(found)
    return numbers is not None and numbers == _numbers(wanted)


def _numbers(text: str) -> Sequence[float] | None:
    """The numbers of `4096 131072 16777216`, of `256k` or `16M`, of `unlimited`; None where one is none."""
    numbers = []
    for word in text.split():
        found = re.fullmatch(r"(-?\d{1,30})([kKmMgGtT]?)", word)
        if word in _UNLIMITED:
            numbers.append(math.inf)
        elif found:
            numbers.append(float(int(found[1]) * _UNITS[found[2].upper()]))
        else:
            return None
    return numbers or None
