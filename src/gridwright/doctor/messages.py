"""What the doctor asks of nodes: facts about themselves, and their part in trials of shared file systems.

The answer to a `FactsRequest` are `gridwright.doctor.facts.node_facts.NodeFacts`. A part in trials
says that it is `Ready`, then answers each of the `ORDERS` with one of the `ANSWERS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gridwright.messages import Messages


@dataclass(frozen=True, slots=True)
class FactsRequest:
    """Look at libraries (directories by name), settings (keys by kind) and file systems (fields of the spec).

    Kinds of settings are those of the tuning table. `commands` has, by kind and key, what prints the settings
    that kinds of file systems bring. What `sections` leaves out is not known afterwards.
    """

    libraries: dict[str, str]
    settings: dict[str, list[str]] = field(default_factory=dict)
    commands: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    filesystems: dict[str, dict[str, Any]] = field(default_factory=dict)
    sections: list[str] | None = None
    """Names of sections of the facts, where only these are wanted."""


# Trials of two nodes on a file system that they share.

Lock = Literal["flock", "fcntl"]


@dataclass(frozen=True, slots=True)
class Begin:
    """Work in a directory of the library; its owner makes it, and takes it away in the end."""

    directory: str
    mark: str
    owner: bool


@dataclass(frozen=True, slots=True)
class Look:
    """Say whether the directory is there."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write a file."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Read:
    """Read a file."""

    name: str


@dataclass(frozen=True, slots=True)
class Put:
    """Put a new file in the place of another."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class TakeLock:
    """Lock a file, and hold it."""

    kind: Lock
    name: str


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give a lock back."""

    kind: Lock


@dataclass(frozen=True, slots=True)
class TryLock:
    """Say whether a lock is free; it is given back at once."""

    kind: Lock
    name: str


@dataclass(frozen=True, slots=True)
class Append:
    """Append so many records to a file, and have them on disk."""

    name: str
    who: str
    records: int


@dataclass(frozen=True, slots=True)
class Count:
    """Say how many whole records of each there are, and under the empty name how many pieces are torn."""

    name: str


@dataclass(frozen=True, slots=True)
class Time:
    """Say what time it is, in seconds since 1970."""


TrialOrder = Begin | Look | Write | Read | Put | TakeLock | GiveBack | TryLock | Append | Count | Time
ORDERS: Messages[TrialOrder] = Messages(
    "do",
    {
        "begin": Begin,
        "see": Look,
        "write": Write,
        "read": Read,
        "put": Put,
        "lock": TakeLock,
        "unlock": GiveBack,
        "try": TryLock,
        "append": Append,
        "count": Count,
        "time": Time,
    },
)


@dataclass(frozen=True, slots=True)
class Ready:
    """The part has started on this host."""

    host: str


@dataclass(frozen=True, slots=True)
class Done:
    """An order was carried out."""

    value: bool | float | str | dict[str, int]


@dataclass(frozen=True, slots=True)
class OrderRefused:
    """An order could not be carried out; the words are the system's."""

    error: str


ANSWERS: Messages[Ready | Done | OrderRefused] = Messages(
    "say", {"ready": Ready, "done": Done, "refused": OrderRefused}
)
