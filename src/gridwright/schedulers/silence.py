"""Patience with a scheduler that does not answer: the cause is told once, and the wait has an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.schedulers.head_node import HeadNodeUnreachable

PATIENCE_S = 600.0
"""A scheduler that has not answered for so long is given up: a restart of its machine takes less."""
_STOPPED_S = 60.0
"""Who did not ask for so long was stopped itself, and can blame nobody for that time."""
Tell = Callable[[Literal["warning", "info"], str, str], None]
"""Hears how bad it is, what is to be told, and what to do about it."""


class Silence:
    """How long a scheduler has been silent, and why; time is that of time.monotonic().

    It holds for every cause that may pass: a head node that is off or out of reach, a daemon that does not
    answer. The error says which of these it is.
    """

    def __init__(
        self,
        tell: Tell,
        *,
        meanwhile: str,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`meanwhile` says what the silence does not hold up, such as "what runs goes on"."""
        self._tell = tell
        self._meanwhile = meanwhile
        self._patience_s = patience_s
        self._clock = clock
        self._since: float | None = None
        self._last = 0.0
        self._told = ""
        self._error: GridwrightError | None = None

    @property
    def for_s(self) -> float:
        """Seconds since the first question that was not answered; 0 while all are."""
        return 0.0 if self._since is None else self._clock() - self._since

    def answered(self) -> None:
        """It answers; said where its silence was told."""
        if self._told:
            self._tell(
                "info", f"the scheduler answers again, after {self.for_s:.0f} s", "nothing is to be done"
            )
        self._since, self._told, self._error = None, "", None

    def unanswered(self, error: GridwrightError, asked: float) -> None:
        """A question asked at this time had no answer. Raises `error` where it is none of silence.

        Raises GridwrightError (ENVIRONMENT) where the silence has lasted for too long.
        """
        if error.status != ExitStatus.ENVIRONMENT:
            raise error
        if self._since is None or asked - self._last > _STOPPED_S:
            self._since = asked
        self._last, self._error = self._clock(), error
        self.check()
        side = which_side(error)
        if side != self._told:
            self._told = side
            first = error.problems[0]
            self._tell(
                "warning",
                f"the scheduler did not answer: {side}: {first.what}; it is asked again for "
                f"{_minutes(self._patience_s - self.for_s)}, and {self._meanwhile}",
                first.remedy or "see whether its service runs",
            )

    def check(self) -> None:
        """Raise GridwrightError where it has been silent for too long, also while a question is open."""
        if self._error is None or self.for_s <= self._patience_s:
            return
        first = self._error.problems[0]
        raise GridwrightError(
            Problem(
                what=f"the scheduler has not answered for {_minutes(self.for_s)}: {first.what}",
                where=first.where,
                remedy=first.remedy,
            ),
            status=ExitStatus.ENVIRONMENT,
        ) from self._error


def which_side(error: GridwrightError) -> str:
    """Who is silent, in words: the machine of the scheduler, or the scheduler on it."""
    where = error.problems[0].where
    if isinstance(error, HeadNodeUnreachable):
        return f"its machine {where} is away" if where else "its machine is away"
    return f"its machine {where} is there, its service is silent" if where else "its service is silent"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{max(0.0, seconds):.0f} s"
