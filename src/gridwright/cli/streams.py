"""Makes standard output and error take any character, and fail with one line when they are full.

What commands a terminal is visible on stderr, and on stdout where that is one; elsewhere stdout is data for
programs, and goes as it is. See `gridwright.foreign_text`.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from typing import TYPE_CHECKING

from gridwright.errors import environment_error
from gridwright.foreign_text import opened, visible

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from typing_extensions import Buffer

_STDOUT, _STDERR = 1, 2
_MARKED, _NUMBERED = "gridwright-marked", "gridwright-numbered"
_ASCII = dict(
    zip(
        "\u2013\u2014\u2026\u00d7\u00b7\u2500\u2501\u2502\u2588\u201c\u201d\u2018\u2019",
        "--.x.--|#\"\"''",
        strict=True,
    )
)
"""Each as wide as what it stands for, so that tables keep their columns."""


def protect_streams() -> None:
    """Replace `sys.stdout` and `sys.stderr` by streams that any text can be written to.

    All that prints passes them. Of characters that the locale lacks, dashes, dots and lines become those of
    ASCII. Others become, on stdout, a question mark; on stderr, the number of the character or of the byte.
    Standard output that takes no more (a full disk, a pipe that nobody reads) raises GridwrightError (status
    ENVIRONMENT) once, and then swallows all that follows. What standard error does not take is dropped: a
    message that nobody can read is no reason to stop the work.
    """
    codecs.register_error(_MARKED, lambda error: _spelled(error, lambda _: "?"))
    codecs.register_error(_NUMBERED, lambda error: _spelled(error, _number))
    sys.stdout = _protected(sys.stdout, _STDOUT, _MARKED)
    sys.stderr = _protected(sys.stderr, _STDERR, _NUMBERED)


def _spelled(error: UnicodeError, otherwise: Callable[[str], str]) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_ASCII.get(each) or otherwise(each) for each in lacking), error.end


def _number(character: str) -> str:
    r"""`\u65e5`, or `\xe9` for a byte of a name that is no UTF-8."""
    byte = ord(character) - 0xDC00
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else ascii(character)[1:-1]


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


class _Stream(io.TextIOWrapper):
    """Text to a descriptor."""

    shows_people = False
    """Whether what commands a terminal becomes visible."""

    def write(self, text: str, /) -> int:
        super().write(opened(visible(text) if self.shows_people else text))
        return len(text)


def _protected(stream: TextIO | None, number: int, errors: str) -> TextIO:
    if stream is None:
        _occupy(number)
    made = _Stream(
        io.BufferedWriter(_Descriptor(number)),
        encoding=stream.encoding if stream is not None else "utf-8",
        errors=errors,
        line_buffering=number == _STDERR or os.isatty(number),
    )
    made.shows_people = number == _STDERR or os.isatty(number)
    return made


def _occupy(number: int) -> None:
    """Keep a descriptor that was closed at the start from becoming one of a file that is opened later."""
    null = os.open(os.devnull, os.O_RDONLY)
    if null != number:
        os.dup2(null, number)
        os.close(null)
