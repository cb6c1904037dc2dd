"""Whether a library's directory gives new files the layout that the spec states."""

from __future__ import annotations

import shlex
from typing import Any

from gridwright.errors import Finding
from gridwright.filesystems.health import Run
from gridwright.filesystems.kind import FileSystemKind
from gridwright.spec.filesystem import FileSystem
from gridwright.spec.library import Library


def directory_findings(
    kind: FileSystemKind[Any], filesystem: FileSystem, library: Library, run: Run, directory: str
) -> list[Finding]:
    """A finding where it gives another one; none where the spec states none, or the kind has no layouts.

    Raises GridwrightError (status ENVIRONMENT) where nothing answers.
    """
    wanted = kind.stated_layout(filesystem, library)
    found = kind.layout(filesystem, run, directory) if wanted is not None else None
    if wanted is None or found is None or found.is_as(wanted):
        return []
    command = kind.layout_command(filesystem, wanted, directory)
    return [
        Finding(
            "warning",
            "directory-layout-differs",
            f"new files in {directory} get {found.text}; the spec states {wanted.text}",
            f"Set it for new files: {shlex.join(command)}" if command else "Set it for new files",
        )
    ]
