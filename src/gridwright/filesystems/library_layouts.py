"""How the files of a library lie on targets: its layout for new files, and what is there, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gridwright.filesystems.layout import FileLayout
from gridwright.units import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutClass:
    """Files of a layout and a size; sizes in bytes."""

    layout: str
    """In words, such as `1 OST until 64 MiB, then all`."""
    below_bytes: int
    """Their size is below it, and at least half of it; 0 for empty files."""
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLayouts:
    """What a look through a library's directory found."""

    default: FileLayout | None
    """What new files get; None where the directory has none of its own."""
    default_unread: str | None = None
    """Why it is not known what new files get, such as that there is no such directory."""
    files: int
    bytes: int
    classes: Sequence[LayoutClass] = ()
    """Without files that are released, lie elsewhere, or tell no layout."""
    released: int = 0
    """Files whose data are in the archive only."""
    elsewhere: int = 0
    """Files whose data the file system does not hold (foreign layouts)."""
    without_layout: int = 0
    unread: int = 0
    targets: Mapping[str, int] = field(default_factory=dict)
    """Bytes by index of target."""
    metadata_server_bytes: int = 0
    complete: bool = True
    """Whether the look came to its end."""


def default_in_words(layout: FileLayout | None) -> str:
    """What new files get."""
    if layout is None or layout.is_default:
        return "that of the whole file system"
    return layout.text


def details(layout: FileLayout) -> list[str]:
    """A line for each component: where it lies, its stripes, their size, and their targets."""
    lines = []
    for part in layout.components:
        end = "the end" if part.end is None else format_bytes(part.end)
        words = [f"{format_bytes(part.start)} to {end}: {replace(part, end=None).text}"]
        if part.osts:
            words.append("targets " + " ".join(map(str, part.osts)))
        words += part.flags
        lines.append(", ".join(words))
    return lines
