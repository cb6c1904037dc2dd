"""Reads how many packets a cloud held back as a machine had used up what its network is allowed.

Cards of EC2 count them: packets that were shaped as an allowance was exceeded, as ena_admin_defs.h of their
driver in Linux has it. Bursts that are spent show there, whatever the card's speed is. Cards are asked as
ethtool(8) asks them (linux/ethtool.h), without a process.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.kernel_files import names_in
from gridwright.monitor.readings import Reading

_ETHTOOL = 0x8946
"""SIOCETHTOOL."""
_GET_NAMES, _GET_VALUES, _GET_COUNTS = 0x1B, 0x1D, 0x37
_STATISTICS = 1
"""ETH_SS_STATS."""
_NAME = 32
_ENDING = "_allowance_exceeded"
_LOOK_S = 60.0


@dataclass(slots=True)
class CardAllowances:
    """Reads the cards that count such packets; which ones these are is looked up once a minute."""

    root: Path = Path("/")
    _places: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of each such card, where the values of its allowances are."""
    _counts: dict[str, int] = field(default_factory=dict)
    _looked_at: float | None = None

    def readings(self) -> list[Reading]:
        """The packets that each allowance held back, now."""
        now = time.monotonic()
        if self._looked_at is None or now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            self._look()
        return [reading for device in self._places for reading in self._of(device)]

    def _look(self) -> None:
        self._places = {}
        for device in names_in(self.root / "sys/class/net"):
            with contextlib.suppress(OSError):
                names = statistic_names(device)
                if places := allowance_places(names):
                    self._places[device], self._counts[device] = places, len(names)

    def _of(self, device: str) -> Iterator[Reading]:
        at = time.monotonic()
        with contextlib.suppress(OSError):
            values = statistic_values(device, self._counts[device])
            for name, place in self._places[device].items():
                labels = (device, name)
                yield Reading("gridwright_network_held_back_packets_total", labels, values[place], at)


def allowance_places(names: Sequence[str]) -> dict[str, int]:
    """Where the values of allowances are, by what is allowed, such as `bw_in`."""
    return {name.removesuffix(_ENDING): at for at, name in enumerate(names) if name.endswith(_ENDING)}


def statistic_names(device: str) -> list[str]:
    """The names of a card's own statistics, in order. Raises OSError where it has none."""
    answer = _ask(device, struct.pack("=IIQI", _GET_COUNTS, 0, 1 << _STATISTICS, 0))
    _, _, known, count = struct.unpack_from("=IIQI", answer)
    if not known or not count:
        return []
    answer = _ask(device, struct.pack("=III", _GET_NAMES, _STATISTICS, count) + bytes(_NAME * count))
    begins = range(12, 12 + _NAME * count, _NAME)
    return [answer[at : at + _NAME].partition(b"\0")[0].decode(errors="replace") for at in begins]


def statistic_values(device: str, count: int) -> tuple[int, ...]:
    """Their values. Raises OSError where the card is gone, or has another number of them by now."""
    answer = _ask(device, struct.pack("=II", _GET_VALUES, count) + bytes(8 * count))
    if struct.unpack_from("=I", answer, 4)[0] != count:
        raise OSError(f"{device} has other statistics than a moment ago")
    return struct.unpack_from(f"={count}Q", answer, 8)


def _ask(device: str, question: bytes) -> bytes:
    """The answer to a question of ethtool, which the kernel writes into it. Raises OSError."""
    room = array.array("B", question)
    request = struct.pack("16sP16x", device.encode(), room.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _ETHTOOL, request)
    return room.tobytes()
