"""`down`: takes a lab down, whole or half made, and proves that nothing is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gridwright.providers.lab.contents import contents
from gridwright.providers.lab.places import Places
from gridwright.providers.lab.record import locked, read
from gridwright.providers.lab.teardown import (
    ignore_signals,
    leftovers,
    remove_directories,
    remove_empty_places,
    take_down,
)


@dataclass(frozen=True, slots=True)
class LabDown:
    """What `down` of a lab did."""

    lab: str
    was_up: bool
    """Whether there was one, in whatever state."""
    was_stopped: bool = False
    """Whether nothing of it ran, and its data was there."""
    deleted: tuple[str, ...] = ()
    """What went, in words."""

    def document(self) -> dict[str, Any]:
        """See Result."""
        return {"lab": self.lab, "was_up": self.was_up, "deleted": list(self.deleted), "left": []}

    def text(self) -> str:
        """See Result; what went is named where the lab was stopped: nobody saw it run."""
        named = "; ".join(self.deleted)
        if not self.was_up:
            return f"lab {self.lab} was not up" + (
                f"; what was left of it is deleted: {named}" if named else ""
            )
        went = f"; it was stopped, and went with its data: {named}" if self.was_stopped and named else ""
        return f"lab {self.lab} is down: nothing is left{went}"


def take_away(lab: str) -> LabDown:
    """Take a lab down, and say what that did. Raises GridwrightError naming what is left."""
    places = Places(lab)
    if read(lab) is None and not places.home.exists() and not places.lock.exists():
        return LabDown(lab, was_up=False)
    with locked(lab):
        record = read(lab)
        was_stopped = record is not None and record.standing == "stopped"
        there = contents(lab)
        ignore_signals()
        # Nothing is made before the record is written: without one, there are but directories.
        if left := take_down(record) if record is not None else remove_directories(lab):
            raise leftovers(lab, left)
    remove_empty_places()
    return LabDown(lab, record is not None, was_stopped, there)
