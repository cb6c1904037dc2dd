"""What is wrong, in words a user can act on, the error with it, and a reader of JSON that gathers it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRONG_INPUT = 2
FAILED = 3


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong: what, and what to do next."""

    what: str
    remedy: str | None = None

    def __str__(self) -> str:
        return self.what if self.remedy is None else f"{self.what}\n  {self.remedy}"


class ScratchError(Exception):
    """All that is wrong; `status` is the exit status, 2 for wrong input and 3 for a refusal or failure."""

    def __init__(self, *troubles: Trouble, status: int = FAILED) -> None:
        super().__init__("\n".join(str(trouble) for trouble in troubles))
        self.troubles = troubles
        self.status = status


class Interrupted(Exception):
    """SIGTERM or SIGINT came; `status` is the exit status that says so."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by signal {number}")
        self.status = 128 + number


class JsonReader:
    """What readers of one kind of file have in common; `troubles` has everything that is wrong at once.

    What is wrong is replaced by something of the right type, so that reading goes on.
    """

    example = Path("/scratch")
    """An absolute path, as a file of the kind has them."""

    def __init__(self) -> None:
        self.troubles: list[Trouble] = []

    def mapping(self, data: Any, where: str, known: set[str]) -> Mapping[str, Any]:  # noqa: ANN401
        """An object with no other keys than these."""
        if not isinstance(data, dict):
            self.wrong(where, data, "an object: {...}")
            return {}
        for key in data:
            if key not in known:
                self.wrong(where, key, f"one of {', '.join(sorted(known))}")
        return data

    def list(self, data: Any, where: str) -> list[Any]:  # noqa: ANN401
        """A list of anything."""
        if not isinstance(data, list):
            self.wrong(where, data, "a list: [...]")
            return []
        return data

    def path(self, data: Any, where: str) -> Path:  # noqa: ANN401
        """An absolute path."""
        if (
            not isinstance(data, str)
            or not data.startswith("/")
            or ".." in Path(data).parts
            or not data.isprintable()
        ):
            self.wrong(where, data, f"an absolute path, such as {self.example}")
            return self.example
        return Path(data)

    def wrong(self, where: str, found: Any, desired: str) -> None:  # noqa: ANN401
        """Note what is wrong at a place."""
        text = json.dumps(found, default=str)
        self.troubles.append(Trouble(f"{where}: {text[:80]} is given", f"it takes {desired}"))
