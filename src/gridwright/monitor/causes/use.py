"""One resource on the way to a library, with what of it is used, and whether it is at its limit (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FULL = 0.9
"""From this part of its limit on a resource binds: queues are long from there on."""


class ResourceSort(StrEnum):
    """What a resource is one of."""

    DISK = "disk"
    CARD = "card"
    ALLOWANCE = "allowance"
    """What a cloud lets a machine's network pass, bursts included."""
    GROUP = "control-group"
    """A limit that somebody has set for processes."""
    STATED = "stated"
    """A limit of the model: what the grid spec or the catalogue says that something delivers."""
    TARGET = "target"
    SERVER = "server"
    CPU = "cpu"
    STEAL = "steal"


STORAGE = frozenset(ResourceSort) - {ResourceSort.CPU, ResourceSort.STEAL}
"""What is on the way of bytes. A control group's limit of CPU time is of sort CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """A resource and its use. `used` and `capacity` are in `unit`; None is what is not known."""

    sort: ResourceSort
    name: str
    """Such as `disk sda of n1`; the same in each picture."""
    node: str = ""
    """Empty where it is of no one node."""
    used: float | None = None
    capacity: float | None = None
    unit: str = "bytes/s"
    """bytes/s, requests/s, requests (in flight), CPUs, or parts of the time."""
    part: float | None = None
    """Utilisation; 1 is its limit."""
    binds: bool = False
    text: str = ""
    """A sentence without its full stop, that says what was measured."""
    source: str = ""
    """Where the figures were read."""
    capacity_source: str = ""
    """Who says what the limit is; empty where it is the thing's own."""


@dataclass(frozen=True, slots=True)
class StatedLimit:
    """A limit of the model for one file system, in plain values, so that recordings can hold it.

    `read` and `write` say how many bytes of it each byte takes that is read or written; 0 where such bytes
    do not pass it. With scope `node` each of `nodes` has one (all where none is named), with `grid` there is
    one for all; with `stream` it is what one sequence of I/O can have.
    """

    resource: str
    what: str
    scope: str
    bytes_per_s: float
    source: str
    read: float
    write: float
    burst_bytes_per_s: float | None = None
    nodes: tuple[str, ...] = ()
