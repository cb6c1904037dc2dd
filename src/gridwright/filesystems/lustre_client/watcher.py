"""What a monitor asks of a Lustre that is mounted; takes root."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gridwright.filesystems.counters import ReadCounts
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.counters import ClientCounters
from gridwright.filesystems.lustre_client.parameter_files import ParameterFiles
from gridwright.filesystems.lustre_client.served import server_figures
from gridwright.filesystems.reading import FigureSource


class LustreWatcher:
    """Answers for clients and servers; see `FileSystemKind`."""

    def mount_counters(self, run: Run, mount_point: str, root: Path | None = None) -> ReadCounts:
        """By target, as the client counts them."""
        return ClientCounters(run, mount_point, None if root is None else ParameterFiles(root)).read

    def server_figures(self, run: Run, root: Path) -> Mapping[str, FigureSource]:
        """Of its targets on a server, and of connections to them on a client."""
        return server_figures(run, root)


WATCHER = LustreWatcher()
