"""Which directories a test visits: the libraries of a spec, or one directory without a spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gridwright.iotest.options import LibraryTarget
from gridwright.machine import physical_cores
from gridwright.spec import GridSpec


def library_targets(spec: GridSpec) -> list[LibraryTarget]:
    """All libraries of the spec, in its order, as this node sees them."""
    cores = physical_cores()
    return [
        LibraryTarget(
            library=name,
            path=str(spec.library_directory(name)),
            filesystem=library.filesystem,
            requires_bytes_per_s_per_core=float(library.requires.bytes_per_s) if library.requires else None,
            cores=cores,
        )
        for name, library in spec.libraries.items()
    ]


def directory_target(directory: Path, name: str, requires: float | None) -> LibraryTarget:
    """One directory, required to give `requires` bytes/s per core."""
    return LibraryTarget(
        library=name,
        path=str(directory.absolute()),
        filesystem=None,
        requires_bytes_per_s_per_core=requires,
        cores=physical_cores(),
    )


def in_layouts(targets: Sequence[LibraryTarget], repeat: int) -> list[LibraryTarget]:
    """The tests of one repeat: each library once, and where layouts are compared once in each, side by side.

    The library's own layout comes first in odd repeats, and the chosen one in even ones (ABBA).
    """
    tests: list[LibraryTarget] = []
    for target in targets:
        if target.layout is None:
            tests.append(target)
            continue
        for chosen in (False, True) if repeat % 2 else (True, False):
            tests.append(replace(target, layout=replace(target.layout, chosen=chosen)))
    return tests
