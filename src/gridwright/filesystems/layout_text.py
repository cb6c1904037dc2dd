"""Layouts as people write them on a command line: the options of `lfs setstripe`, in its words.

`-c 4`, or just `4`, is four stripes; `-E 256M -c 1 -E 16G -c 4 -E -1 -c -1` has parts of each file, each up
to its `-E`. `-C` overstripes, `-S` is the stripe size, `-p` the pool, and `-L mdt` has a part on the metadata
server. Sizes are binary, as there: 256M is 256 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.filesystems.layout import Component, FileLayout

EXAMPLES = "4, -1, or '-E 256M -c 1 -E 16G -c 4 -E -1 -c -1'"
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_SIZE = re.compile(r"([0-9]{1,15})(?:([KMGT])(?:i?B)?)?", re.ASCII | re.IGNORECASE)
_ENDS = frozenset({"-1", "eof", "EOF"})
_FLAGS = ("-E", "-c", "-C", "-S", "-p", "-L")


def read_layout_text(text: str, where: str | None = None) -> FileLayout:
    """The layout that `lfs setstripe` would make of these options.

    Whether a file system takes it is for its kind to say. Raises GridwrightError (status INPUT) with all that
    cannot be read.
    """
    words = text.split()
    if len(words) == 1 and re.fullmatch(r"-?[0-9]{1,6}", words[0], re.ASCII):
        words = ["-c", words[0]]
    parts, problems = _Parts(), list[str]()
    for flag, value in zip(words[::2], [*words[1::2], ""], strict=False):
        if wrong := parts.take(flag, value):
            problems.append(wrong)
    problems += parts.unfinished() if words else ["it says nothing"]
    if problems:
        remedy = f"write what lfs setstripe takes: {EXAMPLES}"
        raise GridwrightError(
            *(Problem(f"layout {text!r}: {each}", where, remedy=remedy) for each in dict.fromkeys(problems)),
            status=ExitStatus.INPUT,
        )
    return FileLayout(tuple(parts.components()))


@dataclass(slots=True)
class _Part:
    end: int | None = None
    count: int | None = None
    size: int | None = None
    pool: str | None = None
    on_metadata_server: bool = False
    overstriped: bool = False


@dataclass(slots=True)
class _Parts:
    """The parts of a layout as its options come."""

    _found: list[_Part] = field(default_factory=list)
    _is_plain: bool = False

    def take(self, flag: str, value: str) -> str | None:
        """Account for an option; what is wrong with it."""
        if flag not in _FLAGS or not value:
            return f"{flag} has no value" if flag in _FLAGS else f"{flag} is none of {', '.join(_FLAGS)}"
        if flag == "-E":
            return self._begin(value)
        if not self._found:
            self._is_plain = True
            self._found.append(_Part())
        part = self._found[-1]
        if flag == "-p":
            part.pool = value
        elif flag == "-S":
            part.size = _size(value)
            return None if part.size else f"-S {value} is no size"
        elif flag == "-L":
            part.on_metadata_server = True
            return None if value == "mdt" else f"-L {value} is not mdt"
        elif count := re.fullmatch(r"-?[0-9]{1,6}", value, re.ASCII):
            part.count, part.overstriped = int(count[0]), flag == "-C"
        else:
            return f"{flag} {value} is no stripe count"
        return None

    def _begin(self, value: str) -> str | None:
        if self._is_plain:
            return "what comes before the first -E belongs to no part"
        end = None if value in _ENDS else _size(value)
        self._found.append(_Part(end))
        return f"-E {value} is no size" if end is None and value not in _ENDS else None

    def unfinished(self) -> list[str]:
        """Parts that do not say how they are striped."""
        bare = [each for each in self._found if each.count is None and not each.on_metadata_server]
        return ["each part needs -c, -C or -L mdt"] if bare else []

    def components(self) -> Iterator[Component]:
        """The parts, one after the other."""
        start = 0
        for each in self._found:
            yield Component(
                start=start,
                end=each.end,
                stripe_count=0 if each.on_metadata_server else each.count or 0,
                stripe_bytes=each.size,
                pool=each.pool,
                on_metadata_server=each.on_metadata_server,
                overstriped=each.overstriped,
            )
            start = each.end or start


def layout_text(layout: FileLayout) -> str:
    """A layout in the words of `lfs setstripe`; of a mirrored file the first mirror."""
    first = tuple(
        component for component in layout.components if component.mirror == layout.components[0].mirror
    )
    return " ".join(layout_options(FileLayout(first), _written))


def layout_options(
    layout: FileLayout, size: Callable[[int], str] = str, *, placed: bool = False
) -> list[str]:
    """A layout as the options that `lfs setstripe` and `lfs migrate` have for it; `size` writes bytes.

    With `placed` they name targets, too, where the layout does.
    """
    options: list[str] = []
    first = layout.components[0]
    is_plain = len(layout.components) == 1 and first.end is None and not first.on_metadata_server
    for component in layout.components:
        options += [] if is_plain else ["-E", "-1" if component.end is None else size(component.end)]
        options += _striping(component, size)
        options += ["-o", ",".join(map(str, component.osts))] if placed and component.osts else []
    return options


def _striping(component: Component, size: Callable[[int], str]) -> Iterator[str]:
    if component.on_metadata_server:
        yield from ("-L", "mdt")
        return
    yield from ("-C" if component.overstriped else "-c", str(component.stripe_count))
    if component.stripe_bytes is not None:
        yield from ("-S", size(component.stripe_bytes))
    if component.pool is not None:
        yield from ("-p", component.pool)


def _size(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    return int(match[1]) << _UNITS[(match[2] or "").upper()] if match else None


def _written(size: int) -> str:
    unit = next((unit for unit in ("T", "G", "M", "K") if size % (1 << _UNITS[unit]) == 0 and size), "")
    return f"{size >> _UNITS[unit]}{unit}"
