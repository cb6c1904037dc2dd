"""What a monitor asks of a mounted file system, on nodes that have no more than the part brought along."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from gridwright.filesystems.builtin import WATCHED
from gridwright.filesystems.counters import FigureSource, ReadCounts
from gridwright.filesystems.health import Run
from gridwright.filesystems.mounts import is_served

if TYPE_CHECKING:
    from gridwright.filesystems.kind import FileSystemKind


def kind_mounted_as(kernel_type: str) -> FileSystemKind[Any] | None:
    """The first kind whose mounts the kernel calls so; None for disks, and where no kind can be asked here.

    A node with no more than the part of Gridwright that was brought to it has no kinds.
    """
    if not is_served(kernel_type):
        return None
    try:
        from gridwright.filesystems import all_kinds

        return next((kind for _, kind in all_kinds() if kernel_type in kind.kernel_types), None)
    except ImportError:
        return None


@runtime_checkable
class MountWatcher(Protocol):
    """Reads the counters of what is mounted. A kind of a site's own package may be one itself."""

    def mount_counters(self, run: Run, mount_point: str, root: Path | None = None) -> ReadCounts | None:
        """How to read what the node where `run` runs commands moved to and from what is mounted there.

        Asked once, and then read every second, by a monitor. None where clients count nothing. Nothing is
        looked at before the first reading. `root` is where the files of the node lie that `run` runs on;
        None where they cannot be opened here.
        """

    def server_figures(self, run: Run, root: Path) -> Mapping[str, FigureSource]:
        """What a node that has it mounted, as a server or a client, tells beside that, while people watch.

        By a name that says what it is. `run` starts a process on it: at most one a minute in all. Kinds that
        tell the same have the same names.
        """


@cache
def watcher_of(kernel_type: str) -> MountWatcher | None:
    """Who answers for what the kernel calls so, without its kind where that needs none; None for disks."""
    if kernel_type in WATCHED:
        module, _, name = WATCHED[kernel_type].partition(":")
        return cast("MountWatcher", getattr(import_module(module), name))
    kind = kind_mounted_as(kernel_type)
    return kind if isinstance(kind, MountWatcher) else None
