"""The caller of work that takes long: it is told of progress, and can ask for the work to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


def _nothing(_text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Caller:
    """What a provider has of the command that calls it."""

    say: Callable[[str], None] = _nothing
    """Takes one line of progress."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when it is to end. It is looked at between steps: an exception raised in between could be lost."""
    file: str = ""
    """The grid spec as the user named it; empty for ./grid.yaml."""

    def go_on(self) -> None:
        """Raise KeyboardInterrupt where it is to end."""
        if self.stop.is_set():
            raise KeyboardInterrupt
