"""Ports of services."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports that belong together; the name is letters and digits, and tells rules apart."""

    name: str
    first: int
    last: int
    protocol: str = "tcp"


EPHEMERAL = Ports("Ephemeral", 32768, 60999)
"""net.ipv4.ip_local_port_range, as the kernel has it."""
