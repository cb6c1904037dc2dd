"""Makes standard output and error take any character, and fail with one line when they are full."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING

from gridwright.errors import environment_error

if TYPE_CHECKING:
    from typing import TextIO

    from typing_extensions import Buffer

_STDOUT, _STDERR = 1, 2


def protect_streams() -> None:
    """Replace `sys.stdout` and `sys.stderr` by streams that any text can be written to.

    A character that the locale has no code for becomes a question mark. Standard output that takes no more
    (a full disk, a pipe that nobody reads) raises GridwrightError (status ENVIRONMENT) once, and then
    swallows all that follows. What standard error does not take is dropped: a message that nobody can
    read is no reason to stop the work.
    """
    sys.stdout = _protected(sys.stdout, _STDOUT, "replace")
    sys.stderr = _protected(sys.stderr, _STDERR, "backslashreplace")


class _Descriptor(io.FileIO):
    """A file descriptor to write to, which fails at most once."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self._lost = False

    def write(self, data: Buffer, /) -> int:
        if not self._lost:
            try:
                # None where it was set not to block, as some programs leave a terminal or pipe, and is full.
                while (written := super().write(data)) is None:
                    select.select([], [self.fileno()], [])
                return written
            except OSError as error:
                self._lost = True
                if self.fileno() == _STDOUT:
                    raise environment_error(f"cannot be written: {error.strerror}", where="stdout") from None
        return memoryview(data).nbytes


def _protected(stream: TextIO | None, number: int, errors: str) -> TextIO:
    if stream is None:
        _occupy(number)
    return io.TextIOWrapper(
        io.BufferedWriter(_Descriptor(number)),
        encoding=stream.encoding if stream is not None else "utf-8",
        errors=errors,
        line_buffering=number == _STDERR or os.isatty(number),
    )


def _occupy(number: int) -> None:
    """Keep a descriptor that was closed at the start from becoming one of a file that is opened later."""
    null = os.open(os.devnull, os.O_RDONLY)
    if null != number:
        os.dup2(null, number)
        os.close(null)
