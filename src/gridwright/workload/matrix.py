"""A matrix: which tests run, in which streams, and how it grows with the grid."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from gridwright.errors import GridwrightError, Problem, input_error, nearest
from gridwright.units import Bytes, UnitError, parse_duration
from gridwright.workload.programs import registry
from gridwright.yamltext.document import Document, Node, compose
from gridwright.yamltext.source import SourceText, show

BUILT_IN = ("quick", "mixed-30", "mixed-20")
MAX_STREAMS = 4096
MAX_BYTES = 256 * 1024
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"


def _size(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return int(Bytes.parse(value))
    except UnitError as error:
        raise ValueError(f"{error.text}; {error.remedy}") from None


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_duration(value)
    except UnitError as error:
        raise ValueError(f"{error.text}; {error.remedy}") from None


_Item = TypeVar("_Item")


def _some(value: tuple[_Item, ...]) -> tuple[_Item, ...]:
    # Not min_length: that also complains of a list whose items are wrong.
    if not value:
        raise ValueError("the list is empty: give it an entry, or remove it")
    return value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Entry(_Strict):
    """One launch of a stream: a test by name, or a command of the user's own.

    `memory` in bytes, `time_limit` in seconds; None means as the scale has it.
    """

    test: str | None = None
    command: Annotated[tuple[str, ...], AfterValidator(_some)] | None = None
    name: str | None = Field(default=None, pattern=_NAME)
    cores: int | None = Field(default=None, ge=1, le=1024)
    memory: Annotated[int, BeforeValidator(_size), Field(ge=1 << 20)] | None = None
    time_limit: Annotated[float, BeforeValidator(_seconds), Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Entry:
        if (self.test is None) == (self.command is None):
            raise ValueError("a launch is either `test: NAME` or `command: [PROGRAM, ARGUMENT, ...]`")
        if self.test is not None and self.test not in registry.NAMES:
            near = nearest(self.test, registry.NAMES)
            hint = f"did you mean {near}? " if near else ""
            raise ValueError(f"no test is named {show(self.test)}; {hint}tests: {', '.join(registry.NAMES)}")
        if self.test is not None and self.name is not None:
            raise ValueError("`name` goes with `command`: a test has its own")
        return self

    @property
    def label(self) -> str:
        """The name of the test, or of the command."""
        return self.test or self.name or Path((self.command or ("command",))[0]).name


def _entry(value: object) -> object:
    return {"test": value} if isinstance(value, str) else value


Launches = Annotated[tuple[Annotated[Entry, BeforeValidator(_entry)], ...], AfterValidator(_some)]


class Matrix(_Strict):
    """Streams of launches that run back to back; streams run at once.

    `copies` is how many copies of the data there are: stream n reads copy n modulo that.
    """

    name: str = Field(pattern=_NAME)
    description: str = ""
    source: str = ""
    copies: int = Field(default=1, ge=1, le=64)
    streams: Annotated[tuple[Launches, ...], AfterValidator(_some), Field(max_length=MAX_STREAMS)]

    def with_streams(self, count: int) -> Matrix:
        """The matrix with another number of streams.

        With more, its streams are repeated in turn, their launches with them; with fewer, those
        beyond go to the end of the first ones in turn, so that every launch still runs.
        """
        have = len(self.streams)
        if count >= have:
            streams = tuple(self.streams[number % have] for number in range(count))
        else:
            streams = tuple(
                tuple(entry for stream in self.streams[first::count] for entry in stream)
                for first in range(count)
            )
        return self.model_copy(update={"streams": streams})

    @property
    def launches(self) -> int:
        """How many launches it has."""
        return sum(len(stream) for stream in self.streams)


def load_matrix(name: str, flag: str = "--matrix") -> Matrix:
    """Load a matrix that comes with Gridwright by name, or a file. Raises GridwrightError."""
    if name in BUILT_IN:
        resource = files("gridwright.workload").joinpath("matrices", f"{name}.yaml")
        return parse_matrix(resource.read_text(encoding="utf-8"), f"{name}.yaml")
    path = Path(name)
    if os.sep not in name and path.suffix not in {".yaml", ".yml"}:
        near = nearest(name, BUILT_IN)
        raise input_error(
            f"no matrix is named {show(name)}",
            where=flag,
            remedy=f"{f'did you mean {near}? ' if near else ''}use {', '.join(BUILT_IN)}, or a YAML file",
        )
    try:
        if not path.is_file():
            raise input_error(
                "no such file", where=name, remedy="give --matrix a file, or one of the built-in names"
            )
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise input_error(f"cannot be read: {error.strerror}", where=name) from error
    if len(content) > MAX_BYTES:
        raise input_error(
            f"larger than {MAX_BYTES // 1024} KiB", where=name, remedy="is this the right file?"
        )
    try:
        return parse_matrix(content.decode(), name)
    except UnicodeDecodeError:
        raise input_error("is not UTF-8 text", where=name, remedy="is this the right file?") from None


def parse_matrix(text: str, source_name: str) -> Matrix:
    """Read a matrix from text. Raises GridwrightError that carries every problem with its place."""
    source = SourceText(source_name, text)
    document = compose(source)
    if document.problems or document.root is None:
        raise GridwrightError(*(document.problems or [Problem("the matrix is empty", where=source_name)]))
    try:
        return Matrix.model_validate(document.root.plain())
    except ValidationError as error:
        details = [(_place(document, detail["loc"]), detail) for detail in error.errors(include_url=False)]
        problems = [
            source.problem(place, _message(dict(detail)), field=_path(detail["loc"]))
            for place, detail in sorted(details, key=lambda each: each[0])
        ]
        raise GridwrightError(*dict.fromkeys(problems)) from None


def _message(detail: dict[str, Any]) -> str:
    if detail["type"] == "extra_forbidden":
        allowed = Matrix.model_fields if len(detail["loc"]) == 1 else Entry.model_fields
        near = nearest(str(detail["loc"][-1]), allowed)
        hint = f"; did you mean {near}?" if near else ""
        return f"{show(str(detail['loc'][-1]))} is not known here{hint}; allowed: {', '.join(allowed)}"
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    if detail["type"] == "missing":
        return f"{detail['loc'][-1]} is missing"
    if detail["type"] == "string_type" and isinstance(detail["input"], bool | int | float):
        return f"must be text, and {show(detail['input'])} is given; put it in quotes"
    return f"{detail['msg']}, and {show(detail['input'])} is given"


def _path(place: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in place)


def _place(document: Document, place: tuple[int | str, ...]) -> int:
    """Where the value at a path begins, as far as the document goes."""
    node: Node | None = document.root
    index = node.index if node else 0
    for part in place:
        if node is None:
            break
        if isinstance(node.value, dict) and part in node.value:
            entry = node.value[str(part)]
            index, node = entry.key_index, entry.node
        elif isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            index = node.index
        else:
            break
    return index
