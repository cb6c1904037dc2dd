"""A machine of a grid that does not do its part, as its provider knows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineOutage:
    """A machine, what is wrong with it, and what hangs on it."""

    machine: str
    state: str
    """As the rest of a sentence: "is powered off"."""
    remedy: str
    is_head: bool = False
    """Whether the other nodes are reached through it, and its scheduler runs there."""
    is_final: bool = True
    """Whether what had connections to it has lost them for good."""
    serves: tuple[str, ...] = ()
    """Names of the file systems whose data it serves."""
