"""What is wanted of the layouts of a library's files, for who judges what is there."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.filesystems.layout import FileLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredLayout:
    """The layout that files of a library are to have, and what a target delivers."""

    library: str
    """Its name."""
    layout: FileLayout | None = None
    """None where nothing is wanted: files are then held against what their directory gives to new ones."""
    stated: bool = True
    """Whether the grid spec says it; else the model chose."""
    target_bytes_per_s: float | None = None
    """What one target delivers to readers, as the model has it; None where nothing is known."""
    spec_file: str = "grid.yaml"

    def command(self, verb: str) -> str:
        """The command of Gridwright that mends it, such as `gridwright layout set grid.yaml data`."""
        return f"gridwright layout {verb} {self.spec_file} {self.library}"
