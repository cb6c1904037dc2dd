"""The text of a file as the user sees it: its sort, lines, columns, and a line with a caret below."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from gridwright.errors import Problem
from gridwright.secret_text import masked

# YAML's own line breaks, so that positions agree with every editor: no form feed, no U+2028.
_BREAK = re.compile(r"\r\n|\n|\r")
_WIDTH = 100
_ELLIPSIS = "..."


class SourceText:
    """Text with a name; positions count lines and columns from 1, in characters."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        breaks = list(_BREAK.finditer(text))
        self._starts = [0, *(each.end() for each in breaks)]
        self._ends = [*(each.start() for each in breaks), len(text)]
        # The empty rest behind the final line break is no line of the file.
        if len(self._starts) > 1 and self._starts[-1] == len(text):
            del self._starts[-1], self._ends[-1]

    def position(self, index: int) -> tuple[int, int]:
        """Line and column of a character; an index behind the end is moved onto the last line."""
        line = bisect_right(self._starts, max(index, 0)) - 1
        column = min(max(index, 0), self._ends[line]) - self._starts[line]
        return line + 1, column + 1

    def line(self, number: int) -> str:
        """The text of line `number`, counted from 1, without its line break."""
        return self.text[self._starts[number - 1] : self._ends[number - 1]]

    @cached_property
    def _shown(self) -> str:
        return masked(self.text)

    def excerpt(self, index: int) -> str:
        """The line that holds `index` without secrets, cut where it is long, and a caret below the place."""
        number, column = self.position(index)
        line, at = self._shown[self._starts[number - 1] : self._ends[number - 1]], column - 1
        start = max(0, at - _WIDTH // 2) if len(line) > _WIDTH else 0
        shown, at = line[start : start + _WIDTH], at - start
        if start + _WIDTH < len(line):
            shown += _ELLIPSIS
        if start:
            shown, at = _ELLIPSIS + shown, at + len(_ELLIPSIS)
        shown = "".join(_visible(char) for char in shown)
        return f"{shown.rstrip()}\n{' ' * sum(map(_columns, shown[:at]))}^"

    def problem(self, index: int, what: str, remedy: str | None = None, field: str | None = None) -> Problem:
        """A problem at a place in this text, with its position, its line and a caret."""
        line, column = self.position(index)
        return Problem(
            what=what,
            where=f"{self.name}:{line}:{column}",
            field=field,
            remedy=sentence(remedy) if remedy else None,
            source=self.excerpt(index),
        )


def sentence(text: str) -> str:
    """The text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def show(value: object, limit: int = 60) -> str:
    """A value for a message: text in quotes, on one line, without secrets, cut where it gets long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if not isinstance(value, str):
        return str(value)[:limit]
    text = "".join(_visible(char) for char in masked(value))
    return f'"{text}"' if len(text) <= limit else f'"{text[: limit - 3]}..."'


def _visible(char: str) -> str:
    """The character, or a harmless one for what would move the cursor or turn the text around."""
    if char == "\t":
        return " "
    return char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A sort of file that people write.

    `name` is what messages call it, without an article. `levels` says in words how deep it nests.
    `max_bytes` bounds its size, since the YAML parser reads about 250 kB in a second; `max_values` bounds
    its values, with aliases expanded. `beginning` is what to do where the text is no mapping of fields, and
    `instead_of_nothing` where it is empty; None: an empty file is right. `numbers_name`: a whole
    number may be the name of an entry.
    """

    name: str
    levels: str
    beginning: str
    instead_of_nothing: str | None
    max_bytes: int = 256 * 1024
    max_values: int = 10_000
    numbers_name: bool = False
