"""What histories of nodes are asked, what they answer, and where the one of a node is kept."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from gridwright.messages import MessageError
from gridwright.monitor.frame import Frame
from gridwright.monitor.libraries import WatchedLibrary

LATEST_S = 1e11
"""In seconds since 1970: later, and earlier than that before, no computer has counted anything."""


@dataclass(frozen=True, slots=True)
class RangeQuestion:
    """A course over time: a value for each step of each series. Raises MessageError where that cannot be."""

    metrics: tuple[str, ...]
    """All series of these are told; names as in `readings.LABELS`."""
    start_s: float
    end_s: float
    """In seconds since 1970."""
    step_s: float
    """Width of a step. It is told coarser where the history has no finer one."""
    by: tuple[str, ...] | None = None
    """Names of the labels that tell the series of an answer apart: those that differ in others alone are
    summed up where they are kept. None: all labels. Of a sum, `highest` is the sum of the highest."""
    only: tuple[tuple[str, str], ...] = ()
    """Names and values of labels that series have to have, such as (("job", "17"),). Empty: all series."""
    most: int = 1000
    """Series of each metric that are told at most, those with the largest values. The other jobs are told as
    their sum, `other`."""

    def __post_init__(self) -> None:
        """Times and widths are numbers, since they may come from anywhere."""
        for name, value in (("start_s", self.start_s), ("end_s", self.end_s), ("step_s", self.step_s)):
            check_seconds(name, value)
        if self.most < 1:
            raise MessageError(f"{self.most} series are none", "most")


def check_seconds(name: str, value: float) -> None:
    """Raises MessageError where that is no time and no span of time."""
    if not abs(value) <= LATEST_S:
        raise MessageError(f"{value!r} is no time", name)


@dataclass(frozen=True, slots=True)
class SeriesCourse:
    """One series of a node."""

    metric: str
    labels: tuple[str, ...]
    values: tuple[float | None, ...]
    """Means over each step: rates per second of counters, values of gauges; None where nothing is known."""
    highest: tuple[float | None, ...]
    """The highest of the samples within each step."""


@dataclass(frozen=True, slots=True)
class NodeCourse:
    """What one node answers to a `RangeQuestion`."""

    node: str
    start_s: float
    """Of the first step."""
    step_s: float
    series: tuple[SeriesCourse, ...]
    absent: str = ""
    """Why nothing is known of it; empty where it answered."""


class Histories(Protocol):
    """The histories of one or more nodes, wherever they are kept. A node that is away is told as such."""

    def nodes(self) -> list[str]:
        """Names of all nodes that are asked."""

    def courses(self, question: RangeQuestion) -> list[NodeCourse]:
        """One answer for each node."""

    def frame(self, at_s: float, seconds: float, libraries: Sequence[WatchedLibrary] = ()) -> Frame:
        """The picture of the `seconds` that ended at `at_s` (since 1970), as `top` would have shown it."""

    def reach(self) -> tuple[float, float] | None:
        """The first and the last time that any node knows of; None where there is no history."""


DIRECTORY = Path("/var/lib/gridwright/history")
"""Where agents keep it that run as services."""


def history_file(directory: Path, node: str = "") -> Path:
    """The file of a node, of this one where none is named: nodes may share a directory."""
    return directory / f"{quote(node or socket.gethostname(), safe='')}.history"
