"""The one error that reaches users, and the findings that warn them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal


class ExitStatus(IntEnum):
    """Exit status of every command."""

    DONE = 0
    MISSED = 1
    """Done, but a requirement is missed, unproven, or a job failed."""
    INPUT = 2
    """The user's input is wrong."""
    ENVIRONMENT = 3
    """A node, a disk or a service failed."""
    INTERRUPTED = 130


Level = Literal["error", "warning", "info"]
GRAVEST_FIRST: Mapping[Level, int] = {"error": 0, "warning": 1, "info": 2}
"""The order in which findings are shown."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something the user should know that did not stop the command.

    `name` is stable and can be silenced in the spec; `text` says what is the case and why it
    matters; `remedy` says what to do.
    """

    level: Level
    name: str
    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.level} {self.name}: {self.text}\n  {self.remedy}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in the user's input or in the environment.

    `where` is a place a user can go to: `grid.yaml:12:7`, a path, a node. `field` is the dotted
    path of a spec field. `source` is the offending line with a caret below it. `remedy` says
    what to do next.
    """

    what: str
    where: str | None = None
    field: str | None = None
    remedy: str | None = None
    source: str | None = None

    def __str__(self) -> str:
        # A path is anybody's, and no line of its own.
        where = self.where.replace("\n", "\\n") if self.where else ""
        head = f"{where}: {self.what}" if where else self.what
        lines = [head]
        if self.field:
            lines.append(f"  field: {self.field}")
        if self.source:
            lines.extend(f"  {line}" for line in self.source.splitlines())
        if self.remedy:
            lines.append(f"  {self.remedy}")
        return "\n".join(lines)


class GridwrightError(Exception):
    """All that is wrong with one input, or one failure of the environment.

    Carries every problem found, never only the first; the command line prints it without a
    traceback and exits with `status`.
    """

    def __init__(self, *problems: Problem, status: ExitStatus = ExitStatus.INPUT) -> None:
        if not problems:
            raise ValueError("a GridwrightError needs at least one problem")
        super().__init__(problems[0].what)
        self.problems = problems
        self.status = status

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def environment_error(what: str, *, where: str | None = None, remedy: str | None = None) -> GridwrightError:
    """A failure of a node, a disk or a service (exit status 3)."""
    return GridwrightError(Problem(what=what, where=where, remedy=remedy), status=ExitStatus.ENVIRONMENT)


def input_error(what: str, *, where: str | None = None, remedy: str | None = None) -> GridwrightError:
    """A mistake in what the user typed or wrote (exit status 2)."""
    return GridwrightError(Problem(what=what, where=where, remedy=remedy), status=ExitStatus.INPUT)


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The one allowed name that `name` most likely meant, or None when none is near."""
    import difflib

    folded = {each.lower(): each for each in allowed}
    # A pasted paragraph is no typo, and comparing it would take long.
    close_matches = difflib.get_close_matches(name.lower()[:64], folded, n=1, cutoff=0.6)
    return folded[close_matches[0]] if close_matches else None
