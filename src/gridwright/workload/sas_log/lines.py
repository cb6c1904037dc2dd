"""Goes through a SAS log of any size and encoding, in bounded memory.

A log can have gigabytes, nearly all of it source lines and data that say nothing about time. So no
line is looked at unless it holds one of a few words, which are sought in large blocks of bytes.
"""

from __future__ import annotations

import codecs
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from gridwright.errors import input_error

LONGEST_LINE = 4096
"""Bytes of a line that are looked at; SAS writes at most 256 characters."""
_BLOCK_BYTES = 1 << 20
# What the logging facility puts before each line, for servers and for jobs with a LOGCONFIGLOC.
_PREFIX = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.,]{8,15} +[A-Z]+ +\[\w{0,32}\] .{0,200}? - ?")
_UNSOUGHT = -2


class LineTaker(Protocol):
    """Who reads the lines: what to look for, and what to do with what was found."""

    words: tuple[bytes, ...]
    """A line is given if it holds one of these; the set may change from line to line."""

    @property
    def wants_all(self) -> bool:
        """Give the next line, whatever it holds."""
        ...

    def take(self, text: bytes, line: int, *, whole: bool) -> None:
        """Take a line, stripped. `whole` is False for a last line without an end."""
        ...


def scan_lines(path: Path, taker: LineTaker) -> int:
    """Give the taker the lines it wants, with their numbers from 1; return the bytes of the file.

    Raises GridwrightError if the file cannot be read.
    """
    line = 1
    try:
        status = path.stat()
        # Asked before it is opened: opening a pipe waits until somebody writes.
        if not stat.S_ISREG(status.st_mode):
            raise input_error("this is no file", where=str(path), remedy="Name the log of one SAS job.")
        with path.open("rb", buffering=0) as file:
            for piece in _whole_lines(_decoded(_blocks(file, status.st_size))):
                line = _scan_piece(piece, line, taker)
    except OSError as error:
        raise input_error(
            f"the log cannot be read: {error.strerror or error}",
            where=str(path),
            remedy="Name a readable file.",
        ) from error
    return status.st_size


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Read as much as there was at first: a running job may write faster than it is read."""
    left = size
    while left > 0 and (block := file.read(min(left, _BLOCK_BYTES))):
        left -= len(block)
        yield block


def _decoded(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Turn UTF-16 into UTF-8; in all other encodings, what matters is ASCII."""
    first = next(blocks, b"")
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    yield decoder.decode(first).encode("utf-8", "replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _whole_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Join what a block's end parts. Of a line longer than a block, the middle is left out."""
    rest = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end] if rest else block[:end]
            rest = block[end:]
        else:
            rest = (rest + block)[:_BLOCK_BYTES] if len(rest) < LONGEST_LINE else rest[:LONGEST_LINE]
    if rest:
        yield rest


def _scan_piece(piece: bytes, line: int, taker: LineTaker) -> int:
    """Give the lines of one piece; return the number of the line that follows it."""
    at = 0
    hits: dict[bytes, int] = {}
    while at < len(piece):
        if not taker.wants_all:
            hit = _next_hit(piece, at, taker.words, hits)
            if hit < 0:
                return line + piece.count(b"\n", at)
            start = max(at, piece.rfind(b"\n", at, hit) + 1)
            line += piece.count(b"\n", at, start)
            at = start
        end = piece.find(b"\n", at)
        whole = end >= 0
        end = end if whole else len(piece)
        text = piece[at : min(end, at + LONGEST_LINE)]
        if taker.wants_all or b"NOTE:" in text or b"ERROR" in text:
            taker.take(_bare(text), line, whole=whole)
        at = end + 1
        line += 1
    return line


def _next_hit(piece: bytes, at: int, words: tuple[bytes, ...], hits: dict[bytes, int]) -> int:
    """Where the next of the words stands, or -1. `hits` keeps what was found, so none is sought twice."""
    nearest = -1
    for word in words:
        hit = hits.get(word, _UNSOUGHT)
        if hit == _UNSOUGHT or 0 <= hit < at:
            hit = hits[word] = piece.find(word, at)
        if hit >= 0 and (nearest < 0 or hit < nearest):
            nearest = hit
    return nearest


def _bare(line: bytes) -> bytes:
    """Strip blanks, form feeds, NULs and the prefix of the logging facility."""
    if b"\0" in line:
        line = line.replace(b"\0", b"")
    if line[:1].isdigit() and (prefix := _PREFIX.match(line)):
        line = line[prefix.end() :]
    return line.strip()
