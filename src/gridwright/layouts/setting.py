"""Gives the directory of a library a layout, which new files in it get."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gridwright.errors import GridwrightError, Problem, input_error
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import Run
from gridwright.filesystems.kind import Layouts
from gridwright.filesystems.layout import FileLayout, LayoutChoice
from gridwright.filesystems.library_directories import number_of_targets
from gridwright.spec.model import GridSpec


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """What a directory had, is to have, and has."""

    library: str
    directory: str
    before: FileLayout
    wanted: LayoutChoice
    command: tuple[str, ...]
    after: FileLayout
    """What it has now; what it had, where nothing had to be set or --dry-run was given."""

    @property
    def differs(self) -> bool:
        """Whether the directory had another layout than is wanted."""
        return not self.before.is_as(self.wanted.layout)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "library": self.library,
            "directory": self.directory,
            "before": self.before.text,
            "wanted": self.wanted.layout.text,
            "reason": self.wanted.reason,
            "after": self.after.text,
            "changed": self.differs and self.after.is_as(self.wanted.layout),
            "command": list(self.command),
        }

    def text(self) -> str:
        """On one line or two."""
        head = f"{self.library}: {self.directory}"
        if not self.differs:
            return f"{head}: {self.before.text}, as it should be"
        own = " (that of the whole file system)" if self.before.is_default else ""
        if not self.after.is_as(self.wanted.layout):
            return f"{head}: {self.before.text}{own} -> {self.wanted.layout.text}\n  {' '.join(self.command)}"
        return f"{head}: {self.before.text}{own} -> {self.after.text}"


def set_library_layout(
    spec: GridSpec, role: str, choice: LayoutChoice, run: Run, *, dry_run: bool
) -> LayoutChange:
    """Give a library's directory a layout where it has another one; files that are there keep theirs.

    Raises GridwrightError: INPUT for a layout that cannot be, or a file system that has none; ENVIRONMENT
    where the directory is not there or nothing answers.
    """
    library = next(name for name in spec.libraries if str(name) == role)
    filesystem = spec.filesystem_of(library)
    kind, directory = kind_of(filesystem), str(spec.library_directory(library))
    if not isinstance(kind, Layouts):
        raise input_error(
            f"library {role} lies on {kind.title}, which has no layouts to choose",
            where=str(spec.file) if spec.file else None,
            remedy="name a library on Lustre",
        )
    targets = number_of_targets(filesystem, run)
    if targets and not choice.stated:
        choice = replace(choice, layout=choice.layout.within(targets))
    elif targets:
        wide = choice.layout.wider_than(targets, spec.libraries[library].filesystem or "")
        if problems := [Problem(each.what, f"library {role}", remedy=each.remedy) for each in wide]:
            raise GridwrightError(*problems)
    command = kind.layout_command(filesystem, choice.layout, directory)
    before = after = kind.layout(filesystem, run, directory)
    if not dry_run and not before.is_as(choice.layout):
        after = kind.set_layout(filesystem, run, directory, choice.layout)
    return LayoutChange(role, directory, before, choice, tuple(command), after)
