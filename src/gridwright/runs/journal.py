"""The journal of a run: one JSON document a line, appended as it happens.

A run that is killed leaves its journal; what it held is what was measured. A last line that was
cut off is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gridwright.atomic import naming
from gridwright.handed_files import open_file, parsed_json

Event = dict[str, Any]
_LONGEST_LINE = 64 << 20
"""Bytes of an event: as much as a message of a node may have (`iotest.wire`)."""


class Journal:
    """Appends events to a file; each is one write, so readers see whole lines."""

    def __init__(self, path: Path | str, *, directory: int | None = None) -> None:
        """`path` may be one name in the open `directory`. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._path = path
        self._fd = os.open(path, flags, 0o644, dir_fd=directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, event: Event, *, durable: bool = False) -> None:
        """Append an event; `durable` also waits until it is on disk. Raises OSError."""
        line = memoryview(json.dumps(event, separators=(",", ":")).encode() + b"\n")
        with naming(self._path):
            while line:
                line = line[os.write(self._fd, line) :]
            if durable:
                os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; appending is over."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_journal(path: Path) -> Iterator[Event]:
    """Yield the events of a journal up to the first line that is not whole. Raises OSError."""
    with open_file(path, follows=False) as lines:
        while line := lines.readline(_LONGEST_LINE):
            if not line.endswith(b"\n"):
                return
            try:
                event = parsed_json(line)
            except ValueError:
                return
            if not isinstance(event, dict):
                return
            yield event
