"""What a monitor asks of an NFS that is mounted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gridwright.filesystems.counters import ReadCounts
from gridwright.filesystems.health import Run
from gridwright.filesystems.nfs_client.mountstats import MountCounter
from gridwright.filesystems.reading import FigureSource


class NfsWatcher:
    """Answers for clients; see `FileSystemKind`."""

    def mount_counters(self, run: Run, mount_point: str, root: Path | None = None) -> ReadCounts:
        """Of the mount, on the wire."""
        return MountCounter(run, mount_point).read

    def server_figures(self, run: Run, root: Path) -> Mapping[str, FigureSource]:
        """Nothing: servers of NFS are no business of a grid."""
        return {}


WATCHER = NfsWatcher()
