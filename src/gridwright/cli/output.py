"""How a verb prints its result: as text for people, or as one JSON document."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gridwright.providers.provider import Result

SCHEMA = 1
"""Version of all documents; it rises when a key changes its meaning."""


class LazyResult:
    """A result that is put together where it is printed; only what is asked for is made."""

    def __init__(self, *, document: Callable[[], Mapping[str, Any]], text: Callable[[], str]) -> None:
        self.document = document
        self.text = text


def plain(record: BaseModel) -> dict[str, Any]:
    """A record in plain values, as its file has them."""
    import json

    values: dict[str, Any] = json.loads(record.model_dump_json(by_alias=True))
    return values


@dataclass(frozen=True, slots=True)
class Output:
    """Standard output of one command, such as `status` or `runs list`."""

    command: str | None
    """None where the user named none."""
    json: bool = False
    """Whether to print one JSON document, and nothing else."""

    def show(self, result: Result, *, following: str = "", indent: int | None = 2) -> None:
        """Print a result, and in text the command or file to go on with.

        Raises GridwrightError (status ENVIRONMENT) where standard output takes no more.
        """
        if self.json:
            import json

            from gridwright.cli.named_spec import with_named_remedies

            content = with_named_remedies(result.document())
            document = {"schema": SCHEMA, "command": self.command, **content}
            self.write(json.dumps(document, indent=indent))
            return
        self.write(result.text())
        if following:
            self.write(f"\nnext: {following}")

    def note(self, text: str) -> None:
        """Print a line that goes with the result: on stderr where stdout is for the document alone."""
        stream = sys.stderr if self.json else sys.stdout
        stream.write(f"{text}\n")
        stream.flush()

    def write(self, text: str) -> None:
        """Print text as it is, ended by a newline; empty text prints nothing."""
        if text:
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
            sys.stdout.flush()
