"""Where a lab keeps its files on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LABS = Path("/var/lib/gridwright/labs")
"""Each lab has a directory here: only root can have one."""


@dataclass(frozen=True, slots=True)
class Places:
    """The files and directories of one lab; only root can enter its directory."""

    lab: str

    @property
    def home(self) -> Path:
        """The directory with everything of the lab."""
        return LABS / self.lab

    @property
    def lock(self) -> Path:
        """Held while a command changes the lab."""
        return LABS / f"{self.lab}.lock"

    @property
    def record(self) -> Path:
        """What the lab consists of: processes, addresses, control groups."""
        return self.home / "lab.json"

    @property
    def state(self) -> Path:
        """Its queue, the logs of its jobs, and its records, unless the spec names another place."""
        return self.home / "state"

    @property
    def secrets(self) -> Path:
        """Keys of its services; mode 0700."""
        return self.home / "secrets"

    @property
    def nodes(self) -> Path:
        """What each node has changed in its root file system, and what it stores."""
        return self.home / "nodes"

    def node(self, name: str) -> Path:
        """What a node has changed in its root file system, and what it stores."""
        return self.nodes / name

    @property
    def power_log(self) -> Path:
        """What was done to power nodes on and off for the scheduler."""
        return self.home / "power.log"

    @property
    def disks(self) -> Path:
        """Where storage nodes have their disks, as images."""
        return self.home / "disks"

    def disk(self, name: str) -> Path:
        """The disk of a storage node."""
        return self.disks / f"{name}.img"

    @property
    def filesystems(self) -> Path:
        """File systems of type local."""
        return self.home / "filesystems"

    def filesystem(self, name: str) -> Path:
        """The directory of this machine that all nodes share as a file system of type local."""
        return self.filesystems / name
