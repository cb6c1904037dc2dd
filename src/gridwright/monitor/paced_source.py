"""A source of readings that is asked with each sample, and read as often as it is worth its cost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gridwright.filesystems.reading import FigureSource, Reading


@dataclass(frozen=True, slots=True)
class Told:
    """What a source tells now."""

    readings: list[Reading]
    earlier: list[Reading]
    """What it had told before, where it was not read anew: for rates that do not come and go."""


@dataclass(slots=True)
class PacedSource:
    """Reads a source when it is due, and tells what it said last in between."""

    source: FigureSource
    _last: list[Reading] = field(default_factory=list)
    _earlier: list[Reading] = field(default_factory=list)
    _due_s: float = 0.0
    _failure: Exception | None = None

    def read(self) -> Told:
        """What it says by now. Raises what the source raised last, until it is due again."""
        begun = time.monotonic()
        if begun < self._due_s:
            if self._failure is not None:
                raise self._failure
            return self.last
        cost = time.thread_time()
        self._failure = None
        try:
            readings = self.source.read()
        except Exception as error:
            # One that starts a process is not to start one with each sample.
            self._failure, self._due_s = error, begun + self.source.every_s
            raise
        cost = time.thread_time() - cost
        self._earlier, self._last = self._last, readings
        # A sample comes a moment early or late: what is due within half of the shortest time is due now.
        wait = max(self.source.every_s, cost / self.source.most_part)
        self._due_s = begun + wait - min(0.5, self.source.every_s / 2)
        return Told(readings, [])

    @property
    def resting(self) -> Told | None:
        """What it says while it is not due; None where it has to be read, or did not answer last."""
        return self.last if self._failure is None and time.monotonic() < self._due_s else None

    @property
    def last(self) -> Told:
        """What it said last."""
        return Told(self._last, self._earlier)
