"""`gridwright predict --free-space`: how full the targets of file systems are, saved or as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gridwright.errors import input_error
from gridwright.handed_files import read_named
from gridwright.refusals import refusal

if TYPE_CHECKING:
    from gridwright.filesystems.allocation import TargetSpace
    from gridwright.spec.model import GridSpec

FLAG = "--free-space"
NOW = "now"
_MOST_BYTES = 16 * 2**20
"""A line has about 80 bytes, and a file system a few thousand targets at most."""


def space_now(file: Path | None) -> tuple[GridSpec, Mapping[str, tuple[TargetSpace, ...]]]:
    """A grid, and the free space that its head node, or this machine, is told now. Raises GridwrightError."""
    from gridwright.cli.data.libraries import opened
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts

    spec, run_on = opened(file)
    found = {
        name: tuple(kind.target_space(filesystem, run_on(filesystem), str(filesystem.path)))
        for name, filesystem in spec.filesystems.items()
        if isinstance(kind := kind_of(filesystem), Layouts)
    }
    if not found:
        raise _has_none(spec)
    return spec, found


def space_in(path: Path, spec: GridSpec) -> Mapping[str, tuple[TargetSpace, ...]]:
    """The free space that a file tells, by file system of the grid. Raises GridwrightError."""
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.kind import Layouts

    text = _read(path)
    striped = {
        name: (filesystem, kind)
        for name, filesystem in spec.filesystems.items()
        if isinstance(kind := kind_of(filesystem), Layouts)
    }
    if not striped:
        raise _has_none(spec)
    spaces: dict[str, tuple[TargetSpace, ...]] = {}
    mounted: set[str] = set()
    for name, (each, kind) in striped.items():
        told = kind.printed_target_space(text, str(path))
        mounted |= set(told)
        alone = next(iter(told.values())) if len(told) == len(striped) == 1 else None
        space = told.get(str(each.path), alone)
        if space is not None:
            spaces[name] = tuple(space)
    if not spaces:
        raise input_error(
            f"it tells of {', '.join(sorted(mounted))}, and the grid has {', '.join(sorted(striped))} at "
            f"{', '.join(sorted(str(each.path) for each, _ in striped.values()))}",
            where=str(path),
            remedy="save what `lfs df PATH` prints, with the path of the grid spec",
        )
    return spaces


def _read(path: Path) -> str:
    try:
        data = read_named(path, _MOST_BYTES)
    except OSError as error:
        why = refusal(path, error, f"save what `lfs df PATH` prints there, or write {FLAG} {NOW}")
        raise input_error(f"it cannot be read: {why.reason}", where=str(path), remedy=why.remedy) from error
    if len(data) > _MOST_BYTES:
        raise input_error(
            "it is too long to be what `lfs df` prints", where=str(path), remedy="name another file"
        )
    return data.decode(errors="replace")


def _has_none(spec: GridSpec) -> Exception:
    return input_error(
        "no file system of the grid spreads files over targets",
        where=str(spec.file) if spec.file else FLAG,
        remedy=f"leave out {FLAG}: it is for Lustre",
    )
