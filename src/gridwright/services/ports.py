"""Ports of services, and where the console of a grid is reached."""

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


CONSOLE_PORT = 29119
"""Next to that of the exporter."""
CONSOLE_HEALTH = "/health"
"""Says without a token that the console serves, and nothing else: what a load balancer looks at."""
