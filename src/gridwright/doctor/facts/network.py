"""Network interfaces of a node; see https://docs.kernel.org/networking/statistics.html."""

from __future__ import annotations

from pathlib import Path

from gridwright.doctor.facts.node_facts import InterfaceFacts
from gridwright.kernel_files import number_of, text_of

_INTERFACES = Path("/sys/class/net")
_ROUTES = Path("/proc/net/route")
_COUNTED = ("rx_packets", "rx_errors", "rx_dropped", "rx_missed_errors", "tx_packets", "tx_errors")
_LOOPBACK = "772"
"""ARPHRD_LOOPBACK, include/uapi/linux/if_arp.h."""


def interfaces() -> list[InterfaceFacts]:
    """Every interface that is up or ought to be a network card: speed in bytes/s, MTU, errors."""
    by_default = _default_interfaces()
    found = []
    for path in sorted(_INTERFACES.iterdir()):
        if not path.is_dir() or text_of(path / "type") == _LOOPBACK:
            continue
        megabits = number_of(path / "speed")
        found.append(
            InterfaceFacts(
                name=path.name,
                real=(path / "device").exists(),
                default=path.name in by_default,
                up=text_of(path / "operstate") in ("up", "unknown"),
                # Virtual cards say -1: they have no speed of their own.
                bytes_per_s=megabits * 125_000 if megabits and megabits > 0 else None,
                mtu=number_of(path / "mtu"),
                counters={name: number_of(path / "statistics" / name) or 0 for name in _COUNTED},
            )
        )
    return found


def _default_interfaces() -> set[str]:
    """Interfaces of the default route (proc(5), /proc/net/route)."""
    rows = [line.split() for line in (text_of(_ROUTES) or "").splitlines()[1:]]
    return {row[0] for row in rows if len(row) > 1 and row[1] == "00000000"}
