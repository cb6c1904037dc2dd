"""Stops a mass deletion that nobody has named: half of a library removed, a prefix or a source that is empty.

Who deletes on the other side what was deleted on this one takes an accident along. So a command that would
delete more than is usual deletes nothing, says how many, and is told that number (`--delete-up-to`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from gridwright.repository.known import Known

UNNAMED = 10
"""So many are always deleted, unless nothing would be left: a tenth of a few files is none."""
SHARE = 0.1
MOST = 1000
_REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Deletions:
    """What one command would delete."""

    count: int
    known: int
    """How many were known before, of which these are some."""
    is_all: bool
    """Whether nothing would be left, or the other side is empty."""

    def refusal(self, up_to: int | None) -> str | None:
        """Why nothing may be deleted, beside the number that somebody has named; None where all may be."""
        if not self.count:
            return None
        if up_to is not None:
            why = None if self.count <= up_to else f"more than the {up_to} that --delete-up-to names"
        elif self.is_all:
            why = "nothing would be left"
        elif self.count <= UNNAMED:
            why = None
        elif self.count > MOST:
            why = f"more than {MOST}"
        else:
            why = f"more than {SHARE:.0%}" if self.count > SHARE * self.known else None
        return why and (
            f"{self.count} of {max(self.count, self.known)} would be deleted, {why}: none was; see where they"
            f" went, and if that was meant, add --delete-up-to {self.count}"
        )


def note_refusal(known: Known, verb: str, why: str | None) -> None:
    """Keep for `repo status` why the last export or import has refused to delete; None where it has not."""
    if why is not None or known.fact(f"{_REFUSED} {verb}"):
        known.set_fact(f"{_REFUSED} {verb}", "" if why is None else f"{time.time():.0f} {why}")


def refusals(fact: Callable[[str], str | None]) -> list[tuple[str, str]]:
    """What the last export and the last import refused to delete: which of them, and why; by its facts."""
    found = []
    for verb in ("export", "import"):
        moment, _, why = (fact(f"{_REFUSED} {verb}") or "").partition(" ")
        if why and moment.isdecimal():
            when = datetime.fromtimestamp(min(int(moment), 2**32), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            found.append((f"{verb} of {when}", why))
    return found
