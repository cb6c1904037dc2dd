"""What a monitor asks of a mounted file system, on nodes that have no more than the part brought along."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from gridwright.filesystems.builtin import WATCHED
from gridwright.filesystems.counters import ReadCounts
from gridwright.filesystems.health import Run
from gridwright.filesystems.mounted_kind import kind_mounted_as
from gridwright.filesystems.reading import FigureSource


class MountWatcher(Protocol):
    """The two questions of `FileSystemKind` that need no spec; see there."""

    def mount_counters(self, run: Run, mount_point: str, root: Path | None = None) -> ReadCounts | None:
        """How to read what the node moved to and from what is mounted there."""

    def server_figures(self, run: Run, root: Path) -> Mapping[str, FigureSource]:
        """What it tells beside that."""


@cache
def watcher_of(kernel_type: str) -> MountWatcher | None:
    """Who answers for what the kernel calls so, without its kind where that needs none; None for disks."""
    if kernel_type in WATCHED:
        module, _, name = WATCHED[kernel_type].partition(":")
        return cast("MountWatcher", getattr(import_module(module), name))
    return kind_mounted_as(kernel_type)
