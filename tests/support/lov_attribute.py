"""Builds the attribute `lustre.lov` out of a layout, as lustre_user.h of Lustre 2.17 lays it out."""

from __future__ import annotations

import struct
from collections.abc import Collection

from gridwright.filesystems.layout import Component, FileLayout

V1, V3, COMPOSITE, FOREIGN = 0x0BD10BD0, 0x0BD30BD0, 0x0BD60BD0, 0x0BD70BD0
END = 2**64 - 1
FLAGS = {"stale": 1, "prefrd": 2, "prefwr": 4, "offline": 8, "init": 0x10, "nosync": 0x20, "extension": 0x40}


def lov_attribute(layout: FileLayout, *, released: bool = False, extension_bytes: int | None = None) -> bytes:
    """Plain where the layout has one component to the end of the file without flags, else composite."""
    first = layout.components[0]
    if len(layout.components) == 1 and first.end is None and not first.flags:
        return _striping(first, released=released, is_default=layout.is_default)
    blobs = []
    for each in layout.components:
        is_extension = "extension" in each.flags
        size = (extension_bytes or 0) // 1024 if is_extension else None
        blobs.append(_striping(each, released=released, size=size))
    offset = 32 + 48 * len(blobs)
    entries = b""
    for place, (each, blob) in enumerate(zip(layout.components, blobs, strict=True)):
        entries += struct.pack(
            "<IIQQIIIQI",
            each.mirror << 16 | place + 1,
            _bits(each.flags),
            each.start,
            END if each.end is None else each.end,
            offset,
            len(blob),
            *(0, 0, 0),
        )
        offset += len(blob)
    head = struct.pack("<IIIHHH6xQ", COMPOSITE, offset, 3, 0, len(blobs), layout.mirrors - 1, 0)
    return head + entries + b"".join(blobs)


def foreign_attribute(kind: int, value: bytes) -> bytes:
    """That of a file whose data Lustre does not hold."""
    return struct.pack("<IIII", FOREIGN, len(value), kind, 0) + value


def _bits(flags: Collection[str]) -> int:
    return sum(FLAGS[each] for each in flags)


def _striping(
    component: Component, *, released: bool = False, is_default: bool = False, size: int | None = None
) -> bytes:
    pattern = 0x100 if component.on_metadata_server else 1
    pattern |= (0x200 if component.overstriped else 0) | (0x80000000 if released else 0)
    head = struct.pack(
        "<IIQQIHH",
        V3 if component.pool else V1,
        0 if is_default else pattern,
        *(2, 0x200000401),
        component.stripe_bytes or 0 if size is None else size,
        component.stripe_count & 0xFFFF,
        0xFFFF,
    )
    pool = component.pool.encode().ljust(16, b"\0") if component.pool else b""
    objects = b"".join(
        struct.pack("<QQII", 0x240000400 + (ost << 30), place + 3, 0, ost)
        for place, ost in enumerate(() if released else component.osts)
    )
    return head + pool + objects
