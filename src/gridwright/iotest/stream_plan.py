"""Which file each stream writes and reads, by directory and number: the same on one node and on many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gridwright.iotest.engine import StreamPlan
from gridwright.iotest.outcome import Outcome
from gridwright.iotest.scratch import METADATA, MIXED, SHARED, STREAM

MIXED_FILES = 1_000_000
"""Numbers stamped into files of the mixed phase begin here, above those of the write phase."""


def shared_name(number: int) -> str:
    """The name of the shared file of phase `number`."""
    return f"{SHARED}-{number}.dat"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the streams of one node work.

    `first` is the number of its first stream among those of all nodes. `shared` is the path of the file
    that all streams have parts of; None where each has a file of its own.
    """

    directory: str
    first: int = 0
    shared: str | None = None

    def writers(self, streams: int, file_bytes: int) -> list[StreamPlan]:
        """The streams of a write phase."""
        return [self._writer(number, file_bytes, STREAM, 0) for number in range(streams)]

    def mixed_writers(self, streams: int, file_bytes: int) -> list[StreamPlan]:
        """The streams of a mixed phase that write."""
        return [self._writer(number, file_bytes, MIXED, MIXED_FILES) for number in range(streams)]

    def metadata(self, streams: int) -> list[StreamPlan]:
        """The streams of a metadata phase."""
        return [
            StreamPlan("metadata", f"{self.directory}/{METADATA}-{number}", self.first + number, 0)
            for number in range(streams)
        ]

    def reused_readers(self, sizes: Sequence[int], block: int, first_file: int) -> list[StreamPlan]:
        """Readers of a kept set, of whole blocks."""
        return [
            StreamPlan(
                "read", f"{self.directory}/{STREAM}-{number}.dat", first_file + number, size // block * block
            )
            for number, size in enumerate(sizes)
            if size >= block
        ]

    def _writer(self, number: int, file_bytes: int, own: str, above: int) -> StreamPlan:
        of_all = self.first + number
        if self.shared is None:
            return StreamPlan("write", f"{self.directory}/{own}-{number}.dat", above + of_all, file_bytes)
        base = of_all * file_bytes
        return StreamPlan("write", self.shared, above, file_bytes, base, shared=True)


def readable(written: Sequence[StreamPlan], outcome: Outcome, block: int) -> list[StreamPlan]:
    """Readers of what a write phase has written: whole blocks of every file that holds any."""
    return [
        replace(stream, role="read", file_bytes=size)
        for stream, done in zip(written, outcome.streams, strict=True)
        if (size := done.file_bytes // block * block) > 0
    ]
