"""Disks of a node, their queues, and md arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gridwright.doctor.facts.node_facts import ArrayFacts, DiskFacts
from gridwright.doctor.facts.settings import chosen
from gridwright.kernel_files import number_of, text_of

_BLOCK = Path("/sys/block")
_NO_DISKS = ("loop", "ram", "zram", "sr", "fd", "nbd")
"""Block devices that are no disks: files, memory, and media that are put in."""
_QUEUE = (
    *("scheduler", "read_ahead_kb", "nr_requests", "max_sectors_kb", "max_hw_sectors_kb", "rotational"),
    *("nomerges", "rq_affinity", "write_cache", "wbt_lat_usec", "iostats"),
)
"""See https://docs.kernel.org/block/queue-sysfs.html."""


def disks() -> list[DiskFacts]:
    """Every disk and array: kind, model, size in bytes, and the settings of its queue."""
    return [_disk(path) for path in sorted(_BLOCK.iterdir()) if not path.name.startswith(_NO_DISKS)]


def _disk(path: Path) -> DiskFacts:
    queue = {name: chosen(text) for name in _QUEUE if (text := text_of(path / "queue" / name)) is not None}
    return DiskFacts(
        name=path.name,
        medium=medium(path.name, queue.get("rotational")),
        model=text_of(path / "device" / "model"),
        size_bytes=(number_of(path / "size") or 0) * 512,
        queue=queue,
        members=sorted(each.name for each in (path / "slaves").glob("*")),
    )


def medium(name: str, rotational: str | None) -> str:
    """`nvme`, `ssd` or `rotational`, as the tuning table has them; emulated disks say the last."""
    if name.startswith("nvme"):
        return "nvme"
    return "rotational" if rotational == "1" else "ssd"


def arrays() -> list[ArrayFacts]:
    """Arrays of md as the kernel has them now; see https://docs.kernel.org/admin-guide/md.html."""
    return [_array(path) for path in _md()]


def _md() -> Iterator[Path]:
    yield from (path for path in sorted(_BLOCK.glob("md*")) if (path / "md").is_dir())


def _array(path: Path) -> ArrayFacts:
    md = path / "md"
    members = [(each.name.removeprefix("dev-"), text_of(each / "state") or "") for each in md.glob("dev-*")]
    return ArrayFacts(
        name=path.name,
        level=text_of(md / "level"),
        state=text_of(md / "array_state"),
        wanted=_first_number(text_of(md / "raid_disks")),
        missing=number_of(md / "degraded"),
        action=text_of(md / "sync_action"),
        members=sorted(name for name, _ in members),
        faulty=sorted(name for name, state in members if "faulty" in state),
    )


def _first_number(text: str | None) -> int | None:
    """Out of `4`, or `4 (3)` while its shape changes."""
    found = re.match(r"\d+", text or "")
    return int(found[0]) if found else None
