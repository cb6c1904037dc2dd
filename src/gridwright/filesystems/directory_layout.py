"""Whether a library's directory gives new files the layout that they are to have."""

from __future__ import annotations

from contextlib import suppress

from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.capabilities import Layouts
from gridwright.filesystems.desired_layout import DesiredLayout
from gridwright.filesystems.health import Run
from gridwright.spec.filesystem import FileSystem
from gridwright.spec.library import Library


def layout_in_spec(filesystem: FileSystem, name: str, library: Library) -> DesiredLayout:
    """What the spec says of a library's layout, for who does not ask the model."""
    kind = kind_of(filesystem)
    stated = kind.stated_layout(filesystem, library) if isinstance(kind, Layouts) else None
    return DesiredLayout(library=name, layout=stated)


def number_of_targets(filesystem: FileSystem, run: Run) -> int:
    """How many targets it has: a spec may not say so, and the model then chooses as if there were many.

    0 where nobody says.
    """
    kind = kind_of(filesystem)
    with suppress(GridwrightError):
        return (
            len(kind.target_space(filesystem, run, str(filesystem.path))) if isinstance(kind, Layouts) else 0
        )
    return 0


def directory_findings(
    filesystem: FileSystem, run: Run, directory: str, wish: DesiredLayout
) -> list[Finding]:
    """A finding where it gives another one; none where none is wanted, or the kind has no layouts.

    Where the model chooses, a layout that somebody has set is information: setup leaves it, too.
    Raises GridwrightError (status ENVIRONMENT) where nothing answers.
    """
    wanted, kind = wish.layout, kind_of(filesystem)
    if wanted is None or not isinstance(kind, Layouts):
        return []
    layout = kind.layout(filesystem, run, directory)
    if layout.is_as(wanted):
        return []
    if not wish.stated and (targets := number_of_targets(filesystem, run)):
        wanted = wanted.within(targets)
        if layout.within(targets).is_as(wanted):
            return []
    whose = "the spec states" if wish.stated else "the model chooses"
    own = " (that of the whole file system)" if layout.is_default else ""
    return [
        Finding(
            "warning" if wish.stated or layout.is_default else "info",
            "directory-layout-differs",
            f"new files in {directory} get {layout.text}{own}; {whose} {wanted.text}",
            f"Set it for new files: {wish.command('set')}"
            + ("" if wish.stated else "; or state in the spec what you have set"),
        )
    ]
