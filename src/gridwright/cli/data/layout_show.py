"""Shows layouts: of files and directories in detail, of libraries with what lies in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.cli.data.libraries import opened
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import input_error

if TYPE_CHECKING:
    from gridwright.filesystems.health import Run
    from gridwright.filesystems.layout import FileLayout
    from gridwright.filesystems.library_layouts import LibraryLayouts
    from gridwright.spec import GridSpec

_MOST_ROWS = 30


def show(file: Path | None, paths: Sequence[Path], *, json: bool) -> None:
    """Print them. Raises GridwrightError."""
    spec, run = opened(file)
    output = Output("layout show", json=json)
    if paths:
        found = {str(path): _layout_of(spec, run, path) for path in paths}
        output.show(LazyResult(document=lambda: _paths_document(found), text=lambda: _paths_text(found)))
        return
    libraries = _libraries(spec, run)
    output.show(
        LazyResult(document=lambda: _libraries_document(libraries), text=lambda: _libraries_text(libraries))
    )


def _layout_of(spec: GridSpec, run: Run, path: Path) -> FileLayout:
    from gridwright.filesystems import kind_of

    for role, library in spec.libraries.items():
        filesystem = spec.filesystems[library.filesystem or ""]
        if path.is_relative_to(spec.library_directory(role)):
            found = kind_of(filesystem).layout(filesystem, run, str(path))
            if found is not None:
                return found
    raise input_error(
        f"{path} is in no library whose file system lets its users choose layouts",
        where=str(path),
        remedy="name a path below a library on Lustre, with all its directories from / on",
    )


def _libraries(spec: GridSpec, run: Run) -> Mapping[str, LibraryLayouts | None]:
    from gridwright.filesystems import kind_of

    return {
        str(role): kind_of(described).library_layouts(described, run, str(spec.library_directory(role)))
        for role, library in spec.libraries.items()
        if (described := spec.filesystems[library.filesystem or ""])
    }


def _paths_document(found: Mapping[str, FileLayout]) -> dict[str, Any]:
    from gridwright.messages import plain

    return {"paths": {path: plain(each) for path, each in found.items()}}


def _paths_text(found: Mapping[str, FileLayout]) -> str:
    from gridwright.filesystems.library_layouts import default_in_words, details

    lines = []
    for path, each in found.items():
        lines.append(f"{path}: {default_in_words(each)}")
        lines += [f"  {line}" for line in details(each)]
    return "\n".join(lines)


def _libraries_document(libraries: Mapping[str, LibraryLayouts | None]) -> dict[str, Any]:
    from gridwright.messages import plain

    return {"libraries": {role: plain(each) if each else None for role, each in libraries.items()}}


def _libraries_text(libraries: Mapping[str, LibraryLayouts | None]) -> str:
    return "\n".join(
        line for role, each in libraries.items() for line in (_library(role, each) if each else [_none(role)])
    )


def _none(role: str) -> str:
    return f"{role}: nothing is told: its file system has no layouts, or nobody reads them on the head node"


def _library(role: str, found: LibraryLayouts) -> list[str]:
    from gridwright.filesystems.library_layouts import default_in_words
    from gridwright.units import format_bytes

    part = "" if found.complete else " (of those found in time)"
    lines = [
        f"{role}: new files get {default_in_words(found.default)}",
        f"  {found.files} files, {format_bytes(found.bytes)}{part}",
    ]
    for each in found.classes[:_MOST_ROWS]:
        size = f"below {format_bytes(each.below_bytes)}" if each.below_bytes else "empty"
        lines.append(f"  {each.files:>10} files {size:>16} {format_bytes(each.bytes):>10}  {each.layout}")
    more = len(found.classes) - _MOST_ROWS
    lines += [f"  and {more} more rows (--json has all)"] if more > 0 else []
    left = {
        "released to the archive": found.released,
        "kept elsewhere": found.elsewhere,
        "without a layout": found.without_layout,
        "not read": found.unread,
    }
    lines += [f"  {number:>10} {what}" for what, number in left.items() if number]
    return lines
