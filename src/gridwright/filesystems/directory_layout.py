"""Whether a library's directory gives new files the layout that they are to have."""

from __future__ import annotations

from typing import Any

from gridwright.errors import Finding
from gridwright.filesystems.health import Run
from gridwright.filesystems.kind import FileSystemKind
from gridwright.filesystems.layout_wish import LayoutWish
from gridwright.spec.filesystem import FileSystem
from gridwright.spec.library import Library


def stated_wish(kind: FileSystemKind[Any], filesystem: FileSystem, name: str, library: Library) -> LayoutWish:
    """What the spec says of a library's layout, for who does not ask the model."""
    return LayoutWish(library=name, layout=kind.stated_layout(filesystem, library))


def directory_findings(
    kind: FileSystemKind[Any], filesystem: FileSystem, run: Run, directory: str, wish: LayoutWish
) -> list[Finding]:
    """A finding where it gives another one; none where none is wanted, or the kind has no layouts.

    Where the model chooses, a layout that somebody has set is information: setup leaves it, too.
    Raises GridwrightError (status ENVIRONMENT) where nothing answers.
    """
    wanted = wish.layout
    found = kind.layout(filesystem, run, directory) if wanted is not None else None
    if wanted is None or found is None or found.is_as(wanted):
        return []
    whose = "the spec states" if wish.stated else "the model chooses"
    own = " (that of the whole file system)" if found.is_default else ""
    return [
        Finding(
            "warning" if wish.stated or found.is_default else "info",
            "directory-layout-differs",
            f"new files in {directory} get {found.text}{own}; {whose} {wanted.text}",
            f"Set it for new files: {wish.command('set')}"
            + ("" if wish.stated else "; or state in the spec what you have set"),
        )
    ]
