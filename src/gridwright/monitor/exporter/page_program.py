"""Samples this node and writes pages: `python -m gridwright.monitor.exporter.page_program`, by the exporter.

Stdin: a `PageOrder` as one line of JSON, then a letter for each page that is wanted: one of LETTERS for the
last sample again, a capital one for a new sample. Stdout: each page in pieces, with the length of each before
it, and a length of 0 at its end. It ends with its input.

It is a process of its own because one of whose threads hangs on a mount cannot end: the exporter ends in
time all the same, and leaves this one behind until the mount answers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from gridwright.messages import MessageError, decode
from gridwright.monitor.exporter.exposition import TextFormat
from gridwright.monitor.exporter.page import MetricsPage
from gridwright.monitor.sampler import Sampler

LETTERS = {b"o": TextFormat.OPENMETRICS, b"p": TextFormat.PLAIN}
HEAD = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class PageOrder:
    """What pages are wanted."""

    directories: tuple[str, ...] = ()
    """Paths of libraries."""


@dataclass(slots=True)
class _Pages:
    """The page, with a new sample where that is asked for, or where there is none yet."""

    sampler: Sampler
    page: MetricsPage = field(default_factory=MetricsPage)

    def pieces(self, format_: TextFormat, *, new: bool) -> Iterable[bytes]:
        if new or not self.page.has_sample:
            began = time.monotonic()
            snapshot = self.sampler.sample()
            self.page.take(snapshot, time.monotonic() - began)
        return self.page.text(format_)


def main() -> int:
    """Answer what is asked on stdin."""
    # The exporter ends it: what a terminal sends to both is for the exporter alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        order = decode(sys.stdin.buffer.readline(), PageOrder)
    except MessageError as error:
        print(f"the order cannot be read: {error}", file=sys.stderr)  # noqa: T201 - for who asked
        return 2
    pages = _Pages(Sampler(order.directories))
    while letter := sys.stdin.buffer.read(1):
        for piece in pages.pieces(LETTERS[letter.lower()], new=letter.isupper()):
            if piece:
                _write(HEAD.pack(len(piece)) + piece)
        _write(HEAD.pack(0))
    return 0


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        # Threads that hang would hold up an orderly end.
        os._exit(main())
    os._exit(1)
