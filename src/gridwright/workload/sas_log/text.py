"""Turns the bytes of a log into lines of UTF-8, piece by piece: packed, in UTF-16, or as a page of HTML.

Where a log is in another encoding it stays as it is: what matters in it is ASCII, or told by its words.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from gridwright.errors import input_error
from gridwright.handed_files import BLOCK_BYTES, open_file, unpacked

LONGEST_LINE = 4096
"""Bytes of a line that are looked at; SAS writes at most 256 characters."""
_SAMPLE_BYTES = 1 << 16
_EBCDIC_NOTE = "NOTE:".encode("cp037")

_BREAK = re.compile(
    rb"<(?:br|hr|/?(?:p|div|tr|pre|li|table|h\d))\b[^<>]{0,500}>[ \t]*(?:\r?\n)?", re.IGNORECASE
)
_TAG = re.compile(rb"</?[a-z!][^<>]{0,500}>", re.IGNORECASE)


def whole_lines(path: Path, size: int) -> Iterator[bytes]:
    """Yield a log in pieces of whole lines, in UTF-8 where its encoding can be told.

    `size` is what an unpacked log had when it was looked at: a running job may write faster than it is
    read. Raises OSError, and GridwrightError where the log is packed badly or in EBCDIC.
    """
    with open_file(path) as file:
        blocks = unpacked(file, path, size)
        first = next(blocks, b"")
        if _EBCDIC_NOTE in first and b"NOTE:" not in first:
            raise input_error(
                "its text is in EBCDIC: it was copied from z/OS as it is",
                where=str(path),
                remedy="copy it as text, so that it is in ASCII: ftp does so with `ascii`",
            )
        yield from _in_lines(_plain(_decoded(chain([first], blocks))))


def _decoded(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Turn UTF-16 into UTF-8, with or without a byte order mark."""
    first = next(blocks, b"")
    encoding = _utf_16(first)
    if encoding is None:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for block in chain([first], blocks):
        yield decoder.decode(block).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _utf_16(first: bytes) -> str | None:
    """The kind of UTF-16 that a log begins in, or None; without a mark the zero bytes of ASCII tell it."""
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = first[:_SAMPLE_BYTES]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    many = len(sample) // 8
    if odd > many and even * 8 < odd:
        return "utf-16-le"
    return "utf-16-be" if even > many and odd * 8 < even else None


def _plain(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Turn HTML into text, as a stored process and the export of a log window have it."""
    first = next(blocks, b"")
    start = first[:LONGEST_LINE].lstrip().lower()
    if not start.startswith((b"<", b"content-type:")):
        yield first
        yield from blocks
        return
    # A tag may lie across the border of two blocks, hardly across that of two lines.
    for piece in _in_lines(chain([first], blocks)):
        text = _TAG.sub(b"", _BREAK.sub(b"\n", piece)).decode("utf-8", "surrogateescape")
        yield html.unescape(text).replace("\xa0", " ").encode("utf-8", "surrogateescape")


def _in_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Join what a block's end parts. Of a line longer than a block, the middle is left out."""
    rest = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end] if rest else block[:end]
            rest = block[end:]
        else:
            rest = (rest + block)[:BLOCK_BYTES] if len(rest) < LONGEST_LINE else rest[:LONGEST_LINE]
    if rest:
        yield rest
