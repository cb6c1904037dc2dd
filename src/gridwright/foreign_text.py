r"""Text of others: names, logs and specs are anybody's, and must not command what shows them.

What commands a terminal becomes visible, such as `\x1b`: control characters of ASCII and of Latin-1, marks
that turn the direction of text, separators of lines, and tags that nobody sees. Codes of our own, colours and
movements of the cursor, are made after that, spelled for the stream with a word that nobody else knows.
"""

from __future__ import annotations

import os
import re

_COMMANDS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
    "|\r(?!\n)"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_FIRST = 0xE000
"""Of the characters for private use (Unicode, 23.5); the first 128 stand for those of ASCII."""
_OURS = f"\ue0ff{os.urandom(12).hex()}"
_SEALED = re.compile(f"{_OURS}([\ue000-\ue07f])")


def visible(text: str) -> str:
    r"""The text with `\x1b` or `\u202e` in place of what commands a terminal; lines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text)


def visible_in_line(text: str) -> str:
    r"""The same where a line of its own would say something, as in a table: line feeds are `\n`, too."""
    return visible(text).replace("\n", "\\n")


def sealed(text: str) -> str:
    """Text of our own, with control characters spelled so that the stream lets them through."""
    return _CONTROLS.sub(lambda found: _OURS + chr(_FIRST + ord(found[0])), text)


def opened(text: str) -> str:
    """The text with control characters that were sealed."""
    if _OURS not in text:
        return text
    return _SEALED.sub(lambda found: chr(ord(found[1]) - _FIRST), text)


def spreadsheet_cell(text: str) -> str:
    """A text that no spreadsheet which reads it from CSV takes for a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
