"""Scans a library where it is mounted, and tells in words how its files lie."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from gridwright.errors import GridwrightError
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import Component, FileLayout
from gridwright.filesystems.library_layouts import LayoutClass, LibraryLayouts
from gridwright.filesystems.lustre_client.attribute import ATTRIBUTES, Scanned
from gridwright.filesystems.lustre_client.scan_program import LibraryScan
from gridwright.messages import MessageError, decode

SECONDS = 3.0
_PROGRAM = (sys.executable, "-P", "-m", "gridwright.filesystems.lustre_client.scan_program")


def scan_library(
    run: Run, directory: str, *, seconds: float = SECONDS, attributes: Sequence[str] = ATTRIBUTES
) -> LibraryScan | None:
    """Scan it where `run` runs commands; None where this Gridwright is not there, or nothing answers."""
    named = [word for name in attributes for word in ("--attribute", name)]
    try:
        answer = run([*_PROGRAM, "--seconds", str(seconds), *named, directory], timeout_s=seconds + 10)
        return decode(answer.stdout, LibraryScan) if answer.status == 0 else None
    except (GridwrightError, MessageError):
        return None


SHOW_S = 20.0
"""For a look whose result is shown: some million files."""


def library_layouts(
    run: Run, directory: str, *, seconds: float = SHOW_S, attributes: Sequence[str] = ATTRIBUTES
) -> LibraryLayouts | None:
    """What a scan says of all files; None where none can be made."""
    found = scan_library(run, directory, seconds=seconds, attributes=attributes)
    if found is None:
        return None
    scanned = found.scanned
    summed: dict[tuple[str, int], tuple[int, int]] = {}
    for each in scanned.classes:
        files, size = summed.get((each.layout, each.size_class), (0, 0))
        summed[each.layout, each.size_class] = files + each.files, size + each.bytes
    classes = [
        LayoutClass(
            layout=short_in_words(layout), below_bytes=2**power if power else 0, files=files, bytes=size
        )
        for (layout, power), (files, size) in sorted(summed.items(), key=lambda item: -item[1][1])
    ]
    return LibraryLayouts(
        default=found.default.layout if found.default else None,
        default_unread=None if found.default else _why_unread(directory, scanned),
        files=scanned.files.files,
        bytes=scanned.files.bytes,
        classes=classes,
        released=scanned.released.files,
        elsewhere=scanned.foreign.files,
        without_layout=scanned.without_layout.files,
        unread=scanned.unread + len(scanned.hanging),
        targets=scanned.targets,
        metadata_server_bytes=scanned.metadata_server_bytes,
        complete=scanned.complete,
    )


def _why_unread(directory: str, scanned: Scanned) -> str | None:
    if scanned.hanging:
        return f"{scanned.hanging[0]} hangs"
    return next((each.reason for each in scanned.unread_named if each.path == directory), None)


def short_in_words(short: str) -> str:
    """`67108864:1,-1` as `1 up to 64 MiB, then all`; what is no such form as it is."""
    rows = [re.fullmatch(r"(\+?)(?:(\d+):)?(mdt|-?\d+)(o?)(?:@(.+))?", word) for word in short.split(",")]
    components: list[Component] = []
    mirror = 0
    for row in rows:
        if row is None:
            return short
        mirror += bool(row[1])
        components.append(
            Component(
                end=int(row[2]) if row[2] else None,
                stripe_count=0 if row[3] == "mdt" else int(row[3]),
                on_metadata_server=row[3] == "mdt",
                overstriped=bool(row[4]),
                pool=row[5],
                mirror=mirror,
            )
        )
    return FileLayout(tuple(components)).text
