"""`down`: takes a lab down, whole or half made, and proves that nothing is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gridwright.providers.lab.places import Places
from gridwright.providers.lab.record import locked, read
from gridwright.providers.lab.teardown import (
    ignore_signals,
    remove_directories,
    remove_empty_places,
    take_down,
)
from gridwright.providers.lab.up import leftovers


@dataclass(frozen=True, slots=True)
class LabDown:
    """What `down` of a lab did."""

    lab: str
    was_up: bool

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {"lab": self.lab, "was_up": self.was_up, "left": []}

    def text(self) -> str:
        """See Result."""
        return f"lab {self.lab} is down: nothing is left" if self.was_up else f"lab {self.lab} was not up"


def take_away(lab: str) -> LabDown:
    """Take a lab down, and say what that did. Raises GridwrightError naming what is left."""
    return LabDown(lab, down(lab))


def down(lab: str) -> bool:
    """Take a lab down; False where there was none. Raises GridwrightError naming what is left."""
    places = Places(lab)
    if read(lab) is None and not places.home.exists() and not places.lock.exists():
        return False
    with locked(lab):
        record = read(lab)
        ignore_signals()
        # Nothing is made before the record is written: without one, there are but directories.
        if left := take_down(record) if record is not None else remove_directories(lab):
            raise leftovers(lab, left)
    remove_empty_places()
    return record is not None
