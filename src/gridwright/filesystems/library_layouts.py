"""How the files of a library lie on targets: its layout for new files, and what is there, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gridwright.filesystems.layout import ALL, Component, FileLayout
from gridwright.units import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutClass:
    """Files of a layout and a size; sizes in bytes."""

    layout: str
    """In words, such as `1 up to 64 MiB, then all`."""
    below_bytes: int
    """Their size is below it, and at least half of it; 0 for empty files."""
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryLayouts:
    """What a look through a library's directory found."""

    default: FileLayout | None
    """What new files get; None where the directory has none of its own."""
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
    return in_words(layout)


def in_words(layout: FileLayout) -> str:
    """Each mirror's components with their stripes: `1 up to 64 MiB, then all`."""
    mirrors: dict[int, list[Component]] = defaultdict(list)
    for each in layout.components:
        mirrors[each.mirror].append(each)
    return "; mirrored: ".join(", then ".join(map(_part, parts)) for parts in mirrors.values())


def _part(part: Component) -> str:
    return _stripes(part) if part.end is None else f"{_stripes(part)} up to {format_bytes(part.end)}"


def _stripes(part: Component) -> str:
    if part.on_metadata_server:
        return "on the metadata server"
    stripes = "all" if part.stripe_count == ALL else str(part.stripe_count)
    stripes += " overstriped" if part.overstriped else ""
    return stripes + (f" in pool {part.pool}" if part.pool else "")


def details(layout: FileLayout) -> list[str]:
    """A line for each component: where it lies, its stripes, their size, and their targets."""
    lines = []
    for part in layout.components:
        end = "the end" if part.end is None else format_bytes(part.end)
        words = [f"{format_bytes(part.start)} to {end}: {_stripes(part)}"]
        if part.stripe_bytes and not part.on_metadata_server:
            words.append(f"stripes of {format_bytes(part.stripe_bytes)}")
        if part.osts:
            words.append("targets " + " ".join(map(str, part.osts)))
        words += part.flags
        lines.append(", ".join(words))
    return lines
