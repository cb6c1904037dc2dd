"""What a disk holds, as a claim of targets sees it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gridwright.node_programs.scratch.disks import Content

_EXT_SUPERBLOCK = 0x438
BLANK = "blank"
UNCLEAR = "unclear"
"""Nothing that libblkid knows, and yet not blank."""
TARGET = "target"
"""The superblock of a target of Lustre; `label` names it."""
FOREIGN = "foreign"
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Device:
    """A volume as this machine sees it."""

    path: str
    holds: str
    """BLANK, UNCLEAR, TARGET, FOREIGN or UNREADABLE."""
    what: str = ""
    """What it holds, for a message."""
    label: str = ""
    """The target's name, as `shared-OST0000`."""
    registered: bool = False
    """Whether it has been mounted before: the management server knows it."""


def device_of(path: str, content: Content) -> Device:
    """What the readers of scratch storage found, in the words of a claim."""
    if content.error is not None:
        return Device(path, UNREADABLE, content.error)
    # A target that is mounted is busy, and nothing but its label is asked for then.
    label = lustre_label(content.filesystem.label) if content.filesystem is not None else None
    if label is not None and all(offset == _EXT_SUPERBLOCK for offset, _ in content.signatures):
        name, registered = label
        return Device(path, TARGET, f"target {name} of Lustre", name, registered)
    if content.signatures or content.md is not None or content.filesystem is not None:
        named = " and ".join(sorted({kind for _, kind in content.signatures})) or "a superblock"
        own = (
            f" labelled {content.filesystem.label!r}"
            if content.filesystem and content.filesystem.label
            else ""
        )
        return Device(path, FOREIGN, named + own)
    if content.busy:
        return Device(path, FOREIGN, "something that uses it at this moment")
    return Device(path, BLANK) if content.zero_ends else Device(path, UNCLEAR, "data without a signature")


def lustre_label(label: str) -> tuple[str, bool] | None:
    """The target's name, and whether it was registered: mkfs.lustre writes `shared:OST0000` until it is."""
    if label == "MGS":
        return label, True
    found = re.fullmatch(r"([A-Za-z0-9_-]{1,8})([-:=+])((?:OST|MDT)[0-9a-f]{4})", label)
    return (f"{found[1]}-{found[3]}", found[2] != ":") if found else None
