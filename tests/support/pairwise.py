"""Choices of values in which every two values meet at least once, as far as they go together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping

from allpairspy import AllPairs

Fields = Mapping[str, Collection[str]]
"""Names of values by field."""
CanBe = Callable[[Mapping[str, str]], bool]
"""Whether values go together, of some fields or of all."""
Pair = tuple[tuple[str, str], tuple[str, str]]


def pairwise(fields: Fields, can_be: CanBe) -> tuple[dict[str, str], ...]:
    """One value of each field a row. AllPairs loses pairs where values are forbidden: those get rows, too."""
    found = AllPairs(
        [list(values) for values in fields.values()],
        filter_func=lambda row: can_be(dict(zip(fields, row, strict=False))),
    )
    rows = [dict(zip(fields, row, strict=True)) for row in found]
    while left := missing(fields, can_be, rows):
        rows.append(_row(fields, can_be, left))
    return tuple(rows)


def missing(fields: Fields, can_be: CanBe, rows: Collection[Mapping[str, str]]) -> list[Pair]:
    """Pairs that can be in a row, and are in none."""
    met = {pair for row in rows for pair in itertools.combinations(row.items(), 2)}
    named = [(field, value) for field, values in fields.items() for value in values]
    pairs = (each for each in itertools.combinations(named, 2) if each[0][0] != each[1][0])
    return [each for each in pairs if each not in met and _rest(fields, can_be, dict(each), ())]


def _row(fields: Fields, can_be: CanBe, left: list[Pair]) -> dict[str, str]:
    """A row with the first pair that is left, and with as many others as can be found one by one."""
    chosen = dict(left[0])
    for pair in left[1:]:
        if all(chosen.get(field, value) == value for field, value in pair) and _rest(
            fields, can_be, chosen | dict(pair), ()
        ):
            chosen |= dict(pair)
    row = _rest(fields, can_be, chosen, left)
    return {field: row[field] for field in fields}


def _rest(fields: Fields, can_be: CanBe, chosen: dict[str, str], left: Collection[Pair]) -> dict[str, str]:
    """The row with values of all other fields; empty where there is none. Tries the rarest values first."""
    if not can_be(chosen):
        return {}
    field = next((each for each in fields if each not in chosen), None)
    if field is None:
        return chosen
    for value in _by_use(fields[field], field, left):
        if row := _rest(fields, can_be, {**chosen, field: value}, left):
            return row
    return {}


def _by_use(values: Collection[str], field: str, left: Collection[Pair]) -> Iterator[str]:
    wanted = [part for pair in left for part in pair]
    yield from sorted(values, key=lambda value: -wanted.count((field, value)))
