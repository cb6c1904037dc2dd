"""Disks of storage nodes: each is an image file, which is a block device while its node is up."""

from __future__ import annotations

from pathlib import Path

from gridwright.commands import run_bounded
from gridwright.errors import environment_error
from gridwright.providers.lab.layout import LabRole, PlannedNode
from gridwright.providers.lab.section import Lab
from gridwright.spec.model import GridSpec

MOUNT_POINT = "/srv/mfs"
"""Where a storage node has its disk."""
FILE_SYSTEM = "ext4"


def size_of(spec: GridSpec, node: PlannedNode) -> int | None:
    """The size of a node's disk in bytes; None where it has none of its own."""
    lab = spec.section(Lab)
    return lab.disk if lab is not None and node.role == LabRole.STORAGE else None


def attach(image: Path, size_bytes: int) -> str:
    """Make the disk where there is none yet, and attach it; the path of its block device.

    To be called when no node has it mounted: a device that a killed command left of it is given up.
    Raises GridwrightError (status ENVIRONMENT).
    """
    if not image.exists():
        image.parent.mkdir(parents=True, exist_ok=True)
        part = image.with_suffix(".part")
        part.unlink(missing_ok=True)
        with part.open("wb") as empty:
            empty.truncate(size_bytes)
        _call("mkfs.ext4", "-q", "-F", "-m", "0", str(part))
        part.rename(image)
    detach_all(image)
    return _call("losetup", "--find", "--show", str(image)).strip()


def detach(device: str) -> None:
    """Give a block device up: at once, or when nobody has it mounted any more. Raises GridwrightError."""
    _call("losetup", "--detach", device)


def detach_all(*images: Path) -> None:
    """Give up all block devices of disks, such as a killed command left them. Raises GridwrightError."""
    for image in images:
        for line in _call("losetup", "--associated", str(image)).splitlines():
            detach(line.partition(":")[0])


def _call(*command: str) -> str:
    answer = run_bounded(command, timeout_s=60.0)
    if answer.status:
        why = answer.stderr.decode(errors="replace").strip()
        raise environment_error(
            f"{command[0]} failed: {why}",
            remedy="leave out disk: in the spec of the lab, if this machine has no loop devices",
        )
    return answer.stdout.decode()
