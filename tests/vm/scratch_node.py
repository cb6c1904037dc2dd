"""A node of User Mode Linux with scratch storage: four disks, the program of nodes, and what it says."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.node_programs.one_file import SCRATCH
from tests.vm.machine import Answer, blank_disk
from tests.vm.uml import Uml

DEVICES = ("ubdb", "ubdc", "ubdd", "ubde")
DISK_BYTES = 512 << 20
"""Large enough that mkfs.xfs heeds the stripe, which it does from 1 GiB on."""
MOUNT_POINT = "/scratch"
_BLOCK = 4096
RUN_S = 120.0
"""The program takes six seconds on an idle machine."""
DESIRED = {
    "schema": 1,
    "wait_seconds": 0,
    "arrays": [
        {
            "name": "scratch",
            "mount_point": MOUNT_POINT,
            "members": len(DEVICES),
            "directories": [{"path": "work", "mode": "1777"}],
            "match": [{"transport": "ubd"}],
        }
    ],
}
_LOOK = f"""set -e
array=$(findmnt --noheadings --output SOURCE {MOUNT_POINT})
findmnt --noheadings --output FSTYPE,OPTIONS {MOUNT_POINT}
mdadm --detail --export $array
mdadm --detail $array
xfs_info {MOUNT_POINT}
cat /sys/block/${{array#/dev/}}/queue/read_ahead_kb
stat --format=%A {MOUNT_POINT}/work
echo works > {MOUNT_POINT}/work/probe
cat {MOUNT_POINT}/work/probe
rm {MOUNT_POINT}/work/probe
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the program said."""

    status: int
    document: Any
    errors: str

    @property
    def case(self) -> str:
        """What it took the array for: make, mount, rebuild, …"""
        return str(self.document["arrays"][0]["case"])


def blank_disks(directory: Path, devices: tuple[str, ...] = DEVICES) -> dict[str, Path]:
    """New disks, all zeros."""
    return {device: blank_disk(directory / f"{device}.img", DISK_BYTES) for device in devices}


def content(disk: Path) -> tuple[str, int]:
    """Hash of all bytes of a disk, and the size of its blocks that are not zero."""
    digest, filled = hashlib.sha256(), 0
    with disk.open("rb") as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        while at < size:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:  # ENXIO: there is only a hole from here on.
                break
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            for place in range(start // _BLOCK * _BLOCK, at, _BLOCK):
                block = os.pread(file.fileno(), _BLOCK, place)
                if block.count(0) < len(block):
                    digest.update(place.to_bytes(8, "big") + block)
                    filled += len(block)
    return digest.hexdigest(), filled


class ScratchNode:
    """A node that is to have RAID 0 of four disks at /scratch."""

    def __init__(self, machine: Uml) -> None:
        """`machine` has the disks."""
        self.machine = machine
        (machine.share / "scratch.pyz").write_bytes(SCRATCH.archive())
        (machine.share / "scratch.json").write_text(json.dumps(DESIRED))

    def boot(self) -> None:
        """Start it; the modules of arrays are loaded as systemd-modules-load would."""
        self.machine.boot()
        self.machine.run("modprobe raid0").ok()

    def command(self, *flags: str) -> str:
        """What runs the program."""
        return " ".join(["python3 /vm/scratch.pyz --config /vm/scratch.json --json", *flags])

    def scratch(self, *flags: str) -> Outcome:
        """Run the program to its end."""
        return outcome(self.machine.run(self.command(*flags), timeout_s=RUN_S))

    def assert_healthy(self) -> None:
        """The array is whole, aligned, tuned and mounted, and users can write to it."""
        seen = self.machine.run(_LOOK).ok()
        for wanted in (
            "MD_LEVEL=raid0",
            "MD_DEVICES=4",
            "MD_METADATA=1.2",
            "MD_NAME=gridwright:scratch",
            "Chunk Size : 512K",
            "sunit=128    swidth=512 blks",
            "noatime",
            "\n8192\n",
            "drwxrwxrwt",
            "\nworks\n",
        ):
            assert wanted in seen, f"no {wanted!r} in\n{seen}"
        assert " : clean" in seen or "State : active" in seen, seen


def outcome(answer: Answer) -> Outcome:
    """Read what the program said."""
    try:
        document = json.loads(answer.stdout)
    except ValueError:
        raise AssertionError(f"status {answer.status}: {answer.stdout}\n{answer.stderr}") from None
    return Outcome(answer.status, document, answer.stderr)
