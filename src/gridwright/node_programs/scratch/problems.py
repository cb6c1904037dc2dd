"""What is wrong, in words a user can act on, and the error that carries it."""

from __future__ import annotations

from dataclasses import dataclass

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
