"""Reads values out of the user's own YAML, with a position for every problem, and all problems at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from gridwright.errors import GridwrightError, Problem, nearest
from gridwright.units import Bytes, Rate, UnitError

LARGEST_FILE = 1 << 20
"""Bytes; prices and private types of one company are a few kilobytes."""

T = TypeVar("T")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


class Reader:
    """The text of one file, and what is wrong with it so far.

    Nodes are those of ruamel's composer, so that no tag constructs anything.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self._lines: list[str] = []

    def root(self) -> Any:  # noqa: ANN401 - ruamel's nodes share no useful type
        """Return the root node; None when the file is empty. Raises GridwrightError when it is no YAML."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            data = self.path.read_bytes()[: LARGEST_FILE + 1]
            text = data.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise GridwrightError(
                Problem(f"cannot be read: {error}", str(self.path), remedy="Write it as UTF-8 text.")
            ) from error
        if len(data) > LARGEST_FILE:
            raise GridwrightError(
                Problem("is larger than 1 MiB", str(self.path), remedy="Keep what the grids need.")
            )
        self._lines = text.splitlines()
        try:
            return YAML(typ="safe", pure=True).compose(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark
            self.report(mark, "this is not valid YAML", "Look at this line and the one before.")
        except (YAMLError, ValueError, RecursionError):
            self.report(None, "this is not valid YAML", "Write it as in docs/catalogue.md.")
        raise GridwrightError(*self.problems)

    def report(self, mark: Any, what: str, remedy: str, field: str | None = None) -> None:  # noqa: ANN401
        """Note a problem at a mark of the text; the file as a whole when there is none."""
        where, source = str(self.path), None
        if mark is not None:
            where = f"{self.path}:{mark.line + 1}:{mark.column + 1}"
            line = self._lines[mark.line] if mark.line < len(self._lines) else ""
            if line.isprintable() and len(line) <= 160:
                source = f"{line}\n{' ' * mark.column}^"
        self.problems.append(Problem(what, where, field=field, remedy=remedy, source=source))

    def mapping(self, node: Any, field: str, allowed: Iterable[str] | None = None) -> dict[str, Any]:  # noqa: ANN401
        """Return the nodes of a mapping by key; unknown and repeated keys are problems.

        `allowed` None takes any key.
        """
        if type(node).__name__ != "MappingNode":
            self.report(
                node.start_mark, f"{field or 'the file'} must be a mapping", "Write `name: value`.", field
            )
            return {}
        known = None if allowed is None else tuple(allowed)
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            path = f"{field}.{name}" if field else name
            if known is not None and name not in known:
                close = nearest(name, known)
                remedy = f"Did you mean {close}? " if close else ""
                self.report(
                    key.start_mark,
                    f"{name[:64]!r} is not known here",
                    f"{remedy}Known are {', '.join(known)}.",
                    path,
                )
            elif name in found:
                self.report(key.start_mark, f"{name} is given twice", "Keep one of the two.", path)
            else:
                found[name] = value
        return found

    def scalar(self, node: Any, field: str, read: Callable[[str], T], wanted: str) -> T | None:  # noqa: ANN401
        """Return a value as `read` makes it of the text; None after its problem was noted."""
        if type(node).__name__ != "ScalarNode":
            self.report(node.start_mark, f"{field} must be {wanted}", "Write one value.", field)
            return None
        try:
            return read(node.value)
        except UnitError as error:
            self.report(node.start_mark, error.text, f"{error.remedy[:1].upper()}{error.remedy[1:]}.", field)
        except ValueError:
            self.report(node.start_mark, f"{node.value[:64]!r} is not {wanted}", f"Write {wanted}.", field)
        return None


def amount(text: str) -> float:
    """Read a number of at least 0, such as a price in USD."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1 or len(text) > 9:
        raise ValueError(text)
    return int(text)


def flag(text: str) -> bool:
    """Read true or false."""
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def size(text: str) -> int:
    """Read a size above 0, such as 256 GiB, in bytes."""
    found = int(Bytes.parse(text))
    if found == 0:
        raise ValueError(text)
    return found


def rate(text: str) -> float:
    """Read a rate above 0, such as 1250 MB/s, in bytes per second."""
    found = Rate.parse(text)
    if found.per_core or found.bytes_per_s == 0:
        raise ValueError(text)
    return float(found.bytes_per_s)


def name(text: str) -> str:
    """Read a short text on one line."""
    if not text.strip() or len(text) > 200 or not text.isprintable():
        raise ValueError(text)
    return text


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a reader of one of these words."""

    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return read
