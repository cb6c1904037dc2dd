"""Ports that clients of a file system reach its servers on, and servers their clients."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.services.ports import Ports


@dataclass(frozen=True, slots=True)
class ServerPorts:
    """Ports of a server that the grid does not have itself, and why nodes reach it there."""

    ports: Ports
    why: str
    host: str | None = None
    """The server's name or address; None where any may answer."""


LNET = (Ports("Lustre", 988, 988), Ports("LustreReserved", 1018, 1023))
"""LNet over TCP: where it listens, and the ports that it calls from (FSx for Lustre User Guide, file system
access control with Amazon VPC)."""
