"""Directories of libraries and the layouts that they are to have, as the playbook's roles read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridwright.filesystems import kind_of
from gridwright.filesystems.layout import Component, LayoutChoice
from gridwright.filesystems.library_directories import LIBRARY_MODES
from gridwright.spec.model import GridSpec


def layout_rows(spec: GridSpec, layouts: Mapping[str, LayoutChoice]) -> list[dict[str, Any]]:
    """A row for each library whose file system lets people choose: directory, layout, and what sets it."""
    rows: list[dict[str, Any]] = []
    for role in spec.libraries:
        choice = layouts.get(role)
        if choice is None:
            continue
        filesystem = spec.filesystem_of(role)
        directory = str(spec.library_directory(role))
        command = kind_of(filesystem).layout_command(filesystem, choice.layout, directory)
        if command is not None:
            rows.append(
                {
                    "library": str(role),
                    "path": directory,
                    "mount": str(filesystem.path),
                    "mode": f"{LIBRARY_MODES[role]:04o}",
                    "stated": choice.stated,
                    "layout": choice.layout.text,
                    "components": [_row(each) for each in choice.layout.components],
                    "command": command,
                }
            )
    return rows


def _row(component: Component) -> dict[str, Any]:
    """A part of the layout, in the names that `lfs getstripe` has for it; what is not wanted is left out."""
    end = {} if component.end is None else {"end": component.end}
    if component.on_metadata_server:
        return {**end, "pattern": "mdt"}
    size = {} if component.stripe_bytes is None else {"stripe_size": component.stripe_bytes}
    pool = {} if component.pool is None else {"pool": component.pool}
    return {
        **end,
        "pattern": "raid0,overstriped" if component.overstriped else "raid0",
        "stripe_count": component.stripe_count,
        **size,
        **pool,
    }
