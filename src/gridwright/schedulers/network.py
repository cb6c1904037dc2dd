"""How the machines of a grid talk to each other for their scheduler: ports, and a shared key."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gridwright.services.ports import Ports


class GridPart(StrEnum):
    """Machines of a grid, by what they are there for."""

    LOGIN = "login"
    """Where users submit jobs."""
    HEAD = "head"
    """Where the scheduler's own service runs."""
    COMPUTE = "compute"
    """The nodes that run jobs."""


@dataclass(frozen=True, slots=True)
class NetworkRule:
    """Who may reach whom on which ports, and why."""

    target: GridPart
    source: GridPart
    ports: Ports
    why: str


@dataclass(frozen=True, slots=True)
class SharedKey:
    """A secret that is the same on all nodes; each deployment of a grid has its own."""

    name: str
    """One word, in lower case."""
    length: int
    """How many letters and digits it has."""
    variable: str
    """The variable of the playbook that names the file which holds it."""
