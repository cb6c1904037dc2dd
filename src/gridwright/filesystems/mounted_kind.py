"""The kind of a file system that is mounted, by what the kernel calls it: for tests without a grid spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
