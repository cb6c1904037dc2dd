"""File systems: one package for each kind, and what a node can tell of any mounted one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gridwright.filesystems.kind import FileSystemKind
    from gridwright.spec.filesystem import FileSystem


def kind_of(filesystem: FileSystem) -> FileSystemKind[Any]:
    """The kind of a file system of a spec, which answers all that is asked of it; see `kind.py`."""
    from gridwright.spec.filesystem import FILESYSTEMS

    return cast("FileSystemKind[Any]", FILESYSTEMS.get(filesystem.type))


def kind_named(name: str) -> FileSystemKind[Any]:
    """The kind that a spec gives this name. Raises as `KindRegistry.get` does."""
    from gridwright.spec.filesystem import FILESYSTEMS

    return cast("FileSystemKind[Any]", FILESYSTEMS.get(name))


def all_kinds() -> Iterator[tuple[str, FileSystemKind[Any]]]:
    """Every kind that can be imported, with its name."""
    from gridwright.spec.filesystem import FILESYSTEMS

    return cast("Iterator[tuple[str, FileSystemKind[Any]]]", FILESYSTEMS.kinds())
