"""Recordings of what was watched: a line of JSON for each picture, which a kill cannot spoil.

The first line says what was watched. Each further line is appended by one write. What a kill or a full disk
left of a last line is passed over when the file is read.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from gridwright.errors import environment_error, input_error
from gridwright.handed_files import open_file
from gridwright.messages import MessageError, decode, encode
from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import NodeSamples, Snapshot
from gridwright.refusals import refusal

FORMAT = 1
_MOST_LATE = 10
"""Pictures that are looked back for the sample before: more than a node may be late without being away."""
_LONGEST_LINE, _MOST_LINES = 64 << 20, 1_000_000
"""Bytes of a picture, of ten times as many nodes as a grid has; pictures of eleven days at one a second."""
_NEW = "no sample of it before this one"


@dataclass(frozen=True, slots=True)
class RecordedHead:
    """The first line of a recording."""

    gridwright_top: int
    """Version of the format."""
    libraries: tuple[WatchedLibrary, ...]


@dataclass(frozen=True, slots=True)
class NodeInPicture:
    """A node in one picture: its last snapshot, or why there is none."""

    node: str
    snapshot: Snapshot | None
    absent: str


@dataclass(frozen=True, slots=True)
class RecordedPicture:
    """One line of a recording."""

    nodes: tuple[NodeInPicture, ...]


class Recorder:
    """Writes a recording as it goes on."""

    def __init__(self, path: Path, libraries: Sequence[WatchedLibrary]) -> None:
        """Make the file. Raises GridwrightError: INPUT where it is there, ENVIRONMENT where it cannot be."""
        self.path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except FileExistsError:
            raise input_error(
                f"{path} is there already, and a recording would spoil it",
                where="--record",
                remedy="name a file that is not there",
            ) from None
        except OSError as error:
            raise self._failed(error) from error
        self._write(encode(RecordedHead(FORMAT, tuple(libraries))))

    def add(self, samples: Sequence[NodeSamples]) -> None:
        """Append a picture. Raises GridwrightError (status ENVIRONMENT) where the disk takes no more."""
        nodes = tuple(NodeInPicture(sample.node, sample.after, sample.absent) for sample in samples)
        self._write(encode(RecordedPicture(nodes)))

    def _write(self, line: bytes) -> None:
        left = memoryview(line + b"\n")
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> Exception:
        why = refusal(self.path, error, "name another file", writes=True)
        return environment_error(f"cannot be written: {why.reason}", where=str(self.path), remedy=why.remedy)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it; what is written stays."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Recording:
    """A recording that is played: its pictures by number, each read when it is shown."""

    def __init__(self, path: Path) -> None:
        """Open it. Raises GridwrightError (INPUT) where it is none, or has fewer than two samples."""
        self._path = path
        try:
            self._file = open_file(path)
            self.libraries = decode(self._file.readline(_LONGEST_LINE), RecordedHead).libraries
            self._begins = self._lines()
        except MessageError as error:
            raise input_error(
                "this is no recording of gridwright top", where=str(path), remedy="name a file of --record"
            ) from error
        except (OSError, ValueError) as error:
            raise input_error(
                f"cannot be read: {getattr(error, 'strerror', None) or error}",
                where=str(path),
                remedy="name a file of --record",
            ) from error
        if len(self) < 1:
            raise input_error(
                "it has fewer than two samples, and rates need two", where=str(path), remedy="record longer"
            )

    def _lines(self) -> array[int]:
        """Where each line behind the first begins, and the last one ends; one that was cut off is left out.

        Raises OSError, and ValueError where there are too many, or one is too long.
        """
        begins = array("Q", [self._file.tell()])
        while (line := self._file.readline(_LONGEST_LINE)).endswith(b"\n"):
            begins.append(begins[-1] + len(line))
            if len(begins) > _MOST_LINES:
                raise ValueError(f"it has more than {_MOST_LINES:,} samples, the limit of a recording")
        if len(line) == _LONGEST_LINE:
            raise ValueError(f"a line has more than {_LONGEST_LINE >> 20} MiB, the limit of a sample")
        return begins

    def __len__(self) -> int:
        return len(self._begins) - 2

    def frame(self, number: int) -> Frame:
        """The picture of a number from 0 on. Raises GridwrightError (INPUT) where its line is spoilt."""
        earlier = [self._picture(line) for line in range(number, max(-1, number - _MOST_LATE), -1)]
        samples = [_samples(node, earlier) for node in self._picture(number + 1).nodes]
        return frame_of(samples, self.libraries)

    def samples(self, earlier: int, later: int) -> list[NodeSamples]:
        """The nodes of line `later` from 0 on, each with its sample of line `earlier`.

        Raises GridwrightError (INPUT) where a line is spoilt.
        """
        then = {node.node: node.snapshot for node in self._picture(earlier).nodes}
        return [
            NodeSamples(node.node, absent=node.absent or _NEW)
            if node.snapshot is None
            or (before := then.get(node.node)) is None
            or before.at_s == node.snapshot.at_s
            else NodeSamples(node.node, before, node.snapshot)
            for node in self._picture(later).nodes
        ]

    def time_of(self, line: int) -> float | None:
        """When a line from 0 on was recorded, by the clocks of its nodes; None where none answered."""
        times = [node.snapshot.time for node in self._picture(line).nodes if node.snapshot is not None]
        return max(times, default=None)

    def _picture(self, line: int) -> RecordedPicture:
        try:
            begin, end = self._begins[line], self._begins[line + 1]
            return decode(os.pread(self._file.fileno(), end - begin, begin), RecordedPicture)
        except (MessageError, OSError) as error:
            raise input_error(
                f"line {line + 2} cannot be read: {error}",
                where=str(self._path),
                remedy="cut the file before that line",
            ) from error


def _samples(now: NodeInPicture, earlier: Sequence[RecordedPicture]) -> NodeSamples:
    """A node with the last sample before this one: a node that was late is in several pictures alike."""
    known = (node.snapshot for picture in earlier for node in picture.nodes if node.node == now.node)
    if now.snapshot is None:
        last = next((snapshot for snapshot in known if snapshot is not None), None)
        return NodeSamples(now.node, absent=now.absent, last_known=last)
    for then in known:
        if then is not None and then.at_s != now.snapshot.at_s:
            return NodeSamples(now.node, then, now.snapshot)
    return NodeSamples(now.node, absent=_NEW)
