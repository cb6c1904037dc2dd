"""Extended attributes and ACLs, which objects do not keep: the manifest has them."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping

from gridwright.beneath import descriptor_path

_OURS = ("trusted.gridwright.", "user.gridwright.")
"""What a file says of its object, and what is loaded of it, holds for this very file."""
_KEPT = ("user.", "system.posix_acl_", "trusted.")
"""Security labels and capabilities are the system's own, and not carried to another one, as setuid is not."""
_LEFT = ("trusted.lov", "trusted.hsm", "trusted.lma", "trusted.link", "trusted.overlay.", "trusted.SGI_ACL")
"""Attributes of file systems themselves belong to the one where they are."""


def _travels(name: str) -> bool:
    return name.startswith(_KEPT) and not name.startswith((*_OURS, *_LEFT))


def read_xattrs(file: int | bytes) -> bytes | None:
    """The extended attributes that travel of an open or pinned file, or of a path, not followed, encoded.

    None for none. Raises OSError.
    """
    is_open = isinstance(file, int)
    path = descriptor_path(file) if isinstance(file, int) else file
    try:
        names = os.listxattr(path, follow_symlinks=is_open)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return None
        raise
    kept = [name for name in names if _travels(name)]
    return encode({name: os.getxattr(path, name, follow_symlinks=is_open) for name in kept}) if kept else None


def encode(attributes: Mapping[str, bytes]) -> bytes:
    """Attributes as one value."""
    return json.dumps({name: attributes[name].hex() for name in sorted(attributes)}).encode()


def decode(value: bytes) -> dict[str, bytes]:
    """Attributes of a value. Raises ValueError."""
    found = json.loads(value)
    if not isinstance(found, dict):
        raise ValueError("no attributes")
    return {str(name): bytes.fromhex(text) for name, text in found.items() if _travels(str(name))}


def write_xattrs(file: int | str, value: bytes) -> None:
    """Give an open file, or one by `beneath.descriptor_path`, the attributes of a value.

    Raises OSError, and ValueError.
    """
    for name, data in decode(value).items():
        os.setxattr(file, name, data)
