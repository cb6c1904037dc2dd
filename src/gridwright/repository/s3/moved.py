"""How far a transfer has come, whatever is moved once more after a broken connection."""

from __future__ import annotations

from gridwright.repository.store import Progress


class Moved:
    """Tells of the bytes of one range, each once. One thread uses it at a time."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._most = 0

    def to(self, count: int) -> None:
        """So many bytes from the beginning of the range have been moved."""
        if count > self._most:
            if self._progress is not None:
                self._progress(count - self._most)
            self._most = count
