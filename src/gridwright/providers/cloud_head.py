"""The way to the head node of a grid in a cloud: whether this machine is one of the grid's, and host keys."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterable

import psutil

from gridwright.errors import GridwrightError, environment_error
from gridwright.spec.model import GridSpec


def is_one_of(machines: Iterable[tuple[str, object]]) -> bool:
    """Whether this machine has the name and an address of one of these; pairs of a name and an address."""
    name = socket.gethostname().partition(".")[0]
    own = {each.address for interface in psutil.net_if_addrs().values() for each in interface}
    return any(each == name and str(address) in own for each, address in machines)


def host_keys(spec: GridSpec, made: str) -> str:
    """Names the file of host keys: another one for each grid, and for each time that its machines changed."""
    return f"{spec.name}-{hashlib.sha256(made.encode()).hexdigest()[:12]}"


def not_up(spec: GridSpec) -> GridwrightError:
    """The error of a grid that is not up, or not whole."""
    return environment_error(
        f"grid {spec.name} is not up",
        where=str(spec.file) if spec.file else None,
        remedy=f"run gridwright up {spec.file or 'FILE'}; see how it stands with gridwright status",
    )
