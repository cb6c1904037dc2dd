"""Follows the block devices below a library, and tells what of their traffic is not ours."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_SECTOR = 512
"""/sys/block counts sectors of 512 bytes, whatever the device's own are (block/stat)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A device, and the one above it whose traffic it carries; None for one that a library lies on."""

    device: str
    above: str | None


def stack(devices: Iterable[str], block: Path = Path("/sys/block")) -> list[Layer]:
    """The devices below libraries: members of RAIDs and maps, and what holds the file of a loop device."""
    layers: list[Layer] = []
    pending = [Layer(device, None) for device in dict.fromkeys(devices)]
    while pending:
        layer = pending.pop(0)
        if any(each.device == layer.device for each in layers):
            # Several lie on it: what reaches it can no more be told apart.
            continue
        layers.append(layer)
        pending += [Layer(name, layer.device) for name in _below(block / layer.device)]
    return layers


def _below(directory: Path) -> list[str]:
    try:
        members = sorted(entry.name for entry in (directory / "slaves").iterdir())
    except OSError:
        members = []
    return [_disk(name) for name in members] or _holders(directory)


def _holders(directory: Path) -> list[str]:
    """The disk that holds the file of a loop device, where there is one."""
    try:
        file = (directory / "loop" / "backing_file").read_text().strip()
        number = Path(file).stat().st_dev
        return [
            _disk(Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve(strict=True).name)
        ]
    except OSError:
        return []


def _disk(name: str) -> str:
    """The disk of a partition."""
    path = Path("/sys/class/block") / name
    try:
        real = path.resolve(strict=True)
        return real.parent.name if (real / "partition").exists() else name
    except OSError:
        return name


def device_bytes(device: str, block: Path = Path("/sys/block")) -> tuple[int, int] | None:
    """Bytes read from and written to a device since boot; None where it is gone."""
    try:
        fields = (block / device / "stat").read_text().split()
        return int(fields[2]) * _SECTOR, int(fields[6]) * _SECTOR
    except (OSError, ValueError, IndexError):
        return None


@dataclass(slots=True)
class Ledger:
    """What of a device's traffic is not ours, by what we have moved and may still be written back.

    Writes go to the page cache first: what we wrote is credit, which the device's writes use up. Credit
    cannot exceed what is dirty in memory, so that pages that were overwritten or dropped hide nothing.
    """

    overhead: float
    foreign_read: float = 0.0
    foreign_written: float = 0.0
    _read_credit: float = 0.0
    _write_credit: float = 0.0

    def take(self, device: tuple[int, int], own: tuple[int, int], dirty: int | None) -> None:
        """Account for what the device and we moved since the last time, and how much is dirty now.

        What is in flight was counted at us, and will be at the device: at most what we moved just now.
        """
        own_read, own_written = (moved * (1 + self.overhead) for moved in own)
        credit = self._read_credit + own_read
        self.foreign_read += max(0.0, device[0] - credit)
        self._read_credit = min(own_read, max(0.0, credit - device[0]))
        credit = self._write_credit + own_written
        self.foreign_written += max(0.0, device[1] - credit)
        self._write_credit = max(0.0, credit - device[1])
        if dirty is not None:
            self._write_credit = min(self._write_credit, dirty * (1 + self.overhead) + own_written)


@dataclass(slots=True)
class DeviceWatch:
    """The devices of some libraries; `look` accounts for what happened since the last one."""

    layers: list[Layer]
    overhead: float
    _last: dict[str, tuple[int, int]] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)

    def look(self, own: tuple[int, int], dirty: int | None) -> dict[str, tuple[int, int]]:
        """`own` is what our processes moved since the last look; returns the counters of all devices."""
        now = {
            layer.device: counted
            for layer in self.layers
            if (counted := device_bytes(layer.device)) is not None
        }
        moved = {
            name: (counted[0] - self._last[name][0], counted[1] - self._last[name][1])
            for name, counted in now.items()
            if name in self._last
        }
        for layer in self.layers:
            above = own if layer.above is None else moved.get(layer.above)
            if layer.device in moved and above is not None:
                ledger = self.ledgers.setdefault(layer.device, Ledger(self.overhead))
                ledger.take(moved[layer.device], above, dirty)
        self._last = now
        return now
