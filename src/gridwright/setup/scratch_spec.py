"""Makes the configuration of scratch storage on the nodes of a grid from its spec."""

from __future__ import annotations

import hashlib
from typing import Any

from gridwright.errors import GridwrightError, Problem
from gridwright.filesystems import kind_of
from gridwright.filesystems.capabilities import NodeDisks
from gridwright.filesystems.library_directories import LIBRARY_MODES
from gridwright.filesystems.scratch_array import ScratchArray
from gridwright.node_programs.scratch.configuration import READ_AHEAD_KIB, SCHEMA
from gridwright.spec.model import GridSpec

_LONGEST_NAME = 20
"""What md keeps of a name behind `gridwright:` (scratch.configuration)."""
_DIGITS = 6


def scratch_configuration(spec: GridSpec, *, read_ahead_kib: int = READ_AHEAD_KIB) -> dict[str, Any]:
    """What /etc/gridwright/scratch.json holds on each compute node; plain data, without arrays where none is.

    Each local file system on disks of an instance store becomes an array, and each library on it a directory.
    Raises GridwrightError where two of them would each take all disks.
    """
    found = {
        name: array
        for name, filesystem in spec.filesystems.items()
        if isinstance(kind := kind_of(filesystem), NodeDisks)
        and (array := kind.scratch_array(filesystem)) is not None
    }
    greedy = [name for name, array in found.items() if array.disks is None]
    if len(greedy) > 1:
        raise GridwrightError(
            *(
                Problem(
                    f"file systems {' and '.join(greedy)} would each take all disks of the instance store",
                    field=f"filesystems.{name}.disks.count",
                    remedy="say how many disks each has, or put their libraries on one file system",
                )
                for name in greedy
            )
        )
    arrays = [
        {**_array(spec, name, array), "read_ahead_kib": read_ahead_kib} for name, array in found.items()
    ]
    return {"schema": SCHEMA, "arrays": arrays}


def _array(spec: GridSpec, name: str, array: ScratchArray) -> dict[str, Any]:
    filesystem = spec.filesystems[name]
    below: dict[str, str] = {}
    for library in spec.libraries:
        if spec.libraries[library].filesystem == name:
            directory = spec.library_directory(library).relative_to(filesystem.path)
            # Two libraries may share a directory; the more open one decides.
            mode = f"{LIBRARY_MODES[library]:04o}"
            below[directory.as_posix()] = max(mode, below.get(directory.as_posix(), ""))
    return {
        "name": array_name(name),
        "mount_point": str(filesystem.path),
        "members": array.disks,
        "chunk_bytes": array.chunk_bytes,
        "format": array.format,
        "owner": "root",
        "group": "root",
        "mode": below.pop(".", "0755"),
        "directories": [
            {"path": path, "owner": "root", "group": "root", "mode": mode} for path, mode in below.items()
        ],
    }


def array_name(filesystem: str) -> str:
    """The name of an array: the file system's; of a long one its beginning and a digest of the whole."""
    if len(filesystem) <= _LONGEST_NAME:
        return filesystem
    digest = hashlib.sha256(filesystem.encode()).hexdigest()[:_DIGITS]
    return f"{filesystem[: _LONGEST_NAME - _DIGITS - 1].rstrip('-')}-{digest}"
