"""Which layout of files a test has, where two are compared."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.filesystems.layout import FileLayout, layout_text
from gridwright.runs.phase_record import RequestedLayout


@dataclass(frozen=True, slots=True)
class TriedLayout:
    """Which of two layouts the files of a test have."""

    kind: str
    """The name of the kind of file system that sets and reads it."""
    name: str
    """As it was asked for."""
    layout: FileLayout
    """The chosen one."""
    chosen: bool = False
    """Else files have that of the library's directory."""

    @property
    def requested(self) -> RequestedLayout:
        """For the record."""
        return RequestedLayout(name=self.name, text=layout_text(self.layout), chosen=self.chosen)
