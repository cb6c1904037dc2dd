"""The load of a grid over a day: which part of its cores moves data, from when on."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from gridwright.errors import GridwrightError, Problem, environment_error, input_error, nearest
from gridwright.handed_files import read_within

DAY_S = 86_400.0
NAMES = ("business-day", "nightly-batch", "all-day")
"""Curves that come with Gridwright: typical shapes that nobody measured."""

_MOST_BYTES = 1 << 20
_CLOCK = re.compile(r"([01]?\d|2[0-3])(?::([0-5]\d))?")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")


@dataclass(frozen=True, slots=True)
class DayStep:
    """From `start_s` after midnight to `end_s`, the part `busy` (0 to 1) of all cores moves data."""

    start_s: float
    end_s: float
    busy: float


@dataclass(frozen=True, slots=True)
class DayCurve:
    """A day that repeats; its steps follow each other from midnight to midnight."""

    name: str
    steps: tuple[DayStep, ...]

    @property
    def mean(self) -> float:
        """The part of all cores that is busy on average."""
        return sum((step.end_s - step.start_s) * step.busy for step in self.steps) / DAY_S


def day_curve(name: str, starts: Sequence[tuple[float, float]]) -> DayCurve:
    """A curve of (seconds after midnight, part busy); the last one lasts over midnight until the first."""
    # Less than a millionth of the cores is nobody, and the solver takes no rates that small.
    ordered = sorted((start, round(busy, 6)) for start, busy in starts)
    if ordered[0][0] > 0:
        ordered.insert(0, (0.0, ordered[-1][1]))
    ends = [start for start, _ in ordered[1:]] + [DAY_S]
    return DayCurve(
        name, tuple(DayStep(start, end, busy) for (start, busy), end in zip(ordered, ends, strict=True))
    )


def load_day(text: str) -> DayCurve:
    """Load a curve that comes along by its name, or one's own from a CSV file with columns `from` and `busy`.

    Raises GridwrightError with every problem of the file.
    """
    if text in NAMES:
        return _read(text, _packaged(text), text)
    if not text.endswith(".csv"):
        close = nearest(text, NAMES)
        meant = f"; did you mean {close}?" if close else ""
        raise input_error(
            f"no day's load is named {text!r}{meant}",
            where="--day",
            remedy=f"use {', '.join(NAMES)}, or a file *.csv with columns from,busy",
        )
    path = Path(text)
    try:
        content = read_within(path, _MOST_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        what = "it is no text in UTF-8" if isinstance(error, UnicodeDecodeError) else what
        raise environment_error(
            f"the day's load cannot be read: {what}", where=text, remedy="name a file that can be read"
        ) from error
    return _read(path.stem, content, text)


def _packaged(name: str) -> str:
    return resources.files("gridwright.model").joinpath(f"data/days/{name}.csv").read_text("utf-8")


def _read(name: str, content: str, where: str) -> DayCurve:
    lines = [
        (number, cells)
        for number, cells in enumerate(csv.reader(content.splitlines()), 1)
        if any(cell.strip() for cell in cells) and not cells[0].startswith("#")
    ]
    head = [cell.strip() for cell in lines[0][1]] if lines else []
    if head != ["from", "busy"] or len(lines) < 2:
        raise input_error(
            "a day's load has the columns from,busy and a row for each change",
            where=where,
            remedy="write lines such as 08:00,60 % below a first line from,busy",
        )
    starts: dict[float, float] = {}
    problems: list[Problem] = []
    for number, cells in lines[1:]:
        found = list(_problems(cells, starts))
        problems += [Problem(what, f"{where}:{number}", remedy=remedy) for what, remedy in found]
        if not found:
            starts[_seconds(cells[0])] = _part(cells[1])
    if problems:
        raise GridwrightError(*problems)
    return day_curve(name, list(starts.items()))


def _problems(cells: Sequence[str], starts: dict[float, float]) -> Iterator[tuple[str, str]]:
    """What is wrong with a row, and what to do."""
    if len(cells) != 2:
        yield (
            "this row has not two cells",
            "write the time and the part of the cores that is busy: 08:00,60 %",
        )
        return
    if not _CLOCK.fullmatch(cells[0].strip()):
        yield f"{cells[0].strip()!r} is no time of day", "write the hour from 0 to 23, or 08:30"
    elif _seconds(cells[0]) in starts:
        yield f"{cells[0].strip()} is there twice", "leave one of the rows out"
    part = _PART.fullmatch(cells[1].strip())
    if not part or not 0 <= _part(cells[1]) <= 1:
        yield (
            f"{cells[1].strip()!r} is no part of the cores",
            "write 0 % to 100 %, or a part from 0 to 1",
        )


def _seconds(text: str) -> float:
    match = _CLOCK.fullmatch(text.strip())
    assert match is not None  # noqa: S101 - asked for before
    return int(match[1]) * 3600.0 + int(match[2] or 0) * 60.0


def _part(text: str) -> float:
    match = _PART.fullmatch(text.strip())
    assert match is not None  # noqa: S101 - asked for before
    return float(match[1]) / (100 if match[2] else 1)
