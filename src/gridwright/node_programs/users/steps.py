"""What can be done to a machine, as values: a plan is made of them, and `applying.py` carries them out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """A command, with the file that it reads a secret from, if any."""

    argv: tuple[str, ...]
    secret: str | None = None


@dataclass(frozen=True)
class Write:
    """A file of root, whole or not at all."""

    path: str
    text: str
    mode: int


@dataclass(frozen=True)
class Remove:
    """A file that is no longer wanted."""

    path: str


@dataclass(frozen=True)
class MakeHome:
    """A home with the files of /etc/skel."""

    path: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Change:
    """One thing that is not as it should be. Neither text has a secret."""

    setting: str
    found: str
    wanted: str
    act: Run | Write | Remove | MakeHome
