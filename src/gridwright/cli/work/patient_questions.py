"""Questions of commands that stay: a scheduler that has answered once, and is silent later, is waited for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gridwright.cli.verbosity import say
from gridwright.errors import GridwrightError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gridwright.schedulers.job import Job
    from gridwright.schedulers.scheduler import Scheduler


class PatientQuestions:
    """Asks how jobs stand, again and again; says on stderr when the scheduler goes silent and comes back."""

    def __init__(self, scheduler: Scheduler, *, meanwhile: str, tell: Callable[[str], None] = say) -> None:
        """`meanwhile` says what its silence does not hold up."""
        from gridwright.schedulers.head_node import Silence

        self._scheduler = scheduler
        self._tell = tell
        self._silence = Silence(self._say, meanwhile=meanwhile)
        self._answered = False

    def jobs(self, identifiers: Collection[str] | None = None) -> list[Job] | None:
        """How jobs stand; None where the scheduler does not answer now.

        Raises GridwrightError where the first question has no answer: it is told at once what is wrong. Later
        where the scheduler has been silent for too long.
        """
        asked = time.monotonic()
        try:
            jobs = self._scheduler.jobs(identifiers)
        except GridwrightError as error:
            if not self._answered:
                raise
            self._silence.unanswered(error, asked)
            return None
        self._answered = True
        self._silence.answered()
        return jobs

    def _say(self, level: str, text: str, remedy: str) -> None:
        self._tell(f"{level}: {text}" + (f"\n  {remedy}" if level == "warning" else ""))
