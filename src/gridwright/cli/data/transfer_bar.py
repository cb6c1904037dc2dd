"""A bar of bytes while files and objects are moved."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@contextlib.contextmanager
def transfer_progress() -> Iterator[Callable[[int], None]]:
    """A bar of bytes on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _bytes: None
        return
    from rich.progress import DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

    from gridwright.report.terminal.frame import TerminalConsole

    columns = (TextColumn("{task.description}"), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    lock = threading.Lock()
    with Progress(*columns, console=TerminalConsole(stderr=True), transient=True) as bar:
        task = bar.add_task("moved", total=None)

        def moved(count: int) -> None:
            with lock:
                bar.advance(task, count)

        yield moved
