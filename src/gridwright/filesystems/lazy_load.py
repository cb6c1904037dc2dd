"""Whether contents of a file system come out of object storage when somebody reads them, and which way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LazyLoadWay(StrEnum):
    """Who holds a reader back until the content is there."""

    EVENTS = "events"
    """The kernel of the node, by pre-content events: gridwright repo serve fills range by range."""
    SERVICE = "service"
    """The service that it is, by its own link with a bucket."""
    COPYTOOL = "copytool"
    """Lustre itself: a reader of a released file waits until an agent (gridwright repo serve) brought it."""
    NONE = "none"
    """Nobody: names are there at once, and contents come with gridwright repo import --contents."""


@dataclass(frozen=True, slots=True)
class LazyLoad:
    """The way, and in one line why it is that one."""

    way: LazyLoadWay
    why: str
