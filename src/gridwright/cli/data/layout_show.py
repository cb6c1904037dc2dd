"""Shows layouts: of files and directories in detail, of libraries with what lies in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.cli.data.desired_layouts import layout_wishes
from gridwright.cli.data.libraries import opened
from gridwright.cli.output import LazyResult, Output
from gridwright.errors import ExitStatus, GridwrightError, Problem, input_error

if TYPE_CHECKING:
    from gridwright.doctor.access import RunOn
    from gridwright.filesystems.layout import DesiredLayout, FileLayout, LibraryLayouts
    from gridwright.spec import GridSpec

_MOST_ROWS = 30


def show(file: Path | None, paths: Sequence[Path], *, json: bool) -> None:
    """Print them; of paths each that has one, whatever the others are. Raises GridwrightError."""
    spec, run_on = opened(file)
    output = Output("layout show", json=json)
    if paths:
        layouts: dict[str, FileLayout] = {}
        problems: list[Problem] = []
        status = ExitStatus.DONE
        for path in paths:
            try:
                layouts[str(path)] = _layout_of(spec, run_on, path)
            except GridwrightError as error:
                problems += error.problems
                status = max(status, error.status)
        if layouts:
            output.show(
                LazyResult(document=lambda: _paths_document(layouts), text=lambda: _paths_text(layouts))
            )
        if problems:
            raise GridwrightError(*problems, status=status)
        return
    shown = _libraries(spec, run_on)
    output.show(LazyResult(document=lambda: _libraries_document(shown), text=lambda: _libraries_text(shown)))


def _layout_of(spec: GridSpec, run_on: RunOn, path: Path) -> FileLayout:
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts

    for role, library in spec.libraries.items():
        filesystem = spec.filesystems[library.filesystem or ""]
        if path.is_relative_to(spec.library_directory(role)):
            kind = kind_of(filesystem)
            if isinstance(kind, Layouts):
                return kind.layout(filesystem, run_on(filesystem), str(path))
    raise input_error(
        f"{path} is in no library whose file system lets its users choose layouts",
        where=str(path),
        remedy="name a path below a library on Lustre, with all its directories from / on",
    )


@dataclass(frozen=True, slots=True)
class _Library:
    """What is in a library, and what is wanted of it; None where nobody tells, or nothing is wanted."""

    found: LibraryLayouts | None
    wish: DesiredLayout | None


def _libraries(spec: GridSpec, run_on: RunOn) -> Mapping[str, _Library]:
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts

    wishes = layout_wishes(spec)
    shown = {}
    for role, library in spec.libraries.items():
        described = spec.filesystems[library.filesystem or ""]
        kind, directory = kind_of(described), str(spec.library_directory(role))
        found = (
            kind.library_layouts(described, run_on(described), directory)
            if isinstance(kind, Layouts)
            else None
        )
        shown[str(role)] = _Library(found, wishes.get(str(role)))
    return shown


def _paths_document(layouts: Mapping[str, FileLayout]) -> dict[str, Any]:
    from gridwright.messages import plain

    return {"paths": {path: plain(each) for path, each in layouts.items()}}


def _paths_text(layouts: Mapping[str, FileLayout]) -> str:
    from gridwright.filesystems.layout import default_in_words, details

    lines = []
    for path, each in layouts.items():
        lines.append(f"{path}: {default_in_words(each)}")
        lines += [f"  {line}" for line in details(each)]
    return "\n".join(lines)


def _libraries_document(shown: Mapping[str, _Library]) -> dict[str, Any]:
    from gridwright.messages import plain

    def one(library: _Library) -> dict[str, Any] | None:
        if library.found is None:
            return None
        wish = library.wish
        return {
            **plain(library.found),
            "wanted": None if wish is None or wish.layout is None else wish.layout.text,
            "wanted_by": None if wish is None else _whose(wish),
            "is_as_wanted": _is_as_desired(library.found, wish),
        }

    return {"libraries": {role: one(library) for role, library in shown.items()}}


def _libraries_text(shown: Mapping[str, _Library]) -> str:
    return "\n".join(
        line
        for role, library in shown.items()
        for line in (_library(role, library.found, library.wish) if library.found else [_none(role)])
    )


def _none(role: str) -> str:
    return (
        f"{role}: nothing is told: its file system has no layouts, or no node that has mounted it reads them"
    )


def _whose(wish: DesiredLayout) -> str:
    return "the spec" if wish.stated else "the model"


def _is_as_desired(layouts: LibraryLayouts, wish: DesiredLayout | None) -> bool | None:
    if wish is None or wish.layout is None or layouts.default_unread:
        return None
    return layouts.default is not None and layouts.default.is_as(wish.layout)


def _desired_lines(layouts: LibraryLayouts, wish: DesiredLayout | None) -> list[str]:
    if wish is None or wish.layout is None:
        return []
    says = "the spec states" if wish.stated else "the model chooses"
    if layouts.default_unread:
        return [f"  {says} {wish.layout.text}"]
    if _is_as_desired(layouts, wish):
        return [f"  as {says} it"]
    return [f"  {says} {wish.layout.text}: {wish.command('set')} sets that"]


def _library(role: str, layouts: LibraryLayouts, wish: DesiredLayout | None) -> list[str]:
    from gridwright.filesystems.layout import default_in_words
    from gridwright.units import format_bytes

    part = "" if layouts.complete else " (of those found in time)"
    lines = [
        f"{role}: what new files get is not known: {layouts.default_unread}"
        if layouts.default_unread
        else f"{role}: new files get {default_in_words(layouts.default)}",
        *_desired_lines(layouts, wish),
        f"  {layouts.files} files, {format_bytes(layouts.bytes)}{part}",
    ]
    for each in layouts.classes[:_MOST_ROWS]:
        size = f"below {format_bytes(each.below_bytes)}" if each.below_bytes else "empty"
        lines.append(f"  {each.files:>10} files {size:>16} {format_bytes(each.bytes):>10}  {each.layout}")
    more = len(layouts.classes) - _MOST_ROWS
    lines += [f"  and {more} more rows (--json has all)"] if more > 0 else []
    left = {
        "released to the archive": layouts.released,
        "kept elsewhere": layouts.elsewhere,
        "without a layout": layouts.without_layout,
        "not read": layouts.unread,
    }
    lines += [f"  {number:>10} {what}" for what, number in left.items() if number]
    return lines
