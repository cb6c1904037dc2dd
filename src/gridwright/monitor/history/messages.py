"""What is asked of the history of a node from elsewhere, and what the node answers: a line of JSON each."""

from __future__ import annotations

import base64
import math
import sys
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gridwright.messages import MessageError
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion, SeriesCourse, check_seconds
from gridwright.monitor.readings import Figures, Key, Snapshot
from gridwright.monitor.rows import SeenNode

MOST_ANSWER = 1 << 26
"""Bytes of values in one answer, unpacked."""


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """One question. Times are in seconds since 1970, by the clock of the node."""

    ask: Literal["course", "picture", "reach"]
    directory: str
    question: RangeQuestion | None = None
    """Of a course."""
    at_s: float = 0.0
    seconds: float = 0.0
    """Of a picture."""

    def __post_init__(self) -> None:
        """Times are numbers, since they come from elsewhere. Raises MessageError."""
        check_seconds("at_s", self.at_s)
        check_seconds("seconds", self.seconds)


@dataclass(frozen=True, slots=True)
class PackedSeries:
    """The name of a series; its values are in the answer."""

    metric: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PackedCourse:
    """A course. Numbers are float32, NaN where nothing is known, packed by zlib and base64."""

    start_s: float
    step_s: float
    steps: int
    series: tuple[PackedSeries, ...]
    values: str
    """Of each series its means, and then its highest."""


@dataclass(frozen=True, slots=True)
class PackedFigures:
    """Figures with their keys."""

    keys: tuple[tuple[str, ...], ...]
    values: str


@dataclass(frozen=True, slots=True)
class PackedPicture:
    """A node as it was."""

    last: Snapshot
    seconds: float
    rates: PackedFigures
    gauges: PackedFigures


@dataclass(frozen=True, slots=True)
class HistoryAnswer:
    """What a node answers; parts are None where it knows nothing."""

    now_s: float
    """By the clock of the node."""
    course: PackedCourse | None = None
    picture: PackedPicture | None = None
    reach: tuple[float, float] | None = None
    wrong: str = ""
    """Why it has no history."""


def packed_course(course: NodeCourse) -> PackedCourse:
    """A course as it is sent."""
    numbers: array[float] = array("f")
    steps = 0
    for each in course.series:
        steps = len(each.values)
        for values in (each.values, each.highest):
            numbers.extend(math.nan if value is None else value for value in values)
    names = tuple(PackedSeries(each.metric, each.labels) for each in course.series)
    return PackedCourse(course.start_s, course.step_s, steps, names, _packed(numbers))


def unpacked_course(name: str, course: PackedCourse) -> NodeCourse:
    """A course as it was. Raises MessageError."""
    steps = course.steps
    numbers = _unpacked(course.values, "f", 2 * steps * len(course.series))
    # A NaN is the one number that differs from itself.
    known = [None if value != value else value for value in numbers]  # noqa: PLR0124 - a million of them
    series = []
    for number, each in enumerate(course.series):
        first, middle, end = (steps * (2 * number + more) for more in (0, 1, 2))
        means, highs = tuple(known[first:middle]), tuple(known[middle:end])
        series.append(SeriesCourse(each.metric, each.labels, means, highs))
    return NodeCourse(name, course.start_s, course.step_s, tuple(series))


def packed_picture(node: SeenNode) -> PackedPicture:
    """A node as it is sent."""
    figures = node.figures
    return PackedPicture(
        node.last, node.seconds, _packed_figures(figures.rates), _packed_figures(figures.gauges)
    )


def unpacked_picture(name: str, picture: PackedPicture) -> SeenNode:
    """A node as it was. Raises MessageError."""
    rates, gauges = _unpacked_figures(picture.rates), _unpacked_figures(picture.gauges)
    figures = Figures(rates, gauges, frozenset({*rates, *gauges}))
    return SeenNode(name, picture.last, picture.seconds, figures)


def _packed_figures(figures: Mapping[Key, float]) -> PackedFigures:
    return PackedFigures(tuple(figures), _packed(array("d", figures.values())))


def _unpacked_figures(packed: PackedFigures) -> dict[Key, float]:
    values = _unpacked(packed.values, "d", len(packed.keys))
    return dict(zip(packed.keys, values, strict=True))


def _packed(numbers: array[float]) -> str:
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(zlib.compress(numbers.tobytes(), 1)).decode()


def _unpacked(text: str, kind: Literal["f", "d"], size: int) -> Sequence[float]:
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text, validate=True), MOST_ANSWER)
    except (ValueError, zlib.error) as error:
        raise MessageError("the values cannot be unpacked", "values") from error
    numbers: array[float] = array(kind)
    if len(data) != size * numbers.itemsize:
        raise MessageError("there are more or fewer values than series have", "values")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
