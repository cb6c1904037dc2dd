"""Shows layouts: of files and directories in detail, of libraries with what lies in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.cli.data.libraries import opened
from gridwright.cli.data.wanted_layouts import layout_wishes
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import input_error

if TYPE_CHECKING:
    from gridwright.doctor.mounting_nodes import RunOn
    from gridwright.filesystems.layout import FileLayout
    from gridwright.filesystems.layout_wish import LayoutWish
    from gridwright.filesystems.library_layouts import LibraryLayouts
    from gridwright.spec import GridSpec

_MOST_ROWS = 30


def show(file: Path | None, paths: Sequence[Path], *, json: bool) -> None:
    """Print them. Raises GridwrightError."""
    spec, run_on = opened(file)
    output = Output("layout show", json=json)
    if paths:
        found = {str(path): _layout_of(spec, run_on, path) for path in paths}
        output.show(LazyResult(document=lambda: _paths_document(found), text=lambda: _paths_text(found)))
        return
    shown = _libraries(spec, run_on)
    output.show(LazyResult(document=lambda: _libraries_document(shown), text=lambda: _libraries_text(shown)))


def _layout_of(spec: GridSpec, run_on: RunOn, path: Path) -> FileLayout:
    from gridwright.filesystems import kind_of

    for role, library in spec.libraries.items():
        filesystem = spec.filesystems[library.filesystem or ""]
        if path.is_relative_to(spec.library_directory(role)):
            found = kind_of(filesystem).layout(filesystem, run_on(filesystem), str(path))
            if found is not None:
                return found
    raise input_error(
        f"{path} is in no library whose file system lets its users choose layouts",
        where=str(path),
        remedy="name a path below a library on Lustre, with all its directories from / on",
    )


@dataclass(frozen=True, slots=True)
class _Library:
    """What is in a library, and what is wanted of it; None where nobody tells, or nothing is wanted."""

    found: LibraryLayouts | None
    wish: LayoutWish | None


def _libraries(spec: GridSpec, run_on: RunOn) -> Mapping[str, _Library]:
    from gridwright.filesystems import kind_of

    wishes = layout_wishes(spec)
    shown = {}
    for role, library in spec.libraries.items():
        described = spec.filesystems[library.filesystem or ""]
        found = kind_of(described).library_layouts(
            described, run_on(described), str(spec.library_directory(role))
        )
        shown[str(role)] = _Library(found, wishes.get(str(role)))
    return shown


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


def _libraries_document(shown: Mapping[str, _Library]) -> dict[str, Any]:
    from gridwright.messages import plain

    def one(each: _Library) -> dict[str, Any] | None:
        if each.found is None:
            return None
        wish = each.wish
        return {
            **plain(each.found),
            "wanted": None if wish is None or wish.layout is None else wish.layout.text,
            "wanted_by": None if wish is None else _whose(wish),
            "is_as_wanted": _is_as_wanted(each.found, wish),
        }

    return {"libraries": {role: one(each) for role, each in shown.items()}}


def _libraries_text(shown: Mapping[str, _Library]) -> str:
    return "\n".join(
        line
        for role, each in shown.items()
        for line in (_library(role, each.found, each.wish) if each.found else [_none(role)])
    )


def _none(role: str) -> str:
    return (
        f"{role}: nothing is told: its file system has no layouts, or no node that has mounted it reads them"
    )


def _whose(wish: LayoutWish) -> str:
    return "the spec" if wish.stated else "the model"


def _is_as_wanted(found: LibraryLayouts, wish: LayoutWish | None) -> bool | None:
    if wish is None or wish.layout is None or found.default_unread:
        return None
    return found.default is not None and found.default.is_as(wish.layout)


def _wanted(found: LibraryLayouts, wish: LayoutWish | None) -> list[str]:
    if wish is None or wish.layout is None:
        return []
    says = "the spec states" if wish.stated else "the model chooses"
    if found.default_unread:
        return [f"  {says} {wish.layout.text}"]
    if _is_as_wanted(found, wish):
        return [f"  as {says} it"]
    return [f"  {says} {wish.layout.text}: {wish.command('set')} sets that"]


def _library(role: str, found: LibraryLayouts, wish: LayoutWish | None) -> list[str]:
    from gridwright.filesystems.library_layouts import default_in_words
    from gridwright.units import format_bytes

    part = "" if found.complete else " (of those found in time)"
    lines = [
        f"{role}: what new files get is not known: {found.default_unread}"
        if found.default_unread
        else f"{role}: new files get {default_in_words(found.default)}",
        *_wanted(found, wish),
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
